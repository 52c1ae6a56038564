"""Tests score statistics against their definitions and published conventions."""

from __future__ import annotations

import numpy as np
import pytest

from rlox.errors import ShapeError
from rlox.statistics import bootstrap_ci, iqm


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([3.0], 3.0), ([1, 2, 9], 4.0), ([0, 1, 2, 100], 1.5), ([9, 1, 2, 3, 4, 5, 6, 70], 4.5)],
)
def test_iqm_is_the_mean_without_a_quarter_at_either_end(scores: list[float], expected: float) -> None:
    assert iqm(np.array(scores)) == expected


def test_the_interval_of_the_mean_covers_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for k in range(300):
        low, high = bootstrap_ci(rng.normal(5, 2, 40), np.mean, resamples=400, seed=k)
        covered += low <= 5 <= high
    assert 0.90 <= covered / 300 <= 0.985


def test_the_interval_depends_on_its_seed_only() -> None:
    scores = np.arange(20.0)
    assert bootstrap_ci(scores, seed=1) == bootstrap_ci(scores, seed=1)
    assert bootstrap_ci(scores, seed=1) != bootstrap_ci(scores, seed=2)
    assert bootstrap_ci(np.full(5, 7.0)) == (7.0, 7.0)
    low, high = bootstrap_ci(scores, np.median)
    assert low < np.median(scores) < high


def test_a_wider_level_gives_a_wider_interval() -> None:
    scores = np.random.default_rng(1).normal(size=50)
    narrow, wide = bootstrap_ci(scores, level=0.5), bootstrap_ci(scores, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_iqm_and_bootstrap_ci_refuse_empty_scores() -> None:
    with pytest.raises(ShapeError):
        iqm(np.array([]))
    with pytest.raises(ShapeError):
        bootstrap_ci(np.array([]))
