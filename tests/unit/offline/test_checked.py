"""Tests that the check finds the faults of a dataset, and none in a sound one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rlox.offline.checks import find_problems
from rlox.offline.description import ReturnStatistics, describe_dataset
from rlox.sources import file_columns
from rlox.sources.preparation import complete_returns


def columns(lengths: tuple[int, ...] = (10, 12, 7, 20), terminated: bool = True) -> dict[str, Any]:
    """Makes episodes of these lengths, whose observations count the rows."""
    n = sum(lengths)
    ends = np.zeros(n, bool)
    ends[np.cumsum(lengths) - 1] = True
    obs = np.arange(n, dtype=np.float32)[:, None] * [1.0, 2.0]
    return {
        "obs": obs.astype(np.float32),
        "next_obs": (obs + np.array([1.0, 2.0])).astype(np.float32),
        "actions": np.linspace(-1, 1, n, dtype=np.float32)[:, None],
        "rewards": np.ones(n, np.float32),
        "terminated": ends & terminated,
        "truncated": ends & (not terminated),
    }


def codes(given: dict[str, Any], **about: Any) -> list[tuple[str, str]]:
    return [(found.code, found.severity) for found in find_problems(given, about)]


def limited(steps: int) -> str:
    return json.dumps({"id": "Some-v0", "max_episode_steps": steps, "entry_point": "os:abort"})


@pytest.mark.parametrize("terminated", [True, False])
def test_nothing_is_found_in_a_sound_dataset(terminated: bool) -> None:
    assert codes(columns(terminated=terminated)) == []
    assert codes(columns((20, 20, 20, 20), terminated=False), spec=limited(20)) == []
    assert codes(columns(), spec=limited(500)) == []


def test_time_limits_that_are_marked_as_terminations_are_found() -> None:
    at_limit = columns((20, 20, 20, 20))
    assert codes(at_limit) == [("time_limit", "warning")]  # all episodes have one length
    assert codes(at_limit, spec=limited(20)) == [("time_limit", "error")]
    assert codes(columns((1,) * 60)) == []  # episodes of one step
    one = columns((20, 5, 6, 7))
    assert codes(one) == []  # only one episode has the longest length
    assert codes(one, spec=limited(20)) == [("time_limit", "error")]
    most = columns((20, 20, 20, 7))
    assert codes(most) == [("time_limit", "warning")]
    (found,) = find_problems(most, {})
    assert "3 of 4 terminations are at 20 steps, the longest episode's length" in found.message


def test_next_observations_that_are_not_the_next_rows_are_found_by_row() -> None:
    given = columns()
    given["next_obs"][3] += 1.0
    (found,) = find_problems(given, {})
    assert (found.code, found.severity) == ("next_obs", "error")
    assert "next_obs of 1 of 45 rows inside episodes" in found.message
    assert "the first is row 3" in found.message
    given = columns()
    given["next_obs"][9] += 1.0  # the next row is of another episode
    assert codes(given) == []
    given["terminated"][9] = False
    assert codes(given) == [("next_obs", "error")]


@pytest.mark.parametrize("name", ["obs", "next_obs", "actions", "rewards"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nonfinite_numbers_are_found_by_column_and_row(name: str, bad: float) -> None:
    given = columns()
    given[name][9] = bad
    found = next(iter(find_problems(given, {})))
    assert (found.code, found.severity) == ("not_finite", "error")
    assert found.message.startswith(f"{name} is NaN or infinite in 1 rows, the first is row 9")


def test_a_nan_in_both_observations_is_reported_as_not_finite_only() -> None:
    given = columns()
    given["obs"][4] = given["next_obs"][3] = np.nan
    assert [code for code, _ in codes(given)] == ["not_finite", "not_finite"]


def test_one_transition_and_rows_larger_than_a_block_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert codes(columns((1,))) == []
    monkeypatch.setattr(file_columns, "BYTES_PER_READ", 1)
    assert codes(columns()) == []
    given = columns()
    given["next_obs"][3] += 1.0
    (found,) = find_problems(given, {})
    assert "the first is row 3" in found.message


def test_the_dataset_check_warns_of_double_ends_constant_actions_and_no_end() -> None:
    given = columns()
    given["truncated"][9] = True
    assert codes(given) == [("both_ends", "warning")]
    on_the_last_step = columns((20, 5, 6, 20))
    on_the_last_step["truncated"][19] = on_the_last_step["truncated"][50] = True
    assert codes(on_the_last_step, spec=limited(20)) == [("both_ends", "warning")]
    given = columns()
    given["actions"][:] = 0.5
    assert codes(given) == [("constant_action", "warning")]
    given = columns()
    given["terminated"][:] = False
    assert codes(given) == [("no_end", "warning")]


def test_the_dataset_check_ignores_malformed_environment_specs() -> None:
    for odd in ("{", "[]", "3", None, json.dumps({"max_episode_steps": "20"})):
        assert codes(columns((20, 5, 6, 7)), spec=odd) == []


def test_returns_are_sums_over_complete_episodes() -> None:
    given = columns((3, 2, 4))
    given["rewards"][:] = np.arange(9)
    given["terminated"][8] = False
    assert complete_returns(given).tolist() == [3.0, 7.0]
    found = describe_dataset(given)
    assert (found["episodes"], found["incomplete"], found["terminations"]) == (2, 4, 2)
    assert found["lengths"] == [2, 3]
    assert found["returns"]["mean"] == 5.0
    assert found["rewards"] == [0.0, 4.0, 8.0]
    given["rewards"][1] = np.nan
    np.testing.assert_equal(complete_returns(given), [np.nan, 7.0])
    given["terminated"][:] = False
    assert describe_dataset(given)["returns"] is None


def test_the_interval_of_returns_is_near_the_normal_approximation() -> None:
    returns = np.random.default_rng(0).normal(10.0, 2.0, 400)
    found = ReturnStatistics.from_returns(returns)
    half = 1.96 * returns.std() / 20
    assert found.ci95 == pytest.approx((returns.mean() - half, returns.mean() + half), abs=0.05)


def test_one_episode_has_a_return_and_no_interval() -> None:
    found = ReturnStatistics.from_returns([3.0])
    assert (found.mean, found.ci95) == (3.0, None)
