"""What completions are worth: by a task's right answers, or by functions of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.importing import failure
from rlox.llm.decoding import Completed
from rlox.llm.prompts import Prompt
from rlox.llm.tasks import Task

__all__ = ["FunctionJudge", "Judge", "Judges", "RewardFunction", "TaskJudge"]

# (completions, prompts) -> a number for each; tokens of a completion up to its end, prompts `[B, P]`, or a
# list where they have different lengths.
RewardFunction = Callable[[list[Tensor], Any], Sequence[Any]]


class Judge(Protocol):
    """Rewards of completions."""

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, F]`, of each of F functions; NaN is no reward."""


class TaskJudge:
    """By the answers of a task: `right`, 1 of the right one and 0 of others, or `close`, its part that is."""

    def __init__(self, task: Task, kind: str = "right") -> None:
        self._worth = {"right": task.reward, "close": task.closeness}[kind]

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, 1]`; `ConfigError` for a prompt that is none of the task's."""
        found = []
        for prompt, row in zip(prompts, written.cpu().rows(), strict=True):
            if prompt.example is None:
                raise ConfigError(
                    "nobody knows the right answers of prompts that are handed over: give a reward_fn"
                )
            found.append(self._worth(row.numpy(), prompt.example))
        return np.array(found)[:, None]


class Judges:
    """Several, one after the other."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = judges

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """The columns of all, `[B, F]`."""
        return np.concatenate([judge(prompts, written) for judge in self._judges], 1)


def _given(prompts: Sequence[Prompt]) -> Any:
    """What a function of the user's is handed, which it may write to."""
    ids = [prompt.ids.clone() for prompt in prompts]
    return torch.stack(ids) if len({len(row) for row in ids}) == 1 else ids


class FunctionJudge:
    """Functions of the user's, by the names that messages call them."""

    def __init__(self, functions: Sequence[tuple[str, RewardFunction]]) -> None:
        self._functions = functions

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, F]`, a column of each function."""
        columns = [
            self._asked(name, function, written.cpu().rows(), _given(prompts))
            for name, function in self._functions
        ]
        return np.stack(columns, 1)

    def _asked(
        self, name: str, function: RewardFunction, rows: list[Tensor], prompts: Any
    ) -> NDArray[np.float64]:
        try:
            said = function(rows, prompts)
        except RloxError:
            raise
        except Exception as error:
            raise ConfigError(f"reward {name} fails: {failure(error)}") from error
        try:
            found = np.array([np.nan if r is None else float(r) for r in said], np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"reward {name} returned {said!r:.80}, expected a number, or None, for each completion"
            ) from error
        if len(found) != len(rows):
            raise ShapeError(
                f"reward {name} returned {len(found)} numbers for {len(rows)} completions, expected one each"
            )
        if np.isinf(found).any():
            raise ConfigError(
                f"reward {name} returned {found[np.isinf(found)][0]}, expected a finite number"
            )
        return found
