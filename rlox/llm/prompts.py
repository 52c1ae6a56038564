"""Prompts in an order that a number says: prompt k of a run is a function of its seed and k."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox._core import Stream
from rlox.errors import ConfigError, ShapeError
from rlox.llm.codecs import Characters, Codec
from rlox.llm.tasks import Example, Task
from rlox.masked import MASKED, is_masked

__all__ = [
    "GivenPrompts",
    "Prompt",
    "Prompts",
    "TaskPrompts",
    "agreeing",
    "completions_of",
    "cut",
    "learned_after",
    "rows_of",
]


class Prompt(NamedTuple):
    """Tokens, and what else is known of them."""

    ids: Tensor  # int64 [P], to be completed
    answer: str | None = None  # the text that is right
    right: Tensor | None = None  # the answer to learn, with its end, int64 [A]
    wrong: Tensor | None = None  # another that is rejected beside it
    before: Tensor | None = (
        None  # what both stand behind, where tokens merge over the end of the prompt
    )
    columns: Mapping[str, Any] | None = None  # what reward functions may ask for by name
    learned: Tensor | None = None  # bool [A], the tokens of `right` that are learned; None: all


def learned_after(prompt: Prompt) -> Tensor:
    """What its answers stand behind."""
    return prompt.ids if prompt.before is None else prompt.before


def cut(
    ids: NDArray[np.int64],
    whole: Sequence[NDArray[np.int64]],
    answer: str | None,
    columns: Mapping[str, Any],
) -> Prompt:
    """A prompt, and its answers from where the tokens of all cease to agree, of one token at least."""
    if not len(ids):
        raise ConfigError("no tokens, expected at least one of a prompt")
    at = max(1, min([len(ids), *(agreeing(ids, other) for other in whole)]))
    if any(len(other) <= at for other in whole):
        raise ConfigError("an answer without a token, expected at least one")
    right, wrong, *_ = [*(torch.from_numpy(other[at:].copy()) for other in whole), None, None]
    before = torch.from_numpy(ids[:at].copy()) if at < len(ids) else None
    return Prompt(torch.from_numpy(ids), answer, right, wrong, before, columns)


def agreeing(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many tokens both begin with."""
    width = min(len(one), len(other))
    differs = np.flatnonzero(one[:width] != other[:width])
    return int(differs[0]) if len(differs) else width


class Prompts(Protocol):
    """Where prompts come from."""

    text: Codec  # between them and texts
    digests: Mapping[
        str, Any
    ]  # of the dataset and tokenizer that they are from, and whether it is the whole
    prompted: bool  # whether they are prompts, not whole texts
    columns: Collection[str]  # what reward functions may ask for by name

    def learned(self, first: int, count: int) -> list[Prompt]:
        """Those with the numbers from `first` on, to learn from."""

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """Those to evaluate by with the numbers from `first` on; fewer where there are no more."""

    def paired(self, prompt: Prompt, number: int) -> Prompt:
        """The same, prompt `number` of a run, with an answer to reject if there is one."""


class TaskPrompts:
    """A task's, without end; those to evaluate by are never among them."""

    prompted = True
    columns: Collection[str] = Example._fields

    def __init__(self, task: Task, seed: int, codec: Codec | None = None) -> None:
        self._task, self._seed = task, seed
        self.text: Codec = task.characters if codec is None else codec
        own = isinstance(self.text, Characters)
        self.digests: Mapping[str, Any] = {} if own else {"tokenizer": self.text.digest}

    def learned(self, first: int, count: int) -> list[Prompt]:
        """Number k is drawn by the stream `prompts` of the run at k."""
        return [self._drawn(self._seed, k, "prompts", False) for k in range(first, first + count)]

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """Number i is drawn by the seed `seed + i`."""
        return [self._drawn(seed + first + i, 0, "held_out", True) for i in range(count)]

    def paired(self, prompt: Prompt, number: int) -> Prompt:
        """With one that is near the right one; which it is, is a function of the seed and the number."""
        if prompt.columns is None:
            return prompt
        example = Example(prompt.columns["prompt"], prompt.columns["answer"])
        other = self._task.rejected(example, Stream(self._seed, "rejected", number).uniform(2))
        whole = [
            self.text.encode(example.prompt + answer, end=True)
            for answer in (example.answer, other)
        ]
        return cut(prompt.ids.numpy(), whole, example.answer, prompt.columns)

    def _drawn(self, seed: int, number: int, name: str, held_out: bool) -> Prompt:
        (example,) = self._task.examples(1, Stream(seed, name, number), held_out)
        ids, whole = self.text.encode(example.prompt), self.text.encode("".join(example), end=True)
        return cut(ids, [whole], example.answer, example._asdict())


class GivenPrompts:
    """Rows that were handed over, again and again from the first one on; `start` is the number of that."""

    def __init__(self, rows: Tensor | Sequence[Tensor], start: int = 0) -> None:
        self.rows, self._start = rows_of(rows), start

    def learned(self, first: int, count: int) -> list[Prompt]:
        """The rows in their order, as far as the last one at most: a batch is of one time through."""
        at = (first - self._start) % len(self.rows)
        return [Prompt(row) for row in self.rows[at : at + count]]


def rows_of(given: Tensor | Sequence[Tensor], what: str = "prompts") -> list[Tensor]:
    """Token ids, each row `[P]`, on the CPU, copies; `ShapeError` for what are none."""
    if any(map(is_masked, given if isinstance(given, list | tuple) else (given,))):
        raise ConfigError(f"{what}: {MASKED}")
    try:
        rows = [torch.as_tensor(row) for row in given]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{what} {given!r:.60}: expected token ids, [B, P] or rows of different lengths"
        ) from error
    if not rows:
        raise ConfigError(f"no {what}, expected at least one")
    if any(row.dim() != 1 or not len(row) for row in rows):
        shapes = [list(row.shape) for row in rows[:3]]
        raise ShapeError(f"{what} {shapes}: expected token ids [P] each, of one token at least")
    if any(row.is_floating_point() or row.dtype == torch.bool for row in rows):
        raise ConfigError(f"{what} of {rows[0].dtype}: expected whole numbers, token ids")
    # whoever gave them may write to them before all are learned
    return [row.to("cpu", torch.int64, copy=True) for row in rows]


def completions_of(given: Tensor | Sequence[Tensor], ends: Sequence[int]) -> list[Tensor]:
    """As `rows_of`, each completion up to its first end, which belongs to it: padding is behind that."""
    rows, known = rows_of(given, "completions"), torch.tensor(list(ends), dtype=torch.int64)
    found = []
    for row in rows:
        at = torch.isin(row, known).nonzero()
        found.append(row[: int(at[0]) + 1] if len(at) else row)
    return found
