"""What an evaluation says of its returns."""

from __future__ import annotations

import math

import pytest

from rlox.training.evaluate import Evaluation


def test_the_middle_half_of_returns_is_their_iqm() -> None:
    assert Evaluation((9.0, 1.0, 2.0, 700.0), (1, 1, 1, 1), seed=0).iqm == 5.5


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_not_finite_leaves_no_iqm_and_no_error(wrong: float) -> None:
    assert math.isnan(Evaluation((1.0, wrong, 2.0, 3.0), (1, 1, 1, 1), seed=0).iqm)
