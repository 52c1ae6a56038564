"""Tests that the float32 kernels stay within their stated deviation from float64."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.native import POLICIES
from helpers.native_envs import SPECS

from rlox import VecEnv, native_env_ids

IDS = native_env_ids()


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("env_id", IDS)
def test_one_step_deviates_from_float64_by_no_more_than_stated(env_id: str, policy: str) -> None:
    spec = SPECS[env_id]
    n, rng = 512, np.random.default_rng(2)
    walk = VecEnv(n, 3, env_id)
    exact, fast = VecEnv(n, 0, env_id), VecEnv(n, 0, env_id, precision="f32")
    obs, compared, flags = walk.reset_all(), 0, 0
    for _ in range(250):
        actions = POLICIES[policy](walk, obs, rng)
        state = walk.get_state().astype(np.float32).astype(np.float64)
        for vec in (exact, fast):
            vec.set_state(state, np.zeros(n, int))
        left, right = exact.step_all(actions), fast.step_all(actions)
        running = ~(left["final_mask"] | right["final_mask"])
        expected, got = exact.get_state()[running], fast.get_state()[running]
        apart = np.abs(got - expected)
        for angle in spec.angles:  # near half a turn the angle may wrap to the other side
            apart[:, angle] = np.minimum(apart[:, angle], np.abs(apart[:, angle] - 2 * np.pi))
        assert (apart / np.maximum(1.0, np.abs(expected))).max() <= spec.deviation
        np.testing.assert_allclose(right["rewards"], left["rewards"], rtol=0, atol=spec.reward_deviation)
        compared += int(running.sum())
        flags += int((left["terminated"] != right["terminated"]).sum())
        obs = walk.step_all(actions)["obs"]
    assert compared > 100_000
    assert flags <= 2  # a number near a threshold may round to the other side


@pytest.mark.parametrize("env_id", IDS)
def test_the_float32_kernel_differs_from_the_float64_kernel(env_id: str) -> None:
    exact, fast = (VecEnv(64, 1, env_id, precision=p) for p in ("f64", "f32"))
    assert (exact.precision, fast.precision) == ("f64", "f32")
    rng, differs = np.random.default_rng(0), False
    obs = exact.reset_all()
    np.testing.assert_allclose(fast.reset_all(), obs, rtol=1e-6, atol=1e-7)
    for _ in range(20):
        actions = POLICIES["random"](exact, obs, rng)
        obs, other = exact.step_all(actions)["obs"], fast.step_all(actions)["obs"]
        differs |= not np.array_equal(obs, other)
    assert differs
    state = fast.get_state()
    np.testing.assert_array_equal(state, state.astype(np.float32))
