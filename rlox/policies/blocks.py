"""What is drawn for each step of a run, as a function of the step's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["StepBlocks"]

# Drawn for so many steps at a time, or for so many numbers if that is less.
BLOCK_STEPS, BLOCK_NUMBERS = 1024, 1 << 18

T = TypeVar("T")


class StepBlocks(Generic[T]):
    """The draws of step 0, 1, ... by index; those of a block of steps are made together and kept.

    Parameters
    ----------
    draw : `draw(block, rows)` gives what each of the `rows` steps of block 0, 1, ... has; nothing but the
        block's number may change it, so that a step has the same whoever asked for which before
    numbers : how many numbers a step takes
    """

    def __init__(self, draw: Callable[[int, int], Sequence[T]], numbers: int) -> None:
        self._draw = draw
        self._rows = max(1, min(BLOCK_STEPS, BLOCK_NUMBERS // numbers))
        self._block = -1
        self._drawn: Sequence[T] = ()

    def __getitem__(self, step: int) -> T:
        block, row = divmod(step, self._rows)
        if block != self._block:
            self._drawn, self._block = self._draw(block, self._rows), block
        return self._drawn[row]
