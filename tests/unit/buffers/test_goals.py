"""Tests hindsight goals: they come from the same episode and the right time, with their own reward."""

from __future__ import annotations

import numpy as np
import pytest

from rlox import HindsightConfig, ReplayBuffer
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnknownNameError

LENGTHS = [5, 1, 9, 3, 12, 7]


def reward(achieved, desired, info):
    assert info == {}
    return -(np.abs(achieved - desired).sum(-1) > 0).astype(np.float32)


def make_filled(capacity=100, **settings):
    """Fills a buffer. Achieved goals are the step number, desired ones are negative, to show their origin."""
    shapes = {"observation": (2,), "achieved_goal": (1,), "desired_goal": (1,)}
    buffer = ReplayBuffer(
        capacity,
        act_dim=1,
        obs_spaces={k: ("float32", s) for k, s in shapes.items()},
        **settings,
    )
    t, episode_ends = 0, []
    for episode, length in enumerate(LENGTHS):
        for k in range(length):
            obs, next_obs = (
                {
                    "observation": [t, k],
                    "achieved_goal": [position],
                    "desired_goal": [-1.0 - episode],
                }
                for position in (t, t + 0.5)
            )
            buffer.push(obs, 0, -1.0, False, k == length - 1 and episode < 5, next_obs)
            t += 1
        episode_ends.append(t)
    return buffer, np.array(episode_ends)


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("capacity", [100, 20])
def test_goals_come_from_the_same_episode_as_the_strategy_says(strategy, capacity):
    buffer, ends = make_filled(capacity)
    batch = buffer.sample(4_000, 1, her=HindsightConfig(reward, strategy, ratio=1.0))
    t = batch["indices"].astype(int)
    goal = batch["obs"]["desired_goal"][:, 0]
    np.testing.assert_array_equal(batch["next_obs"]["desired_goal"][:, 0], goal)
    source = (goal - 0.5).astype(int)
    end = ends[np.searchsorted(ends, t, side="right")]
    start = np.maximum(
        np.concatenate([[0], ends])[np.searchsorted(ends, t, side="right")],
        ends[-1] - min(capacity, ends[-1]),
    )
    low = {"future": t, "final": end - 1, "episode": start}[strategy]
    assert ((low <= source) & (source < end)).all()
    if strategy != "final":
        assert (source == low).any() and (source == end - 1).any()
    np.testing.assert_array_equal(batch["rewards"], -(source != t).astype(np.float32))


def test_a_fifth_of_the_rows_keeps_goal_and_reward_by_default():
    buffer, _ = make_filled()
    config = HindsightConfig(reward)
    assert (config.strategy, config.ratio) == ("future", 0.8)
    batch = buffer.sample(2_000, 3, n_batches=2, her=config)
    kept = batch["obs"]["desired_goal"][..., 0] < 0
    assert 0.17 < kept.mean() < 0.23
    assert (batch["rewards"][kept] == -1).all()
    assert not buffer.sample(500, her=HindsightConfig(reward, ratio=0.0))["rewards"].max() > -1


def test_hindsight_draws_the_same_rows_as_a_batch_without_hindsight():
    buffer, _ = make_filled()
    her = HindsightConfig(reward)
    np.testing.assert_array_equal(buffer.sample(64, 2, her=her)["indices"], buffer.sample(64, 2)["indices"])


def test_hindsight_sampling_refuses_missing_columns_and_wrong_settings():
    flat = ReplayBuffer(10, 3, 1)
    flat.push([0, 0, 0], 0, 0, False, False)
    with pytest.raises(ConfigError, match="achieved_goal"):
        flat.sample(1, her=HindsightConfig(reward))
    with pytest.raises(UnknownNameError, match="known: future"):
        HindsightConfig(reward, "later")
    with pytest.raises(ConfigError, match="compute_reward is 3"):
        HindsightConfig(3)
    with pytest.raises(ConfigError, match="ratio"):
        HindsightConfig(reward, ratio=1.5)
    buffer, _ = make_filled()
    with pytest.raises(ConfigError, match="n_step"):
        buffer.sample(1, n_step=2, gamma=0.9, her=HindsightConfig(reward))
    with pytest.raises(ShapeError, match="compute_reward"):
        buffer.sample(50, her=HindsightConfig(lambda a, d, i: np.zeros(3), ratio=1.0))
    with pytest.raises(ZeroDivisionError):
        buffer.sample(50, her=HindsightConfig(lambda a, d, i: 1 // 0, ratio=1.0))


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), -0.1, 1.5, "0.5", [0.5], 1j])
def test_a_ratio_that_is_no_number_from_0_to_1_is_refused_by_name(ratio):
    with pytest.raises(ConfigError, match=r"^ratio is .*, expected a number in "):
        HindsightConfig(reward, ratio=ratio)


@pytest.mark.parametrize("k", [float("nan"), -1, 0.5, "4", None, 2**64])
def test_a_k_that_is_no_whole_number_from_0_on_is_refused_by_name(k):
    with pytest.raises(ConfigError, match=r"^k is .*, expected an integer in 0\.\."):
        HindsightConfig(reward, k=k)


def make_hindsight(answer):
    """Makes a configuration of hindsight whose rule returns `answer` for each goal."""
    return HindsightConfig(lambda a, d, _: [answer] * len(a), ratio=1.0)


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (float("nan"), NonFiniteError, "returned NaN for a goal, .* finite in float32"),
        (float("-inf"), NonFiniteError, "returned -inf for a goal, .* finite in float32"),
        (1e300, NonFiniteError, "returned 1e300 for a goal, .* finite in float32"),
        ("1.5", ShapeError, "result has dtype <U3, expected numbers"),
        (1 + 2j, ShapeError, "result has dtype complex128, expected numbers"),
        (np.timedelta64(3, "s"), ShapeError, "result has dtype timedelta64.*, expected numbers"),
    ],
)
def test_a_reward_of_a_goal_that_is_no_finite_number_is_refused_by_name(answer, error, told):
    buffer, _ = make_filled()
    with pytest.raises(error, match=f"^compute_reward('s)? {told}"):
        buffer.sample(50, 1, her=make_hindsight(answer))


@pytest.mark.parametrize(("dtype", "answer"), [("float32", 3), ("float32", True), ("float64", 1e300)])
def test_rewards_of_goals_may_be_any_numbers_that_the_column_holds(dtype, answer):
    buffer, _ = make_filled(reward_dtype=dtype)
    rewards = buffer.sample(50, 1, her=make_hindsight(answer))["rewards"]
    np.testing.assert_array_equal(rewards, np.full(50, answer, dtype), strict=True)
