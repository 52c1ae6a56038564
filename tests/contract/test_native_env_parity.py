"""Tests that native environments equal Gymnasium step by step, in batches and across autoresets.

Chaotic systems diverge after one bit of rounding, so every step starts from the native state:
Gymnasium's environment gets this state, both take the same action, and the test compares state, reward,
flags and observation. A separate, less strict test compares free-running episodes.
`RLOX_FULL=1` runs 1,000 whole episodes (Acrobot 300) of each policy for each batch size.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.native import POLICIES, Policy, Twin, random_policy, scripted_policy
from helpers.native_envs import SPECS
from helpers.selection import FULL

from rlox import VecEnv, native_env_ids

SIZES = (1, 7, 2_048)
IDS = native_env_ids()


def episodes_of(env_id: str) -> int:
    return SPECS[env_id].full_episodes if FULL else SPECS[env_id].episodes


def assert_same_observation(native: np.ndarray, other: np.ndarray) -> None:
    # Float64 states equal to 1e-12 may round to neighbouring float32 numbers.
    np.testing.assert_allclose(native, other, rtol=1.2e-7, atol=1e-12)


class Pairs:
    """Collects native results and Gymnasium's step by step, and compares many at a time."""

    def __init__(self) -> None:
        self.native: list[tuple[np.ndarray, ...]] = []
        self.gym: list[tuple[np.ndarray | float, ...]] = []

    def add(self, native: tuple[np.ndarray, ...], gym: tuple[np.ndarray | float, ...]) -> None:
        self.native.append(native)
        self.gym.append(gym)
        if len(self.gym) >= 2_000:
            self.compare()

    def compare(self) -> None:
        if not self.gym:
            return
        native = [np.array(column) for column in zip(*self.native, strict=True)]
        obs, reward, terminated, truncated, state = map(np.array, zip(*self.gym, strict=True))
        assert_same_observation(native[0], obs)
        np.testing.assert_allclose(native[1], reward, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(native[2], terminated)
        np.testing.assert_array_equal(native[3], truncated)
        running = ~(terminated | truncated)  # the others show the first state of the next episode
        np.testing.assert_allclose(native[4][running], state[running], rtol=1e-12, atol=1e-12)
        self.native.clear()
        self.gym.clear()


def assert_follows(env_id: str, n: int, policy: Policy, episodes: int) -> None:
    vec, twin, pairs = VecEnv(n, seed=3, env_id=env_id), Twin(env_id), Pairs()
    rng = np.random.default_rng(n)
    rows = np.unique(np.linspace(0, n - 1, min(n, episodes)).astype(int))
    obs, elapsed, finished = vec.reset_all(), np.zeros(n, int), 0
    state = vec.get_state()
    while finished < episodes:
        actions = policy(vec, obs, rng)
        step, reached = vec.step_all(actions), vec.get_state()
        ended = step["terminated"] | step["truncated"]
        assert (step["final_mask"] == ended).all()
        for row in rows:
            given = twin.step(state[row], elapsed[row], actions[row])
            names = ("final_obs", "rewards", "terminated", "truncated")
            native = (*(step[name][row] for name in names), reached[row])
            pairs.add(native, (*given, twin.state))
        if ended.any():
            assert_same_observation(step["obs"], SPECS[env_id].observation(reached))
        finished += int(ended[rows].sum())
        elapsed = np.where(ended, 0, elapsed + 1)
        obs, state = step["obs"], reached
    pairs.compare()


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("env_id", IDS)
def test_every_step_of_whole_episodes_equals_gymnasium(env_id: str, n: int, policy: str) -> None:
    assert_follows(env_id, n, POLICIES[policy], episodes_of(env_id))


def test_the_float32_torque_terms_of_pendulum_round_as_gymnasiums_do() -> None:
    # NumPy's float32 scalar power differs from a product once in about 1,300 torques.
    torques = np.random.default_rng(0).uniform(-2.5, 2.5, (20_000, 1)).astype(np.float32)
    vec, twin = VecEnv(len(torques), env_id="Pendulum-v1"), Twin("Pendulum-v1")
    vec.set_state(np.zeros((len(torques), 2)))
    rewards = vec.step_all(torques)["rewards"]
    for torque, reward in zip(torques, rewards, strict=True):
        assert twin.step(np.zeros(2), 0, torque)[1] == reward


def test_the_continuous_car_equals_gymnasiums_float32_numbers_bit_for_bit() -> None:
    env_id, rng = "MountainCarContinuous-v0", np.random.default_rng(0)
    states = rng.uniform([-1.25, -0.08], [0.65, 0.08], (20_000, 2)).astype(np.float32)
    forces = rng.uniform(-1.5, 1.5, (20_000, 1)).astype(np.float32)
    forces[:4] = [[1.0], [-1.0], [0.0], [1.0000001]]
    vec, twin = VecEnv(len(states), env_id=env_id), Twin(env_id)
    vec.set_state(states)
    step, differ = vec.step_all(forces), 0
    for i, (state, force) in enumerate(zip(states, forces, strict=True)):
        obs, reward, terminated, _ = twin.step(state, 0, force)
        assert (step["rewards"][i], step["terminated"][i]) == (reward, terminated)
        differ += not np.array_equal(step["final_obs"][i], obs)
    # One unit in the last place of the cosine may move a number across a rounding boundary.
    assert differ <= 2


def test_states_of_all_sizes_equal_gymnasium_and_do_not_disturb_their_neighbours() -> None:
    # Large angles take another code path; it must not change the neighbouring rows.
    rng = np.random.default_rng(1)
    for env_id in ("CartPole-v1", "Pendulum-v1"):
        vec, twin = VecEnv(130, env_id=env_id), Twin(env_id)
        column = 2 if env_id == "CartPole-v1" else 0
        state = rng.uniform(-0.2, 0.2, (130, vec.state_dim))
        actions = random_policy(vec, np.zeros((130, vec.obs_dim)), rng)
        vec.set_state(state)
        plain = vec.step_all(actions)["final_obs"]
        for row, angle in ((3, 0.9), (7, 50.0), (70, 3e7), (71, -1e12)):
            state[row, column] = angle
        vec.set_state(state, np.zeros(130, int))
        step = vec.step_all(actions)
        others = ~np.isin(np.arange(130), (3, 7, 70, 71))
        np.testing.assert_array_equal(step["final_obs"][others], plain[others])
        for row in (3, 7, 70, 71):
            obs, reward, *_ = twin.step(state[row], 0, actions[row])
            np.testing.assert_allclose(step["final_obs"][row], obs, rtol=1e-6, atol=1e-6)
            assert step["rewards"][row] == pytest.approx(reward, rel=1e-9)


@pytest.mark.parametrize("env_id", IDS)
def test_free_running_random_episodes_stay_within_a_millionth(env_id: str) -> None:
    # The test above compares whole episodes of systems that chaos separates sooner.
    n, steps = (200 if FULL else 4), SPECS[env_id].free_steps
    vec, rng = VecEnv(n, seed=5, env_id=env_id), np.random.default_rng(5)
    twins, dtype = (
        [gym.make(env_id, disable_env_checker=True) for _ in range(n)],
        Twin(env_id).dtype,
    )
    obs, live = vec.reset_all(), np.ones(n, dtype=bool)
    for twin, state in zip(twins, vec.get_state(), strict=True):
        twin.reset(seed=0)
        twin.unwrapped.state = state.astype(dtype)
    for _ in range(min(steps, vec.max_episode_steps)):
        actions = random_policy(vec, obs, rng)
        step = vec.step_all(actions)
        for row in np.flatnonzero(live):
            given = int(actions[row]) if vec.n_actions else actions[row]
            gym_obs, reward, terminated, truncated, _ = twins[row].step(given)
            np.testing.assert_allclose(step["final_obs"][row], gym_obs, rtol=1e-6, atol=1e-6)
            assert step["rewards"][row] == pytest.approx(float(reward), rel=1e-6, abs=1e-6)
            assert (step["terminated"][row], step["truncated"][row]) == (terminated, truncated)
        live &= ~step["final_mask"]
        obs = step["obs"]
    assert steps < vec.max_episode_steps or not live.any()


@pytest.mark.parametrize("env_id", IDS)
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


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("env_id", IDS)
def test_the_skilled_policy_solves_the_task_in_both_precisions(env_id: str, precision: str) -> None:
    vec = VecEnv(50, seed=1, env_id=env_id, precision=precision)
    obs, rng = vec.reset_all(), np.random.default_rng(0)
    returns, live = np.zeros(50), np.ones(50, bool)
    for _ in range(vec.max_episode_steps):
        step = vec.step_all(scripted_policy(vec, obs, rng))
        returns += step["rewards"] * live
        live &= ~step["final_mask"]
        obs = step["obs"]
    assert returns.mean() > SPECS[env_id].solved_return
