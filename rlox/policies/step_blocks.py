"""What is drawn for each step of a run, as a function of the step's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["StepBlocks"]

# Drawn for so many steps at a time, or for so many numbers if that is less.
BLOCK_STEPS, MAX_BLOCK_NUMBERS = 1024, 1 << 18

T = TypeVar("T")


class StepBlocks(Generic[T]):
    """The draws of step 0, 1, ... by index; those of a block of steps are made together and kept.

    Parameters
    ----------
    draw : `draw(block, rows)` gives what each of the `rows` steps of block 0, 1, ... has; nothing but the
        block's number may change it, so that a step has the same whoever asked for which before
    numbers_per_step : how many numbers a step takes
    """

    def __init__(self, draw: Callable[[int, int], Sequence[T]], numbers_per_step: int) -> None:
        self._draw = draw
        self._steps_per_block = max(1, min(BLOCK_STEPS, MAX_BLOCK_NUMBERS // numbers_per_step))
        self._block = -1
        self._draws: Sequence[T] = ()

    def __getitem__(self, step: int) -> T:
        block, row = divmod(step, self._steps_per_block)
        if block != self._block:
            self._draws, self._block = self._draw(block, self._steps_per_block), block
        return self._draws[row]
