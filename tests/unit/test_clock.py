"""Tests the clock, which counts the progress of a run in its unit."""

from __future__ import annotations

import pytest

from rlox.types import Clock, Progress, Update


def test_the_clock_reads_in_its_unit_and_keeps_unit_and_horizon_as_it_ticks() -> None:
    for unit, now in (("env_steps", 30), ("updates", 4), ("samples", 256)):
        clock = Clock(10, 1, 64, unit, 100)  # type: ignore[arg-type]
        clock = clock.tick(Progress(20), Update({}, count=3, samples=192))
        assert (clock.now, clock.units_left, clock.unit, clock.horizon) == (
            now,
            max(100 - now, 0),
            unit,
            100,
        )


def test_the_remaining_fraction_of_a_clock_falls_from_one_to_zero() -> None:
    parts = [Clock(env_steps=steps, horizon=200).remaining for steps in (0, 50, 200, 300)]
    assert parts == [1.0, 0.75, 0.0, 0.0]
    assert Clock(updates=5, unit="updates", horizon=10).remaining == 0.5
    assert Clock(env_steps=10**9).remaining == 1.0


def test_a_checkpoint_keeps_the_counters_and_the_configuration_says_the_rest() -> None:
    saved = Clock(3, 2, 1, "updates", 9).counters
    assert saved == {"env_steps": 3, "updates": 2, "samples": 1}
    assert Clock(unit="samples", horizon=5).with_counters(saved) == Clock(3, 2, 1, "samples", 5)
    with pytest.raises(KeyError, match="samples"):
        Clock().with_counters({"env_steps": 3, "updates": 2})
