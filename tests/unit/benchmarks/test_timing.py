"""Tests that samples are long enough, that systems take turns, and that nothing else runs in a sample."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest
from harness import timing
from harness.timing import LocalRunner, Protocol, calibrate, interleave
from helpers.benchmarks import FakeRunner


def test_systems_take_turns_and_each_begins_once_in_as_many_rounds():
    journal: list[Any] = []
    runners = {name: FakeRunner(name, [0.5], 0, journal) for name in "abc"}
    interleave(runners, Protocol(repeats=4, min_seconds=0.1))
    order = "".join(name for name, _ in journal)
    assert order == "abc" + "abc" + "bca" + "cab" + "abc"  # the first three are the calibration


def test_a_sample_is_repeated_until_it_is_long_enough():
    journal: list[Any] = []
    loops = calibrate(FakeRunner("a", [1e-4], 0, journal), min_seconds=0.01)
    assert 100 <= loops <= 130
    assert [n for _, n in journal] == [1, 100 if loops == 100 else loops]


def test_one_loop_is_enough_where_it_takes_long_enough():
    assert calibrate(FakeRunner("a", [0.02], 0, []), min_seconds=0.01) == 1


def test_a_clock_that_stands_still_ends_the_search(monkeypatch):
    monkeypatch.setattr(timing, "MAX_LOOPS", 1000)
    assert calibrate(FakeRunner("a", [0.0], 0, []), min_seconds=0.01) == 1000


def test_interleave_runs_each_system_once_if_a_sample_is_one_run():
    journal: list[Any] = []
    runners = {name: FakeRunner(name, [0.5], 0, journal) for name in "ab"}
    samples = interleave(runners, Protocol(repeats=1, min_seconds=0.0))
    assert journal == [("a", 1), ("b", 1)]
    assert samples["b"].seconds == (0.5,)


def test_samples_are_seconds_of_one_loop():
    samples = interleave({"a": FakeRunner("a", [1e-3], 0, [])}, Protocol(7, min_seconds=0.01))
    assert samples["a"].loops > 1
    np.testing.assert_allclose(samples["a"].seconds, [1e-3] * 7)


def test_a_local_sample_repeats_the_operation_between_two_clock_readings():
    clock = itertools.count(10.0, 2.5)
    calls: list[int] = []
    runner = LocalRunner(lambda: calls.append(1), dict, clock=lambda: next(clock))
    assert runner.sample(3) == 2.5
    assert len(calls) == 3


@pytest.mark.parametrize("collecting", [True, False])
def test_a_sample_pauses_the_garbage_collector_and_restores_it(collecting):
    seen: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        LocalRunner(lambda: seen.append(gc.isenabled()), dict).sample(1)
        assert seen == [False]
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_closing_a_local_system_releases_it_once():
    released: list[int] = []
    LocalRunner(lambda: None, dict, on_close=lambda: released.append(1)).close()
    LocalRunner(lambda: None, dict).close()
    assert released == [1]
