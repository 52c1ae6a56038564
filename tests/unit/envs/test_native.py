"""Tests native environments behind the vector interface and as Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.envs import Countdown

from rlox import SingleEnv, VecEnv, _core, native_env_ids
from rlox.algorithms import PPO
from rlox.configs import EnvConfig, make
from rlox.envs.ids import NativeGymEnv, native_ids, register_native_envs
from rlox.envs.make import make_vec, uses_native
from rlox.envs.native import NativeVecEnv, native_env_class
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.errors import ConfigError, UnknownNameError


def test_the_precision_of_the_configuration_reaches_the_engine() -> None:
    for precision in ("f64", "f32"):
        vec = make_vec(make(EnvConfig, {"n_envs": 2, "precision": precision}), 0)
        assert isinstance(vec, NativeVecEnv)
        assert vec.core.precision == precision


def test_a_facade_takes_the_precision_too() -> None:
    ppo = PPO("CartPole-v1", n_envs=2, precision="f32")
    assert ppo.collector.env.core.precision == "f32"


@pytest.mark.parametrize(
    "options",
    [
        {"id": "Blackjack-v1"},
        {"backend": "gymnasium"},
        {"wrappers": ["time_aware_observation"]},
        {"workers": "subprocess"},
        {"kwargs": {"sutton_barto_reward": True}},
    ],
)
def test_float32_in_gymnasium_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"env.precision=f32 needs a native environment"):
        make_vec(make(EnvConfig, {"n_envs": 1, "precision": "f32", **options}), 0)


def test_float32_with_an_environment_object_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"env.precision=f32 needs a native environment id"):
        make_vec(make(EnvConfig, {"n_envs": 1, "precision": "f32"}), 0, Countdown)


def test_a_precision_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"precision.*f16"):
        make(EnvConfig, {"precision": "f16"})


def test_native_env_class_finds_the_class_in_the_module_of_the_id() -> None:
    assert native_env_class("CartPole-v1") is VecEnv
    assert native_env_class("rlox._core:CartPole-v1") is VecEnv
    assert native_env_class("Blackjack-v1") is None
    assert native_env_class("json:CartPole-v1") is None  # the module has no native environments
    assert uses_native(EnvConfig(id="rlox._core:Pendulum-v1"))
    with pytest.raises(UnknownNameError, match="'no_such_module' cannot be imported"):
        native_env_class("no_such_module:Id-v0")


def test_registering_leaves_gymnasiums_own_environments_alone() -> None:
    assert native_ids(_core) == native_env_ids()
    before = dict(gym.registry)
    register_native_envs(_core)
    assert gym.registry == before


@pytest.mark.parametrize("env_id", native_env_ids())
def test_the_gymnasium_adapter_keeps_gymnasiums_contract(env_id: str) -> None:
    env = NativeGymEnv(SingleEnv, env_id)
    check_env(env, skip_render_check=True)
    own = gym.make(env_id)
    assert env.observation_space == own.observation_space
    assert env.action_space == own.action_space


def test_the_adapter_plays_the_episodes_of_its_seeds() -> None:
    env = NativeGymEnv(SingleEnv, "CartPole-v1")
    vec = VecEnv(1, 5)
    obs, info = env.reset(seed=5)
    np.testing.assert_array_equal(obs, vec.reset_all()[0])
    assert info == {}
    done = False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(1)
        step = vec.step_all([1])
        np.testing.assert_array_equal(obs, step["final_obs"][0])
        done = terminated or truncated
        assert (reward, done) == (1.0, bool(step["final_mask"][0]))
    np.testing.assert_array_equal(env.reset()[0], step["obs"][0])


def test_an_adapter_without_a_seed_starts_anywhere() -> None:
    first = [NativeGymEnv(SingleEnv, "CartPole-v1").reset()[0].tolist() for _ in range(3)]
    assert first[0] != first[1] != first[2]


def test_an_adapter_is_saved_and_restored_exactly() -> None:
    env, other = (NativeGymEnv(SingleEnv, "Pendulum-v1") for _ in range(2))
    env.reset(seed=1)
    env.step([0.5])
    assert can_save(env)
    restore_env(other, save_env(env))
    for _ in range(10):
        np.testing.assert_array_equal(env.step([1.0])[0], other.step([1.0])[0])
    np.testing.assert_array_equal(env.reset()[0], other.reset()[0])


def test_an_adapter_refuses_to_render() -> None:
    with pytest.raises(gym.error.UnsupportedMode, match="cannot render"):
        NativeGymEnv(SingleEnv, "CartPole-v1", render_mode="rgb_array")
