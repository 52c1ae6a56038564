"""What completions are worth: by a task's right answers, or by functions of the user's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.errors import ConfigError, RewardError
from rlox.importing import failure
from rlox.llm.codecs import Codec
from rlox.llm.decoding import Completed
from rlox.llm.prompts import Prompt
from rlox.llm.reward_arguments import Arguments, RewardFunction
from rlox.masked import MASKED, is_masked

__all__ = ["AnswerJudge", "FunctionJudge", "Judge", "Judges", "answered", "number"]


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
    """Functions of the user's; each parameter is filled by its name.

    Parameters
    ----------
    functions : each with the name that messages call it
    codec : makes texts of completions; None: there are no texts
    columns : that prompts have, of a task or a file; None: not known, as of a file that is gone

    Raises `ConfigError` for a function that asks for what there is not.
    """

    def __init__(
        self,
        functions: Sequence[tuple[str, RewardFunction]],
        codec: Codec | None = None,
        columns: Collection[str] | None = (),
    ) -> None:
        self._functions, self._codec, self._columns = functions, codec, columns
        self._handed = ["completions", "prompts", *(["texts"] if codec else [])]
        for name, function in functions if columns is not None else ():
            Arguments(name, function, {*self._handed, *(columns or ())})

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
        arguments = Arguments(name, function, {*self._handed, *self._columns_of(prompts)})
        values = {of: self._value(of, rows, prompts) for of in arguments.names}
        who, each = f"reward {name}", "a number, or None, for each completion"
        said = answered(who, lambda: arguments.call(function, values), each)
        return _numbers(who, said, len(rows))

    def _columns_of(self, prompts: Sequence[Prompt]) -> Collection[str]:
        """The columns of these prompts: prompts that were handed over have none."""
        known = [prompt.columns for prompt in prompts if prompt.columns is not None]
        if len(known) < len(prompts):
            return ()
        return self._columns if self._columns is not None else set().union(*known)

    def _value(self, name: str, rows: list[Tensor], prompts: Sequence[Prompt]) -> Any:
        """What stands under a name; the function may write to it."""
        if name == "completions":
            return rows
        if name == "prompts":
            return _given(prompts)
        if name == "texts" and self._codec is not None:
            return [self._codec.decode(row.numpy()) for row in rows]
        return [copy.deepcopy((prompt.columns or {}).get(name)) for prompt in prompts]


def answered(who: str, call: Callable[[], Any], each: str) -> list[Any]:
    """What a function of the user's returns, `each`, as a list.

    Raises `RewardError` for what it raises, and for what has no order, is a text or has masked entries.
    """
    try:
        said = call()
        unordered = isinstance(said, (str, bytes, Mapping, AnySet)) or is_masked(said)
        if isinstance(said, Iterable) and not unordered and getattr(said, "ndim", None) != 0:
            return list(said)
    except (Exception, SystemExit) as error:
        raise RewardError(f"{who} fails: {failure(error)}") from error
    if is_masked(said):
        raise RewardError(f"{who} returned an array: {MASKED}; expected {each}")
    raise RewardError(f"{who} returned {said!r:.80}, expected a list: {each}")


def _numbers(who: str, said: list[Any], count: int) -> NDArray[np.float64]:
    """The rewards of so many completions; NaN where there is none."""
    if len(said) != count:
        raise RewardError(
            f"{who} returned {len(said)} numbers for {count} completions, expected one each"
        )
    found = np.full(count, np.nan)
    for i, worth in enumerate(said):
        if worth is None:
            continue
        value = number(worth)
        if value is None:
            raise RewardError(
                f"{who} returned {worth!r:.80} for completion {i}, expected a number, or None, for each"
            )
        found[i] = value
        if not np.isfinite(found[i]):
            raise RewardError(
                f"{who} returned {found[i]} for completion {i}, expected a finite number, or None for none"
            )
    return found


def number(value: Any) -> float | None:
    """One of Python, NumPy or torch; None for anything else, also for a text that reads as one."""
    if is_masked(value):  # whose item() is what the mask hides
        return None
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, Tensor):
        value = value.detach()
    if isinstance(value, (str, bytes, complex, np.complexfloating)):
        return None
    try:
        return float(value)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        return None
