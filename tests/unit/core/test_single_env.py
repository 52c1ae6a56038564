"""Tests that single environments play the episodes of row 0 of a batch, without autoreset."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.native_envs import SPECS

import rlox
from rlox.errors import CheckpointError, ConfigError, EnvError, NonFiniteError, ShapeError

CLASSES = {env_id: spec.single for env_id, spec in SPECS.items()}


def random_action(env, rng):
    if env.n_actions is not None:
        return int(rng.integers(env.n_actions))
    return rng.uniform(env.action_low, env.action_high).astype(np.float32)


def test_every_native_environment_has_a_class():
    assert sorted(CLASSES) == rlox.native_env_ids()
    for env_id, make in CLASSES.items():
        assert isinstance(make(seed=1), rlox.SingleEnv)
        assert make(seed=1).env_id == env_id


@pytest.mark.parametrize("env_id", sorted(CLASSES))
def test_a_single_env_plays_the_episodes_of_row_0_of_a_vec_env(env_id):
    env, vec = CLASSES[env_id](seed=42), rlox.VecEnv(1, 42, env_id)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(env.reset(), vec.reset_all()[0])
    for _ in range(2 * vec.max_episode_steps + 5):
        action = random_action(env, rng)
        one, batch = env.step(action), vec.step_all([action])
        assert list(one) == ["obs", "reward", "terminated", "truncated"]
        assert (one["obs"].dtype, one["obs"].shape) == (np.float32, (env.obs_dim,))
        assert [type(one[k]) for k in ("reward", "terminated", "truncated")] == [float, bool, bool]
        np.testing.assert_array_equal(one["obs"], batch["final_obs"][0])
        assert one["reward"] == batch["rewards"][0]
        assert one["terminated"] == batch["terminated"][0]
        assert one["truncated"] == batch["truncated"][0]
        if one["terminated"] or one["truncated"]:
            with pytest.raises(EnvError, match=r"the episode is over; call reset\(\)"):
                env.step(action)
            np.testing.assert_array_equal(env.reset(), batch["obs"][0])


def test_a_step_before_the_first_reset_says_what_to_do():
    with pytest.raises(EnvError, match=r"no episode has begun; call reset\(\) before step\(\)"):
        rlox.CartPole().step(0)


def test_a_seed_given_to_reset_starts_over_and_none_draws_on():
    env = rlox.Pendulum(seed=1)
    first, second = env.reset(), env.reset()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(env.reset(seed=1), first)
    np.testing.assert_array_equal(env.reset(), second)
    np.testing.assert_array_equal(env.reset(seed=7), rlox.Pendulum(seed=7).reset())


@pytest.mark.parametrize("action", [0.5, np.float32(0.5), [0.5], np.array([0.5]), np.array(0.5)])
def test_a_box_action_may_be_a_number_or_an_array(action):
    env, other = rlox.Pendulum(3), rlox.Pendulum(3)
    env.reset()
    other.reset()
    expected = other.step(np.array([0.5], np.float32))["obs"]
    np.testing.assert_array_equal(env.step(action)["obs"], expected)


@pytest.mark.parametrize(
    ("make", "action", "error", "match"),
    [
        (rlox.CartPole, 2, EnvError, "is 2, expected an integer from 0 to 1"),
        (rlox.CartPole, 0.5, ShapeError, "action is 0.5, expected an integer from 0 to 1"),
        (rlox.CartPole, "left", ShapeError, "action is .left."),
        (rlox.Pendulum, [0.0, 0.0], ShapeError, "actions has 2 elements"),
        (rlox.Pendulum, float("nan"), NonFiniteError, "NaN"),
        (rlox.Pendulum, "up", ShapeError, "action has dtype"),
    ],
)
def test_wrong_actions_are_named_and_change_nothing(make, action, error, match):
    env = make(seed=1)
    env.reset()
    before = env.get_state()
    with pytest.raises(error, match=match):
        env.step(action)
    np.testing.assert_array_equal(env.get_state(), before)


def test_the_state_can_be_read_and_set():
    env = rlox.CartPole(seed=1)
    env.set_state([0.0, 0.0, 0.0, 0.0], elapsed=499)
    np.testing.assert_array_equal(env.get_state(), np.zeros(4))
    assert env.step(1)["truncated"]
    for state, elapsed, error in (
        (np.zeros(3), None, ShapeError),
        (np.full(4, np.nan), None, NonFiniteError),
        (np.zeros(4), 500, ConfigError),
    ):
        with pytest.raises(error):
            env.set_state(state, elapsed)


@pytest.mark.parametrize("env_id", sorted(CLASSES))
def test_a_restored_snapshot_continues_bit_for_bit(env_id):
    env, other, rng = CLASSES[env_id](1), CLASSES[env_id](99), np.random.default_rng(0)
    with pytest.raises(EnvError, match="no episode"):
        other.restore(env.snapshot())
        other.step(random_action(env, rng))
    env.reset()
    for _ in range(5):
        env.step(random_action(env, rng))
    other.restore(env.snapshot())
    for _ in range(3 * env.max_episode_steps):
        action = random_action(env, rng)
        left, right = env.step(action), other.step(action)
        np.testing.assert_equal(left, right)
        if left["terminated"] or left["truncated"]:
            again = CLASSES[env_id](5)
            again.restore(env.snapshot())
            with pytest.raises(EnvError, match="is over"):
                again.step(action)
            np.testing.assert_array_equal(env.reset(), other.reset())
            np.testing.assert_array_equal(env.get_state(), again.get_state())


@pytest.mark.parametrize("change", [{"episode": 3}, {"env_id": "Pendulum-v1"}, {"n_envs": 2}])
def test_a_single_env_refuses_a_foreign_snapshot_and_stays_unchanged(change):
    env = rlox.CartPole(1)
    env.reset()
    before = env.snapshot()
    with pytest.raises(CheckpointError):
        env.restore({**before, **change})
    np.testing.assert_equal(env.snapshot(), before)


def test_an_action_beyond_every_number_is_refused() -> None:
    env = rlox.SingleEnv("Pendulum-v1")
    env.reset()
    with pytest.raises(ConfigError, match="action is 1000"):
        env.step(10**400)
