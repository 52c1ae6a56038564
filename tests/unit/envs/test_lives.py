"""Tests lives in ALE's own engine: which ends are ends of games, and which steps only begin a game."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from rlox.configs import EnvConfig, make
from rlox.envs.base import LIFE_LOST
from rlox.envs.engines.lives import AleLives
from rlox.envs.make import make_vec, wrapped_factory

ale_py = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="extra not installed: ale_py")


def transitions(backend: str, game: str, count: int) -> tuple[list[Any], list[Any], int]:
    """Plays random actions with a fixed seed until there are `count` transitions.

    Returns the transitions, the ends with their flag `LIFE_LOST`, and the number of steps without one.
    """
    given = {"id": f"ALE/{game}-v5", "n_envs": 1, "backend": backend}
    atari = {"noop_max": 1}
    vec = make_vec(make(EnvConfig, {**given, "repeat_action_probability": 0.0, "atari": atari}), 0)
    rng, obs = np.random.default_rng(0), vec.observations.rows(1)
    rewards, ends = np.zeros(1), np.zeros((2, 1), np.bool_)
    vec.reset_into(obs)
    found, told, idle = [], [], 0
    action = rng.integers(vec.action_space.n, size=1)  # type: ignore[attr-defined]
    while len(found) < count:
        finals = vec.step_into(action, obs, rewards, ends[0], ends[1])
        if finals is not None and len(finals.autoreset_envs):
            idle += 1
            continue
        seen = obs if finals is None else finals.obs
        found.append((seen[0, -84 * 84 :].astype(int), float(rewards[0]), *ends[:, 0].tolist()))
        if finals is not None:
            told.append((len(found), LIFE_LOST in finals.infos[0]))
        action = rng.integers(vec.action_space.n, size=1)  # type: ignore[attr-defined]
    vec.close()
    return found, told, idle


@ale_py
def test_ales_engine_reports_a_game_that_ends_with_lives_left_as_gymnasium_does() -> None:
    ours, told, _ = transitions("gymnasium", "Adventure", 700)
    ales, told_by_ale, idle = transitions("ale", "Adventure", 700)
    assert told == told_by_ale
    assert [on for _, on in told] == [False]  # Adventure reports one life, also when the game ends
    assert idle == 1
    for (frame, *rest), (frame_of_ale, *rest_of_ale) in zip(ours, ales, strict=True):
        assert rest == rest_of_ale
        if not any(rest[1:]):  # an end cuts an action short; ALE then pools older frames
            assert np.abs(frame - frame_of_ale).max() <= 1  # ALE computes the area means in floats


@ale_py
def test_a_lost_life_ends_an_episode_and_the_next_step_goes_on_with_the_game() -> None:
    _, told, idle = transitions("ale", "Breakout", 300)
    goes_on = [on for _, on in told]
    assert goes_on[:5] == [True] * 4 + [False]
    assert idle == goes_on.count(False)


def test_ale_lives_detects_lost_lives_and_new_games_from_infos() -> None:
    lives = AleLives()
    lives.reset({"lives": [3, 1, 2, 0], "episode_frame_number": [1, 1, 1, 1]})
    on, begun = lives.step({"lives": [2, 1, 0, 1], "episode_frame_number": [5, 5, 5, 5]})
    assert on.tolist() == [True, False, False, False]
    assert not begun.any()
    on, begun = lives.step({"lives": [2, 1, 3, 0], "episode_frame_number": [9, 2, 1, 9]})
    assert not on.any()
    assert begun.tolist() == [False, True, True, False]


@ale_py
@pytest.mark.parametrize("seed", [2**31 - 1, 2**31, 2**40 + 3])
def test_ales_own_engine_takes_every_seed_in_training_and_in_evaluations(seed: int) -> None:
    config = EnvConfig("ALE/Pong-v5", n_envs=2, backend="ale")
    vec = make_vec(config, seed)
    rows = vec.observations.rows(2)
    vec.reset_into(rows)
    env = wrapped_factory(config)()
    assert env.reset(seed=seed)[0].tobytes() == rows[0].tobytes()
    env.step(0)
    env.close()
    vec.close()
