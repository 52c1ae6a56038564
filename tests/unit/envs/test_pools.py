"""Tests EnvPool: Gymnasium's ids, a seed for each environment, resets without transitions, true returns."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlox.configs import EnvConfig, make
from rlox.envs.make import make_vec, wrapped_factory
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError

envpool = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("envpool") is None,
    reason="extra not installed: envpool",
)


def config(env_id: str = "CartPole-v1", n_envs: int = 3, **keys: Any) -> EnvConfig:
    return make(EnvConfig, {"id": env_id, "n_envs": n_envs, "backend": "envpool", **keys})


def play(vec: Any, steps: int) -> tuple[list[Any], list[Any], int]:
    """Plays random actions with a fixed seed; returns outputs, ended episodes and the number of idle rows."""
    n, dim = vec.n_envs, vec.observations.dim
    obs, rewards, ends = np.zeros((n, dim), np.float32), np.zeros(n), np.zeros((2, n), np.bool_)
    rng = np.random.default_rng(0)
    vec.reset_into(obs)
    shown, told, idle = [obs.copy()], [], 0
    for _ in range(steps):
        action = rng.integers(2, size=n)
        finals = vec.step_into(action, obs, rewards, ends[0], ends[1])
        shown.append((obs.copy(), rewards.copy(), ends.copy()))
        if finals is not None:
            told += [(int(i), info) for i, info in zip(finals.envs, finals.infos, strict=True)]
            idle += len(finals.autoreset_envs)
            assert not rewards[finals.autoreset_envs].any()
    vec.close()
    return shown, told, idle


@envpool
def test_environment_i_of_a_pool_uses_seed_plus_i_for_any_pool_size() -> None:
    wide, _, _ = play(make_vec(config(n_envs=3, seeding="offset"), 5), 0)
    for i in range(3):
        single = wrapped_factory(config(n_envs=1))()
        assert single.reset(seed=5 + i)[0].tolist() == wide[0][i].tolist()
        single.close()


@envpool
def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    runs = [play(make_vec(config(), seed), 40)[0] for seed in (5, 5, 6)]
    assert repr(runs[0]) == repr(runs[1])
    assert repr(runs[0]) != repr(runs[2])


@envpool
def test_envpool_reports_unscaled_returns_and_obeys_max_episode_steps() -> None:
    vec = make_vec(config(max_episode_steps=6, reward_scale=0.1), 1)
    _, told, idle = play(vec, 60)
    assert {info["rlox/true_return"] for _, info in told} == {6.0}
    assert len(told) == 3 * 8  # 6 steps, and one that begins the next episode
    assert idle == 3 * 8


@envpool
def test_envpool_accepts_gymnasiums_atari_ids_and_evaluates_whole_games() -> None:
    vec = wrapped_factory(config("ALE/Breakout-v5", 1, atari={"noop_max": 1}))()
    assert vec.observation_space.shape == (4, 84, 84)
    assert vec.observation_space.dtype == np.uint8
    vec.reset(seed=0)
    for _ in range(400):
        *_, over, _, info = vec.step(1)
        if over:
            break
    assert info["lives"] == 0  # evaluations play whole games
    vec.close()


@envpool
@pytest.mark.parametrize(
    ("keys", "error", "told"),
    [
        ({"env_id": "CartPol-v1"}, UnknownNameError, "EnvPool has no CartPol-v1; did you mean"),
        ({"env_id": "Blackjack-v9"}, UnknownNameError, "EnvPool has no Blackjack-v9"),
        ({"action_repeat": 2}, ConfigError, "env.backend=envpool has no env.action_repeat"),
        ({"wrappers": ["flatten_observation"]}, ConfigError, "has no env.wrappers"),
        ({"action_mask": "info"}, ConfigError, "has no env.action_mask"),
        ({"repeat_action_probability": 0.2}, ConfigError, "sticky actions for Atari games only"),
        ({"kwargs": {"nonsense": 1}}, ConfigError, "env.kwargs do not fit EnvPool"),
        (
            {"env_id": "ALE/Pong-v5", "atari": {"preprocess": False}},
            ConfigError,
            "always preprocesses; use env.backend=gymnasium",
        ),
    ],
)
def test_envpool_refuses_unknown_ids_and_unsupported_options_by_name(
    keys: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        make_vec(config(**keys), 0)


@pytest.mark.parametrize(
    ("backend", "module", "env_id", "line"),
    [
        ("envpool", "envpool", "CartPole-v1", "pip install 'envpool"),
        ("ale", "ale_py", "ALE/Pong-v5", "pip install 'ale-py"),
    ],
)
def test_the_error_for_a_missing_engine_gives_its_install_command(
    backend: str, module: str, env_id: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=line):
        make_vec(EnvConfig(env_id, n_envs=1, backend=backend), 0)


def test_ales_own_engine_plays_games_only() -> None:
    with pytest.raises(ConfigError, match="plays Atari games"):
        make_vec(EnvConfig("CartPole-v1", backend="ale"), 0)


@pytest.mark.parametrize("backend", ["envpool", "ale"])
def test_envpool_and_ale_refuse_an_environment_object_without_an_id(backend: str) -> None:
    given = make(EnvConfig, {"id": "env", "n_envs": 1, "backend": backend})
    with pytest.raises(ConfigError, match=f"env.backend={backend} needs an environment id"):
        make_vec(given, 0, lambda: gym.make("CartPole-v1"))
