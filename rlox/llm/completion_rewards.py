"""Rewards of completions: by a task's correct answers, or by user functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.errors import ConfigError, RewardError, describe_error
from rlox.llm.codecs import Codec
from rlox.llm.decoding import GeneratedTokens
from rlox.llm.prompts import Prompt
from rlox.llm.reward_arguments import RewardArguments, RewardFunction
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = [
    "AnswerReward",
    "CompletionReward",
    "FunctionReward",
    "RewardColumns",
    "call_user_function",
    "parse_number",
]


class CompletionReward(Protocol):
    """Rewards of completions."""

    def __call__(self, prompts: Sequence[Prompt], generated_tokens: GeneratedTokens) -> NDArray[np.float64]:
        """Return rewards `[B, F]` of F functions; NaN means no reward."""


class AnswerReward:
    """Rewards by the correct answer: `right` is `exact_match`, 0 or 1; `close` is `partial_match`, 0 to 1."""

    def __init__(self, codec: Codec, kind: str = "right") -> None:
        self._score = {"right": codec.exact_match, "close": codec.partial_match}[kind]

    def __call__(self, prompts: Sequence[Prompt], generated_tokens: GeneratedTokens) -> NDArray[np.float64]:
        """Return rewards `[B, 1]`; `ConfigError` for a prompt without an answer."""
        scores = []
        for prompt, row in zip(prompts, generated_tokens.cpu().token_rows(), strict=True):
            if prompt.answer is None:
                raise ConfigError(
                    "a prompt has no right answer: prompts given as tokens have none, nor do rows without a "
                    "completion or a text as answer; give a reward_fn (algo.rewards=[module:name])"
                )
            scores.append(self._score(prompt.ids.numpy(), row.numpy(), prompt.answer))
        return np.array(scores)[:, None]


class RewardColumns:
    """The rewards of several sources, side by side."""

    def __init__(self, rewards: Sequence[CompletionReward]) -> None:
        self._rewards = rewards

    def __call__(self, prompts: Sequence[Prompt], generated_tokens: GeneratedTokens) -> NDArray[np.float64]:
        """Return the columns of all rewards, `[B, F]`."""
        return np.concatenate([reward(prompts, generated_tokens) for reward in self._rewards], 1)


def _copy_prompts(prompts: Sequence[Prompt]) -> Any:
    """Copy the prompts for a user function, which may write to them."""
    ids = [prompt.ids.clone() for prompt in prompts]
    return torch.stack(ids) if len({len(row) for row in ids}) == 1 else ids


class FunctionReward:
    """Rewards by user functions, which get arguments by parameter name.

    Parameters
    ----------
    functions : pairs of a name, which messages contain, and a function
    codec : decodes completions; None: there are no texts
    columns : column names of the prompts' task or file; None: unknown, because the file is missing

    Raises `ConfigError` for a function with a parameter that is not available.
    """

    def __init__(
        self,
        functions: Sequence[tuple[str, RewardFunction]],
        codec: Codec | None = None,
        columns: Collection[str] | None = (),
    ) -> None:
        self._functions, self._codec, self._columns = functions, codec, columns
        self._known_arguments = ["completions", "prompts", *(["texts"] if codec else [])]
        for name, function in functions if columns is not None else ():
            RewardArguments(name, function, {*self._known_arguments, *(columns or ())})

    def __call__(self, prompts: Sequence[Prompt], generated_tokens: GeneratedTokens) -> NDArray[np.float64]:
        """Return rewards `[B, F]`, one column per function."""
        columns = [
            self._call_function(name, function, generated_tokens.cpu().token_rows(), prompts)
            for name, function in self._functions
        ]
        return np.stack(columns, 1)

    def _call_function(
        self, name: str, function: RewardFunction, rows: list[Tensor], prompts: Sequence[Prompt]
    ) -> NDArray[np.float64]:
        arguments = RewardArguments(name, function, {*self._known_arguments, *self._columns_of(prompts)})
        values = {argument: self._value(argument, rows, prompts) for argument in arguments.names}
        label, expected = f"reward {name}", "a number, or None, for each completion"
        returned = call_user_function(label, lambda: arguments.call(function, values), expected)
        return _parse_rewards(label, returned, len(rows))

    def _columns_of(self, prompts: Sequence[Prompt]) -> Collection[str]:
        """Return the column names of these prompts; prompts given as tokens have none."""
        column_maps = [prompt.columns for prompt in prompts if prompt.columns is not None]
        if len(column_maps) < len(prompts):
            return ()
        return self._columns if self._columns is not None else set().union(*column_maps)

    def _value(self, name: str, rows: list[Tensor], prompts: Sequence[Prompt]) -> Any:
        """Return the value of an argument; the function may write to it."""
        if name == "completions":
            return rows
        if name == "prompts":
            return _copy_prompts(prompts)
        if name == "texts" and self._codec is not None:
            return [self._codec.decode(row.numpy()) for row in rows]
        return [copy.deepcopy((prompt.columns or {}).get(name)) for prompt in prompts]


def call_user_function(label: str, call: Callable[[], Any], expected: str) -> list[Any]:
    """Call a user function and return its result as a list; `expected` describes it in errors.

    Raises `RewardError` if the function raises, or if its result is unordered, a text or a masked array.
    """
    try:
        returned = call()
        is_unordered = isinstance(returned, (str, bytes, Mapping, AnySet)) or is_masked(returned)
        if isinstance(returned, Iterable) and not is_unordered and getattr(returned, "ndim", None) != 0:
            return list(returned)
    except (Exception, SystemExit) as error:
        raise RewardError(f"{label} fails: {describe_error(error)}") from error
    if is_masked(returned):
        raise RewardError(f"{label} returned an array: {MASKED_MESSAGE}; expected {expected}")
    raise RewardError(f"{label} returned {returned!r:.80}, expected a list: {expected}")


def _parse_rewards(label: str, returned: list[Any], count: int) -> NDArray[np.float64]:
    """Parse the rewards of `count` completions; None becomes NaN."""
    if len(returned) != count:
        raise RewardError(
            f"{label} returned {len(returned)} numbers for {count} completions, expected one each"
        )
    rewards = np.full(count, np.nan)
    for i, reward in enumerate(returned):
        if reward is None:
            continue
        value = parse_number(reward)
        if value is None:
            raise RewardError(
                f"{label} returned {reward!r:.80} for completion {i}, expected a number, or None, for each"
            )
        rewards[i] = value
        if not np.isfinite(rewards[i]):
            raise RewardError(
                f"{label} returned {rewards[i]} for completion {i}, expected a finite number, or None for no "
                "reward"
            )
    return rewards


def parse_number(value: Any) -> float | None:
    """Convert a number of Python, NumPy or torch to float; None for anything else, also for numeric text."""
    if is_masked(value):  # its item() would be the hidden value
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
