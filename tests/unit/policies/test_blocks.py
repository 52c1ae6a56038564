"""Tests that the draws of a step depend only on its number and are made in blocks of steps."""

from __future__ import annotations

import pytest

from rlox.policies.exploration_noise import BLOCK_STEPS, MAX_BLOCK_NUMBERS, StepBlocks


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        (1, BLOCK_STEPS),
        (MAX_BLOCK_NUMBERS // 16, 16),
        (MAX_BLOCK_NUMBERS, 1),
        (3 * MAX_BLOCK_NUMBERS, 1),
    ],
)
def test_a_block_has_the_maximum_number_of_steps_and_at_least_one(numbers: int, rows: int) -> None:
    asked: list[tuple[int, int]] = []

    def draw(block: int, rows: int) -> list[tuple[int, int]]:
        asked.append((block, rows))
        return [(block, row) for row in range(rows)]

    blocks = StepBlocks(draw, numbers)
    steps = [0, rows - 1, rows, 2 * rows, 0]
    assert [blocks[step] for step in steps] == [divmod(step, rows) for step in steps]
    assert asked[0] == (0, rows)
    assert [block for block, _ in asked] == [0, 1, 2, 0]


def test_a_block_is_drawn_once_while_its_steps_are_asked_for() -> None:
    asked: list[int] = []
    blocks = StepBlocks(lambda block, rows: asked.append(block) or range(rows), 1)
    assert [blocks[step] for step in range(2 * BLOCK_STEPS)] == [*range(BLOCK_STEPS)] * 2
    assert asked == [0, 1]
