"""Tests that `env.kwargs` of EnvPool and ALE refuse options of rlox's keys, in training and evaluations."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from rlox.configs import EnvConfig, make
from rlox.envs.make import make_vec, wrapped_factory
from rlox.errors import ConfigError


def engine(backend: str, module: str) -> Any:
    missing = importlib.util.find_spec(module) is None
    mark = pytest.mark.skipif(missing, reason=f"extra not installed: {module}")
    return pytest.param(backend, marks=mark)


ENGINES = (engine("envpool", "envpool"), engine("ale", "ale_py"))


def config(backend: str, env_id: str = "ALE/Pong-v5", **kwargs: Any) -> EnvConfig:
    return make(EnvConfig, {"id": env_id, "n_envs": 2, "backend": backend, "kwargs": kwargs})


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("stack_num", "set env.atari.stack"),
        ("frame_skip", "set env.atari.frame_skip"),
        ("frameskip", "set env.atari.frame_skip"),
        ("img_height", "set env.atari.screen_size"),
        ("noop_max", "set env.atari.noop_max"),
        ("maxpool", "set env.atari.max_pool"),
        ("use_fire_reset", "set env.atari.fire_reset"),
        ("episodic_life", "set env.atari.life_loss"),
        ("life_loss_info", "set env.atari.life_loss"),
        ("reward_clip", "set env.atari.clip_rewards"),
        ("reward_clipping", "set env.atari.clip_rewards"),
        ("repeat_action_probability", "set env.repeat_action_probability"),
        ("max_episode_steps", "set env.max_episode_steps"),
        ("max_num_frames_per_episode", "set env.max_episode_steps"),
        ("num_envs", "set env.n_envs"),
        ("batch_size", "an engine steps all of its environments at once"),
        ("gray_scale", "gray frames"),
        ("grayscale", "gray frames"),
        ("autoreset_mode", "rlox always uses NEXT_STEP"),
        ("env_type", "rlox always uses Gymnasium's API"),
    ],
)
def test_the_error_for_an_engine_option_names_its_rlox_key(backend: str, option: str, told: str) -> None:
    given = config(backend, **{option: 1})
    for call in (lambda: make_vec(given, 0), wrapped_factory(given)):
        with pytest.raises(ConfigError, match=f"env.kwargs.{option} with env.backend=.*: .*{told}"):
            call()


@pytest.mark.parametrize("backend", ENGINES)
def test_pool_environments_pass_other_kwargs_on_to_their_engine(backend: str) -> None:
    vec = make_vec(config(backend, full_action_space=True, num_threads=1), 0)
    assert vec.action_space.n == 18  # type: ignore[attr-defined]
    assert vec.observations.n_frames == 4
    vec.close()


@pytest.mark.parametrize("backend", ENGINES[:1])
def test_envpool_refuses_kwargs_that_control_its_stepping_or_seeds(backend: str) -> None:
    for option in ("batch_size", "max_episode_steps", "env_seed"):
        with pytest.raises(ConfigError, match=f"env.kwargs.{option} with env.backend=envpool"):
            make_vec(config(backend, "CartPole-v1", **{option: 1}), 0)


@pytest.mark.parametrize("backend", ENGINES[:1])
def test_the_error_for_a_value_that_envpool_rejects_names_env_kwargs(backend: str) -> None:
    with pytest.raises(ConfigError, match=r"env.kwargs do not fit EnvPool: Invalid game mode"):
        make_vec(config(backend, mode=7777), 0)
