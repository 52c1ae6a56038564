"""Random draws for each step of a run, as a function of the step's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["StepBlocks"]

# Draws are made for this many steps at a time, or for this many numbers if that is less.
BLOCK_STEPS, MAX_BLOCK_NUMBERS = 1024, 1 << 18

T = TypeVar("T")


class StepBlocks(Generic[T]):
    """The draws of the steps 0, 1, ..., by step number; those of a block of steps are made and kept together.

    Parameters
    ----------
    draw : `draw(block, rows)` returns the draws of the `rows` steps of block 0, 1, ...; they must depend only
        on the block's number, so that a step's draws do not depend on the order of requests
    numbers_per_step : random numbers for each step
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
