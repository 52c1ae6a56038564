"""Tests what the gate of `rlox bench` calls slower, on random times: false alarms and misses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlox_cli.bench.gate import (
    FASTER,
    NEW,
    NOISY,
    SAME,
    SLOWER,
    UNPROVEN,
    BaselineVerdict,
    comparable_counts,
    judge,
)
from rlox_cli.bench.intervals import estimate_ratio
from rlox_cli.bench.record import Baseline, CaseMeasurements, Passes, _read_pair

PASSES, ROUNDS, FLOOR = 5, 8, 0.15


def drawn(rng: np.random.Generator, slow: float, between: float, burst: float) -> Passes:
    """Draws times of rlox and of the yardstick on a shared machine.

    Each round has its own speed, and each process its own factor (`between`). Other processes add to some
    samples (`burst`).
    """
    found = []
    for _ in range(PASSES):
        speed = np.exp(rng.normal(0, 0.3) + rng.normal(0, 0.02, ROUNDS))
        luck = np.exp(rng.normal(0, between))

        def sample(seconds: float, speed: Any = speed) -> list[float]:
            added = np.where(rng.random(ROUNDS) < burst, rng.exponential(1.0, ROUNDS), 0.0)
            noise = np.exp(rng.normal(0, 0.03, ROUNDS))
            return [float(s) for s in seconds * speed * noise * (1 + added)]

        found.append((sample(slow * luck), sample(2.0)))
    return found


def case(passes: Passes, instructions: float | None = None) -> CaseMeasurements:
    """Makes a case with the same times by both clocks."""
    clocks = {"cpu": passes, "wall": passes}
    return CaseMeasurements("a", "arithmetic", passes=clocks, instructions=instructions)


def base(passes: Passes, **more: Any) -> Baseline:
    """Makes a baseline with one case."""
    given: dict[str, Any] = {"instructions": {}, "machine": {}, "versions": {}, **more}
    return Baseline(
        suite="ci",
        date="2026-01-02",
        passes={"a": {"cpu": passes, "wall": passes}},
        yardsticks={"a": "arithmetic"},
        **given,
    )


def steady(ratio: float) -> Passes:
    """Makes times without noise."""
    return [([ratio] * ROUNDS, [1.0] * ROUNDS)] * PASSES


def rates(slow: float, between: float, burst: float, count: int = 20) -> tuple[float, float]:
    """Returns the shares of `count` comparisons that look slower at first, and in both looks."""
    rng = np.random.default_rng(15)
    once = twice = 0
    for _ in range(count):
        before = base(drawn(rng, 1.0, between, burst))
        looks = [
            judge(case(drawn(rng, slow, between, burst)), before, FLOOR, {}).state == SLOWER for _ in range(2)
        ]
        once += looks[0]
        twice += all(looks)
    return once / count, twice / count


@pytest.mark.parametrize(("between", "burst"), [(0.02, 0.1), (0.05, 0.4)])
def test_noise_alone_is_called_slower_in_less_than_one_of_twenty_and_never_twice(between, burst):
    once, twice = rates(1.0, between, burst)
    assert once <= 0.05
    assert twice == 0


@pytest.mark.parametrize(("between", "burst"), [(0.02, 0.1), (0.04, 0.3)])
def test_the_gate_finds_a_slowdown_of_half_twice_in_nine_of_ten(between, burst):
    assert rates(1.5, between, burst)[1] >= 0.9


def test_the_machines_speed_cancels_out():
    slow_machine = [([3.0] * ROUNDS, [6.0] * ROUNDS)] * PASSES
    assert judge(case(slow_machine), base(steady(0.5)), FLOOR, {}).state == SAME


@pytest.mark.parametrize(
    ("now", "state"), [(1.14, SAME), (1.16, SLOWER), (1 / 1.14, SAME), (1 / 1.16, FASTER)]
)
def test_without_noise_the_tolerance_is_the_smallest_that_is_asked_for(now, state):
    verdict = judge(case(steady(now)), base(steady(1.0)), FLOOR, {})
    assert verdict.state == state
    assert verdict.tolerance == pytest.approx(0.15)
    assert verdict.time_ratio == pytest.approx(now)


def noisy(ratio: float) -> Passes:
    """Makes passes that differ by a factor of 3."""
    return [([ratio * f] * ROUNDS, [1.0] * ROUNDS) for f in (1, 3, 1, 3, 2)]


def test_the_gate_calls_a_case_noisy_if_its_tolerance_hides_a_slowdown():
    verdict = judge(case(noisy(1.0)), base(steady(2.0)), FLOOR, {})
    assert verdict.state == NOISY
    assert verdict.tolerance > 0.4


@pytest.mark.parametrize(("now", "state"), [(1_000.0, NOISY), (1_500.0, SLOWER)])
def test_instructions_decide_a_case_that_is_too_noisy(now, state):
    verdict = judge(case(noisy(1.0), now), base(steady(2.0)), FLOOR, {"a": 1_000.0})
    assert (verdict.state, verdict.instruction_ratio) == (state, now / 1_000)


def test_noisy_time_does_not_overrule_equal_instructions():
    verdict = judge(case(noisy(9.0), 1_000.0), base(noisy(1.0)), FLOOR, {"a": 1_000.0})
    assert (verdict.state, verdict.clock) == (NOISY, "cpu")
    assert verdict.time_ratio > 1 + verdict.tolerance


@pytest.mark.parametrize(
    ("time", "instructions", "state"),
    [(1.12, 1.25, SLOWER), (1.05, 1.5, SAME), (1.1, 1.2, SLOWER), (1.1, 1.1, SAME)],
)
def test_more_instructions_count_if_the_time_may_have_grown_as_much(time, instructions, state):
    # the time is known to a factor of 1.15: 1.12 may be 1.25, 1.05 cannot be 1.5
    found, before = case(steady(time), 1_000 * instructions), base(steady(1.0))
    verdict = judge(found, before, FLOOR, {"a": 1_000.0})
    assert verdict.state == state


@pytest.mark.parametrize(
    ("time", "instructions", "state"),
    [(1.6, 1.0, UNPROVEN), (1.6, 1.2, SLOWER), (2.1, 1.0, SLOWER), (1.6, 0.9, UNPROVEN)],
)
def test_longer_time_with_equal_instructions_counts_only_from_twice_on(time, instructions, state):
    found, before = case(steady(time), 1_000 * instructions), base(steady(1.0))
    verdict = judge(found, before, FLOOR, {"a": 1_000.0})
    assert (verdict.state, verdict.clock) == (state, "cpu")
    assert verdict.time_ratio == pytest.approx(time)


def test_longer_wall_time_is_slower_despite_equal_instructions():
    found = case(steady(1.0), 1_000.0)
    found.passes["wall"] = steady(1.5)
    verdict = judge(found, base(steady(1.0)), FLOOR, {"a": 1_000.0})
    assert (verdict.state, verdict.clock) == (SLOWER, "wall")


def test_the_gate_finds_a_slowdown_that_only_wall_time_shows():
    found = case(steady(1.0))
    found.passes["wall"] = steady(1.5)
    verdict = judge(found, base(steady(1.0)), FLOOR, {})
    assert (verdict.state, verdict.clock) == (SLOWER, "wall")


def test_a_case_with_another_yardstick_is_not_compared():
    found = case(steady(9.0))
    found.yardstick = "memory"
    assert judge(found, base(steady(1.0)), FLOOR, {}) == BaselineVerdict("a", NEW)


def test_instructions_of_another_python_are_not_compared():
    here = {"python": "3.12.1", "numpy": "2.4"}
    before = base(steady(1.0), instructions={"a": 5.0}, versions=here)
    assert comparable_counts(before, here, {}) == {"a": 5.0}
    assert comparable_counts(before, {**here, "python": "3.13.0"}, {}) == {}


def test_the_ratio_is_the_median_over_passes_of_their_low_rounds():
    # the quantile 0.2 of six rounds is the second lowest
    ours = [2.0, 4.0, 9.0, 9.0, 9.0, 9.0]
    passes: Passes = [(ours, [1.0] * 6), ([8.0] * 6, [1.0] * 6), ([99.0] * 6, [1.0] * 6)]
    found = estimate_ratio(passes)
    assert found.ratio == pytest.approx(8.0)
    logs = np.log([4.0, 8.0, 99.0])
    assert found.log_error == pytest.approx(math.sqrt(math.pi / 2 * np.var(logs, ddof=1) / 3))


def test_outlying_passes_hardly_increase_the_error():
    good = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06]
    passes: Passes = [([ours] * 6, [1.0] * 6) for ours in (*good, 3.0, 0.2)]
    found = estimate_ratio(passes)
    assert found.ratio == pytest.approx(1.03)
    off = np.median(np.abs(np.log([*good, 3.0, 0.2]) - np.log(1.03)))
    assert found.log_error == pytest.approx(math.sqrt(math.pi / 2 / 9) * 1.4826 * 1.1 * off)
    assert found.log_error < 0.03


def test_the_error_of_one_pass_comes_from_its_rounds():
    steady_rounds = estimate_ratio([([2.0] * 8, [1.0] * 8)])
    assert steady_rounds.log_error == pytest.approx(0.0, abs=1e-12)
    assert estimate_ratio([([2.0, 3.0, 2.5, 4.0, 2.0, 3.5, 2.2, 2.9], [1.0] * 8)]).log_error > 0.01


def test_agreement_of_few_passes_does_not_reduce_the_error_of_their_rounds():
    rounds = [2.0, 3.0, 2.5, 4.0, 2.0, 3.5, 2.2, 2.9]
    alike = estimate_ratio([(rounds, [1.0] * 8)] * 3)
    assert alike.log_error > 0.01


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0])
def test_a_baseline_with_invalid_seconds_is_refused(wrong):
    for pair in (([1.0, wrong], [1.0, 1.0]), ([1.0, 1.0], [wrong, 1.0])):
        with pytest.raises(ValueError, match="seconds that are missing or not above 0"):
            _read_pair(*pair)
    assert _read_pair([1, 2], [3, 4]) == ([1.0, 2.0], [3.0, 4.0])
