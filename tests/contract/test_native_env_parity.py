"""Native environments equal Gymnasium step by step, through the batch path and across autoresets.

Chaotic systems leave each other from one bit of rounding, so every step starts from the native
state: Gymnasium's environment is put into it, both take the same action, and state, reward, flags
and observation are compared. Free-running episodes are compared separately, less strictly.
`RLOX_FULL=1` runs 1,000 whole episodes of each policy for each batch size.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest

from rlox._core import VecEnv, native_env_ids

FULL = os.environ.get("RLOX_FULL") == "1"
EPISODES = 1_000 if FULL else 5
SIZES = (1, 7, 2_048)

Policy = Callable[[VecEnv, np.ndarray, np.random.Generator], np.ndarray]


def random_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if vec.n_actions is not None:
        return rng.integers(0, vec.n_actions, len(obs))
    # One and a half times the bounds, so that clipping is compared too.
    return (rng.uniform(-1.5, 1.5, (len(obs), vec.action_dim)) * vec.action_high).astype(np.float32)


def skilled_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if vec.env_id == "CartPole-v1":
        x, x_dot, angle, angle_dot = obs.T
        return (angle + 0.3 * angle_dot + 0.02 * x + 0.06 * x_dot > 0).astype(np.int64)
    cos, sin, speed = obs.T
    energy = 0.5 * speed**2 + 15.0 * (cos - 1.0)
    pump = np.where(energy < 0.0, 2.0, -2.0) * np.sign(speed + 1e-9)
    balance = -10.0 * np.arctan2(sin, cos) - 2.0 * speed
    torque = np.where(cos > 0.9, balance, pump)
    return torque[:, None].astype(np.float32)


POLICIES: dict[str, Policy] = {"random": random_policy, "skilled": skilled_policy}


class Twin:
    """A Gymnasium environment that follows one row of a batch."""

    def __init__(self, env_id: str) -> None:
        self.env = gym.make(env_id, disable_env_checker=True)
        self.env.reset(seed=0)

    def start(self) -> None:
        self.env.reset()

    def step(self, state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        self.env.unwrapped.state = state.copy()
        given = int(action) if np.ndim(action) == 0 else action
        obs, reward, terminated, truncated, _ = self.env.step(given)
        return obs, float(reward), terminated, truncated

    @property
    def state(self) -> np.ndarray:
        return np.asarray(self.env.unwrapped.state, dtype=np.float64)


def expected_obs(env_id: str, state: np.ndarray) -> np.ndarray:
    if env_id == "CartPole-v1":
        return state.astype(np.float32)
    theta, speed = state.T
    return np.stack([np.cos(theta), np.sin(theta), speed], axis=1).astype(np.float32)


def assert_same_observation(native: np.ndarray, other: np.ndarray) -> None:
    # Float64 states equal to 1e-12 may round to neighbouring float32 numbers.
    np.testing.assert_allclose(native, other, rtol=1.2e-7, atol=1e-12)


def assert_follows(env_id: str, n: int, policy: Policy, episodes: int) -> None:
    vec = VecEnv(n, seed=3, env_id=env_id)
    rng = np.random.default_rng(n)
    rows = np.unique(np.linspace(0, n - 1, min(n, episodes)).astype(int))
    twins = {int(row): Twin(env_id) for row in rows}
    obs, finished = vec.reset_all(), 0
    while finished < episodes:
        state = vec.get_state()
        actions = policy(vec, obs, rng)
        step = vec.step_all(actions)
        reached = vec.get_state()
        ended = step["terminated"] | step["truncated"]
        np.testing.assert_array_equal(step["final_mask"], ended)
        assert_same_observation(step["obs"], expected_obs(env_id, reached))
        for row, twin in twins.items():
            gym_obs, reward, terminated, truncated = twin.step(state[row], actions[row])
            assert step["terminated"][row] == terminated
            assert step["truncated"][row] == truncated
            assert step["rewards"][row] == pytest.approx(reward, rel=1e-12, abs=1e-12)
            assert_same_observation(step["final_obs"][row], gym_obs)
            if ended[row]:
                twin.start()
                finished += 1
            else:
                np.testing.assert_allclose(reached[row], twin.state, rtol=1e-12, atol=1e-12)
        obs = step["obs"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("env_id", native_env_ids())
def test_every_step_of_whole_episodes_equals_gymnasium(env_id: str, n: int, policy: str) -> None:
    assert_follows(env_id, n, POLICIES[policy], EPISODES)


def test_the_float32_torque_terms_of_pendulum_round_as_gymnasiums_do() -> None:
    # NumPy's float32 scalar power differs from a product once in about 1,300 torques.
    torques = np.random.default_rng(0).uniform(-2.5, 2.5, (20_000, 1)).astype(np.float32)
    vec, twin = VecEnv(len(torques), env_id="Pendulum-v1"), Twin("Pendulum-v1")
    vec.set_state(np.zeros((len(torques), 2)))
    rewards = vec.step_all(torques)["rewards"]
    env = twin.env.unwrapped
    for torque, reward in zip(torques, rewards, strict=True):
        env.state = np.zeros(2)
        assert env.step(torque)[1] == reward


@pytest.mark.parametrize("env_id", native_env_ids())
def test_free_running_random_episodes_stay_within_a_millionth(env_id: str) -> None:
    n = 200 if FULL else 12
    vec = VecEnv(n, seed=5, env_id=env_id)
    rng = np.random.default_rng(5)
    twins = [Twin(env_id) for _ in range(n)]
    obs, live = vec.reset_all(), np.ones(n, dtype=bool)
    for twin, state in zip(twins, vec.get_state(), strict=True):
        twin.env.unwrapped.state = state.copy()
    for _ in range(vec.max_episode_steps):
        actions = random_policy(vec, obs, rng)
        step = vec.step_all(actions)
        for row in np.flatnonzero(live):
            given = int(actions[row]) if vec.n_actions else actions[row]
            gym_obs, reward, terminated, truncated, _ = twins[row].env.step(given)
            np.testing.assert_allclose(step["final_obs"][row], gym_obs, rtol=1e-6, atol=1e-6)
            assert step["rewards"][row] == pytest.approx(float(reward), rel=1e-6, abs=1e-6)
            assert (step["terminated"][row], step["truncated"][row]) == (terminated, truncated)
        live &= ~step["final_mask"]
        obs = step["obs"]
    assert not live.any()


@pytest.mark.parametrize("env_id", native_env_ids())
def test_spaces_and_time_limit_equal_gymnasium(env_id: str) -> None:
    vec, env = VecEnv(2, env_id=env_id), gym.make(env_id)
    assert vec.max_episode_steps == env.spec.max_episode_steps
    np.testing.assert_array_equal(vec.observation_low, env.observation_space.low)
    np.testing.assert_array_equal(vec.observation_high, env.observation_space.high)
    assert vec.observation_low.dtype == vec.observation_high.dtype == np.float32
    if isinstance(env.action_space, gym.spaces.Discrete):
        assert (vec.n_actions, vec.action_dim) == (env.action_space.n, 1)
        assert vec.action_low is None
        assert vec.action_high is None
    else:
        assert vec.n_actions is None
        assert vec.action_dim == env.action_space.shape[0]
        np.testing.assert_array_equal(vec.action_low, env.action_space.low)
        np.testing.assert_array_equal(vec.action_high, env.action_space.high)
    assert vec.obs_dim == env.observation_space.shape[0]


@pytest.mark.parametrize("env_id", native_env_ids())
def test_the_skilled_policy_reaches_the_time_limit_or_a_good_return(env_id: str) -> None:
    vec = VecEnv(50, seed=1, env_id=env_id)
    obs, rng = vec.reset_all(), np.random.default_rng(0)
    returns = np.zeros(50)
    for _ in range(vec.max_episode_steps):
        step = vec.step_all(skilled_policy(vec, obs, rng))
        returns += step["rewards"]
        obs = step["obs"]
    assert step["truncated"].mean() > 0.9
    assert returns.mean() > {"CartPole-v1": 450, "Pendulum-v1": -400}[env_id]
