"""Prompts in an order that a number says: prompt k of a run is a function of its seed and k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rlox._core import Stream
from rlox.errors import ConfigError, ShapeError
from rlox.llm.tasks import Example, Task

__all__ = ["GivenPrompts", "Prompt", "Prompts", "TaskPrompts", "rows_of"]


class Prompt(NamedTuple):
    """Tokens, and what they are an example of where the right answer is known."""

    ids: Tensor  # int64 [P]
    example: Example | None = None


class Prompts(Protocol):
    """Where prompts come from."""

    def learned(self, first: int, count: int) -> list[Prompt]:
        """Those with the numbers from `first` on, to learn from."""


class TaskPrompts:
    """A task's, without end; those to evaluate by are never among them."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed, self.text = task, seed, task.characters

    def learned(self, first: int, count: int) -> list[Prompt]:
        """Number k is drawn by the stream `prompts` of the run at k."""
        return [self._drawn(self._seed, k, "prompts", False) for k in range(first, first + count)]

    def held_out(self, seed: int, count: int) -> list[Prompt]:
        """Number i is drawn by the seed `seed + i`."""
        return [self._drawn(seed + i, 0, "held_out", True) for i in range(count)]

    def _drawn(self, seed: int, number: int, name: str, held_out: bool) -> Prompt:
        (example,) = self._task.examples(1, Stream(seed, name, number), held_out)
        return Prompt(torch.from_numpy(self.text.encode(example.prompt)), example)


class GivenPrompts:
    """Rows that were handed over, again and again from the first one on; `start` is the number of that."""

    def __init__(self, rows: Tensor | Sequence[Tensor], start: int = 0) -> None:
        self.rows, self._start = rows_of(rows), start

    def learned(self, first: int, count: int) -> list[Prompt]:
        """The rows in their order, as far as the last one at most: a batch is of one time through."""
        at = (first - self._start) % len(self.rows)
        return [Prompt(row) for row in self.rows[at : at + count]]


def rows_of(given: Tensor | Sequence[Tensor], what: str = "prompts") -> list[Tensor]:
    """Token ids, each row `[P]`, on the CPU; `ShapeError` for what are none."""
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
    return [row.long().cpu() for row in rows]
