"""Tests the statistics of an evaluation's returns."""

from __future__ import annotations

import math

import pytest

from rlox.training.evaluate import Evaluation


def test_the_middle_half_of_returns_is_their_iqm() -> None:
    assert Evaluation((9.0, 1.0, 2.0, 700.0), (1, 1, 1, 1), seed=0).iqm == 5.5


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_not_finite_leaves_no_iqm_and_no_error(wrong: float) -> None:
    assert math.isnan(Evaluation((1.0, wrong, 2.0, 3.0), (1, 1, 1, 1), seed=0).iqm)


@pytest.mark.filterwarnings("error")
def test_finite_returns_whose_mean_overflows_are_no_score_and_say_why() -> None:
    played = Evaluation((1e308, 1.5e308, 1e308), (1, 1, 1), seed=0)
    assert played.non_finite_message == "the mean of 3 finite returns overflows: the largest is 1.5e+308"
    assert not math.isfinite(played.mean)
    assert played.ci95 is None
    assert "eval/not_finite" not in played.metrics()


@pytest.mark.filterwarnings("error")
def test_an_interval_whose_resamples_overflow_is_left_out() -> None:
    played = Evaluation((1.7e308, 1.0, -1.7e308), (1, 1, 1), seed=0)
    assert (played.non_finite_message, played.ci95) == ("", None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e160, -1.7e308])
def test_returns_whose_squares_overflow_have_a_standard_deviation(size: float) -> None:
    assert Evaluation((size, 0.0), (1, 1), seed=0).std == pytest.approx(abs(size) / 2)
