"""What completions are worth: by a task's right answers, or by functions of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.importing import failure
from rlox.llm.codecs import Codec
from rlox.llm.decoding import Completed
from rlox.llm.prompts import Prompt

__all__ = ["AnswerJudge", "FunctionJudge", "Judge", "Judges", "RewardFunction"]

# (completions, prompts) -> a number for each; tokens of a completion up to its end, prompts `[B, P]`, or a
# list where they have different lengths. What else it takes by name it gets: `texts`, the completions as
# texts, and columns of the prompts, a list of each.
RewardFunction = Callable[..., Sequence[Any]]
OPEN = inspect.Parameter.VAR_KEYWORD


class Judge(Protocol):
    """Rewards of completions."""

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, F]`, of each of F functions; NaN is no reward."""


class AnswerJudge:
    """By right answers: `right`, 1 of the right one and 0 of others, or `close`, its part that is."""

    def __init__(self, codec: Codec, kind: str = "right") -> None:
        self._worth = {"right": codec.right, "close": codec.close}[kind]

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, 1]`; `ConfigError` for a prompt without an answer."""
        found = []
        for prompt, row in zip(prompts, written.cpu().rows(), strict=True):
            if prompt.answer is None:
                raise ConfigError(
                    "nobody knows the right answer of a prompt that is handed over, or of a row without a "
                    "completion, or a text as answer: give a reward_fn (algo.rewards=[module:name])"
                )
            found.append(self._worth(prompt.ids.numpy(), row.numpy(), prompt.answer))
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
    """Functions of the user's, by the names that messages call them; `codec` makes texts of completions."""

    def __init__(
        self, functions: Sequence[tuple[str, RewardFunction]], codec: Codec | None = None
    ) -> None:
        self._functions, self._codec = functions, codec

    def __call__(self, prompts: Sequence[Prompt], written: Completed) -> NDArray[np.float64]:
        """`[B, F]`, a column of each function."""
        columns = [
            self._asked(name, function, written.cpu().rows(), prompts)
            for name, function in self._functions
        ]
        return np.stack(columns, 1)

    def _asked(
        self, name: str, function: RewardFunction, rows: list[Tensor], prompts: Sequence[Prompt]
    ) -> NDArray[np.float64]:
        texts = any(of.name == "texts" or of.kind is OPEN for of in _taken(function))
        more = _by_name(name, function, self._columns(rows if texts else [], prompts))
        both = {"completions": rows, "prompts": _given(prompts)}
        named = [of.name for of in _taken(function)[:2]] == ["prompts", "completions"]
        try:
            # as TRL has them, the other way round
            said = function(**both, **more) if named else function(*both.values(), **more)
        except RloxError:
            raise
        except Exception as error:
            raise ConfigError(f"reward {name} fails: {failure(error)}") from error
        try:
            found = np.array([np.nan if r is None else float(r) for r in said], np.float64)
            strange = [r for r, x in zip(said, found, strict=True) if r is not None and np.isnan(x)]
        except (OverflowError, TypeError, ValueError) as error:
            raise ConfigError(
                f"reward {name} returned {said!r:.80}, expected a number, or None, for each completion"
            ) from error
        if strange:
            raise ConfigError(
                f"reward {name} returned nan, expected a finite number, or None for none"
            )
        if len(found) != len(rows):
            raise ShapeError(
                f"reward {name} returned {len(found)} numbers for {len(rows)} completions, expected one each"
            )
        if np.isinf(found).any():
            raise ConfigError(
                f"reward {name} returned {found[np.isinf(found)][0]}, expected a finite number"
            )
        return found

    def _columns(self, rows: list[Tensor], prompts: Sequence[Prompt]) -> dict[str, list[Any]]:
        """What a function may ask for by name: texts of the completions, and what is known of the prompts."""
        known = [prompt.columns or {} for prompt in prompts]
        columns = {name: [of.get(name) for of in known] for name in sorted(set().union(*known))}
        if self._codec is not None:
            columns["texts"] = [self._codec.decode(row.numpy()) for row in rows]
        return columns


def _by_name(
    name: str, function: RewardFunction, columns: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    """Those columns that a function takes beside completions and prompts."""
    taken = _taken(function)
    if any(of.kind is OPEN for of in taken):
        return dict(columns)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    beside = [
        of for i, of in enumerate(taken) if of.kind in kinds and (i > 1 or of.kind is kinds[1])
    ]
    for of in beside:
        if of.default is inspect.Parameter.empty and of.name not in columns:
            raise ConfigError(
                f"reward {name} asks for {of.name}, and there is {', '.join(columns) or 'nothing'} besides "
                "completions and prompts"
            )
    return {of.name: columns[of.name] for of in beside if of.name in columns}


def _taken(function: RewardFunction) -> Sequence[inspect.Parameter]:
    """What a function takes; nothing is known of a builtin."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
