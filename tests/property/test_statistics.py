"""Tests estimates of random scores against definitions by loops and exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.selection import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rlox.statistics import (
    holm,
    improvement,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    sample_efficiency,
)

number = st.integers(-20, 20).map(lambda n: n / 8) | st.floats(-1e3, 1e3)
task = st.lists(number, min_size=1, max_size=7)
tasks = st.lists(task, min_size=1, max_size=4)
tried = settings(max_examples=examples(80, 300, 2000), deadline=None)


def named(of: list[list[float]]) -> dict[int, list[float]]:
    return dict(enumerate(of))


def average(numbers: list[Any]) -> Fraction:
    return sum(map(Fraction, numbers), Fraction(0)) / len(numbers)


def near(value: Fraction) -> Any:
    return pytest.approx(float(value), abs=1e-9, rel=1e-12)


@tried
@given(tasks, number)
def test_mean_median_iqm_and_optimality_gap_equal_exact_fractions(
    of: list[list[float]], gamma: float
) -> None:
    scores, means = named(of), sorted(average(runs) for runs in of)
    k = len(means)
    assert mean(scores) == near(average(means))
    assert median(scores) == near((means[(k - 1) // 2] + means[k // 2]) / 2)
    pooled = sorted(score for runs in of for score in runs)
    for _ in range(len(pooled) // 4):  # drops the least and the greatest
        pooled = pooled[1:-1]
    assert iqm(scores) == near(average(pooled))
    short = [Fraction(gamma) - min(Fraction(s), Fraction(gamma)) for runs in of for s in runs]
    assert optimality_gap(scores, gamma) == near(average(short))


@tried
@given(st.data(), tasks)
def test_probability_of_improvement_is_the_mean_share_of_pairs_won(
    data: st.DataObject, of: list[list[float]]
) -> None:
    others = [data.draw(task) for _ in of]
    parts = []
    for x, y in zip(of, others, strict=True):
        won = [Fraction(2 * (a > b) + (a == b), 2) for a in x for b in y]
        parts.append(average(won))
    assert improvement(named(of), named(others)) == near(average(parts))
    assert improvement(named(others), named(of)) == near(1 - average(parts))


@tried
@given(tasks, st.lists(number, min_size=1, max_size=5))
def test_a_profile_counts_runs_above_and_its_band_is_around_it(
    of: list[list[float]], taus: list[float]
) -> None:
    found = performance_profile(named(of), taus, rng=np.random.default_rng(0), resamples=50)
    pooled = [score for runs in of for score in runs]
    assert found.fraction == pytest.approx([sum(s > tau for s in pooled) / len(pooled) for tau in taus])
    if min(map(len, of)) > 1:
        assert ((found.low >= 0) & (found.low <= found.high) & (found.high <= 1)).all()


@tried
@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_correction_equals_its_definition_for_random_p_values(given_: list[float]) -> None:
    n = len(given_)
    expected = []
    for k, p in enumerate(given_):
        before = [(q, j) for j, q in enumerate(given_) if (q, j) <= (p, k)]  # in stable order
        scaled = [(n - sum((r, i) < (q, j) for i, r in enumerate(given_))) * q for q, j in before]
        expected.append(min(1.0, max(scaled)))
    assert holm(given_).tolist() == pytest.approx(expected)


@tried
@given(st.lists(st.dictionaries(st.integers(0, 50), number, min_size=1), min_size=1, max_size=4))
def test_a_curve_is_the_estimate_of_the_lines_at_each_step(runs: list[dict[int, float]]) -> None:
    curves = [(sorted(run), [run[s] for s in sorted(run)]) for run in runs]
    steps = range(-1, 52, 4)
    found = sample_efficiency(curves, mean, rng=np.random.default_rng(0), steps=steps, resamples=2)
    for k, step in enumerate(steps):
        there = [value for run in runs for value in at(run, step)]
        assert found.runs[k] == len(there)
        if there:
            assert found.estimate[k] == near(average(there))
        else:
            assert np.isnan(found.estimate[k])


def at(run: dict[int, float], step: int) -> list[Fraction]:
    """Return the value of the line at a step, and nothing outside the line."""
    below, above = [s for s in run if s <= step], [s for s in run if s >= step]
    if not below or not above:
        return []
    left, right = max(below), min(above)
    share = Fraction(step - left, right - left) if right > left else Fraction(0)
    return [Fraction(run[left]) + share * (Fraction(run[right]) - Fraction(run[left]))]
