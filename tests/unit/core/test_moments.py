"""Tests RunningStats and RunningStatsVec against NumPy on all their data."""

from __future__ import annotations

import numpy as np
import pytest

from rlox import RunningStats, RunningStatsVec
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, ShapeError


def assert_equals_numpy(stats, rows):
    assert stats.count == len(rows)
    np.testing.assert_allclose(stats.mean, rows.mean(axis=0), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(stats.var, rows.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(stats.std, rows.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_merged_parts_have_the_moments_of_the_concatenation(offset):
    rng = np.random.default_rng(0)
    for case in range(200):
        dim = case % 4 + 1
        parts = [offset + rng.normal(size=(rng.integers(1, 400), dim)) for _ in range(3)]
        total = RunningStatsVec(dim)
        for part in parts:
            other = RunningStatsVec(dim)
            other.batch_update(part[:1])
            for row in part[1:3]:
                other.update(row)
            other.batch_update(part[3:])
            total.merge(other)
        assert_equals_numpy(total, np.concatenate(parts))


def test_running_stats_of_a_large_batch_equal_numpy():
    rows = np.random.default_rng(1).normal(3.0, 2.0, size=(100_000, 3))
    stats = RunningStatsVec(3)
    stats.batch_update(rows)
    assert_equals_numpy(stats, rows)


def test_running_stats_equal_a_mean_and_variance_computed_by_hand():
    stats = RunningStats()
    stats.batch_update([1.0, 2.0])
    stats.update(6)
    assert (stats.count, stats.mean, stats.var) == (3, 3.0, 14 / 3)
    assert stats.normalize(3.0) == 0.0
    assert stats.normalize(1e9, clip=10.0) == 10.0
    stats.merge(stats)
    assert (stats.count, stats.mean, stats.var) == (6, 3.0, 14 / 3)
    stats.reset()
    assert (stats.count, stats.mean, stats.var) == (0, 0.0, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalizing_standardises_and_keeps_the_precision(dtype):
    rows = np.random.default_rng(2).normal(5.0, 3.0, size=(500, 2)).astype(dtype)
    stats = RunningStatsVec(2)
    stats.batch_update(rows)
    normal = stats.normalize_batch(rows, clip=2.0)
    expected = (rows - stats.mean) / np.sqrt(stats.var + 1e-8)
    np.testing.assert_allclose(normal, np.clip(expected, -2.0, 2.0), rtol=1e-6)
    assert normal.dtype == stats.normalize(rows[0]).dtype == dtype
    np.testing.assert_array_equal(stats.normalize(rows[0], 2.0), normal[0])
    column = RunningStats()
    column.batch_update(rows[:, 0])
    np.testing.assert_allclose(column.normalize_batch(rows[:, 0], 2.0), normal[:, 0], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_running_stats_refuse_nonfinite_values_and_stay_unchanged(bad):
    scalar, vector = RunningStats(), RunningStatsVec(2)
    scalar.batch_update([1.0, 2.0])
    vector.batch_update([[1.0, 2.0], [3.0, 5.0]])
    before = scalar.state(), [np.array(value) for value in vector.state().values()]
    for call in (
        lambda: scalar.update(bad),
        lambda: scalar.batch_update([0.0, bad]),
        lambda: vector.update([0.0, bad]),
        lambda: vector.batch_update([[0.0, 1.0], [bad, 0.0]]),
        lambda: scalar.normalize(bad),
        lambda: vector.normalize_batch([[0.0, bad]]),
    ):
        with pytest.raises(NonFiniteError):
            call()
    assert scalar.state() == before[0]
    for value, old in zip(vector.state().values(), before[1], strict=True):
        np.testing.assert_array_equal(value, old)


def test_a_restored_object_continues_with_the_same_bits():
    rng = np.random.default_rng(3)
    one, two = RunningStatsVec(3), RunningStatsVec(3)
    one.batch_update(rng.normal(size=(100, 3)))
    two.restore(one.state())
    more = rng.normal(size=(50, 3))
    for stats in (one, two):
        stats.batch_update(more)
    for name, value in one.state().items():
        np.testing.assert_array_equal(two.state()[name], value)
    scalar = RunningStats()
    scalar.restore({"format": 1, "count": 2, "mean": 1.5, "m2": 0.5})
    assert (scalar.mean, scalar.var) == (1.5, 0.25)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"format": 2}, "format"),
        ({"count": -1}, "count"),
        ({"mean": float("nan")}, "mean"),
        ({"m2": -1.0}, "m2"),
        ({"mean": "a"}, "mean"),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(changed, match):
    stats = RunningStats()
    stats.update(1.0)
    state = stats.state()
    with pytest.raises(CheckpointError, match=match):
        stats.restore({**state, **changed})
    with pytest.raises(CheckpointError, match="format"):
        stats.restore({key: value for key, value in state.items() if key != "format"})
    vector = RunningStatsVec(2)
    with pytest.raises(CheckpointError, match="mean"):
        vector.restore(RunningStatsVec(3).state())
    assert stats.state() == state


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ConfigError, "dim", lambda: RunningStatsVec(0)),
        (ConfigError, "dim", lambda: RunningStatsVec(-1)),
        (ConfigError, "dim", lambda: RunningStatsVec(2**40)),
        (ShapeError, "x is", lambda: RunningStats().update("one")),
        (ShapeError, "xs has shape", lambda: RunningStats().batch_update([[1.0]])),
        (ShapeError, "x has shape", lambda: RunningStatsVec(2).update([1.0])),
        (ShapeError, "xs has shape", lambda: RunningStatsVec(2).batch_update([[1.0]])),
        (ShapeError, "other", lambda: RunningStatsVec(2).merge(RunningStatsVec(3))),
        (ConfigError, "eps", lambda: RunningStats().normalize(1.0, eps=0.0)),
        (ConfigError, "clip", lambda: RunningStats().normalize(1.0, clip=-1.0)),
    ],
)
def test_running_stats_refuse_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call()


def test_a_first_number_of_any_size_is_taken_in() -> None:
    stats = RunningStats()
    stats.update(1e308)
    assert (stats.mean, stats.var) == (1e308, 0.0)


def test_running_stats_refuse_a_merge_that_overflows_their_count() -> None:
    stats = RunningStats()
    stats.batch_update([1.0, 2.0])
    for _ in range(52):
        stats.merge(stats)
    assert stats.count == 2**53
    with pytest.raises(ConfigError, match=r"at most 2\^53"):
        stats.merge(stats)
    assert stats.count == 2**53
    with pytest.raises(CheckpointError, match="count"):
        stats.restore(stats.state() | {"count": 2**64 - 1})


@pytest.mark.parametrize("mean", [np.complex64(1 + 2j), 10**400, "1"])
def test_a_state_holds_real_numbers_only(mean: object) -> None:
    stats = RunningStats()
    with pytest.raises(CheckpointError, match="mean"):
        stats.restore(stats.state() | {"mean": mean})
