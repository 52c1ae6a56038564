"""Supervised workers: what fails costs one episode of whoever is in its process, and begins anew."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from faults.workers import ALONE, HANGS, WAYS, Counter, alive, below, gone
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.envs.base import Finals, VectorEnv
from rlox.envs.make import make_vec
from rlox.envs.workers.wire import Wire
from rlox.errors import ConfigError, EnvError, ShapeError

SEED, N = 7, 4


def made(source: Any, **config: Any) -> Any:
    """Two workers of two environments each, unless it is said otherwise."""
    given = {"n_envs": N, "worker_envs": 2, "step_timeout": 20.0, **config}
    return make_vec(EnvConfig(workers="subprocess", **given), SEED, source)


class Play:
    """Steps a vector with actions 0 and keeps what it says."""

    def __init__(self, vec: VectorEnv) -> None:
        self.vec = vec
        self.obs: NDArray[Any] = np.zeros((vec.n_envs, vec.observations.dim), np.float32)
        self.rewards, self.flags = np.zeros(vec.n_envs), np.zeros((2, vec.n_envs), np.bool_)
        vec.reset_into(self.obs)

    def step(self) -> Finals | None:
        actions = np.zeros(self.vec.n_envs, np.int64)
        return self.vec.step_into(actions, self.obs, self.rewards, *self.flags)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()


@pytest.fixture
def vecs() -> Any:
    """Makes vectors, and closes them in the end."""
    opened = []

    def open_one(source: Any, **config: Any) -> Any:
        opened.append(made(source, **config))
        return opened[-1]

    yield open_one
    for vec in opened:
        vec.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_costs_the_episodes_of_its_process_and_no_other(way: str, vecs: Any) -> None:
    """Environment 0 fails in step 2 of its second episode; 1 is in the same process, 2 and 3 are not."""
    deadline = 0.5 if way in HANGS else 20.0
    vec = vecs(partial(Counter, way, mortal=SEED + 1), step_timeout=deadline)
    play = Play(vec)
    play.steps(5)
    process = play.obs[:, 0].copy()
    finals = play.step()
    lost = [0] if way in ALONE else [0, 1]
    others = [i for i in range(N) if i not in lost]
    assert finals is not None
    assert finals.lost.tolist() == lost
    assert (finals.restarts, len(finals.envs)) == (1, 0)
    assert play.rewards.tolist() == [0.0 if i in lost else 1.0 for i in range(N)]
    assert play.flags[0].tolist() == [False] * N
    assert play.flags[1].tolist() == [i in lost for i in range(N)]
    assert play.obs[lost, 2:].tolist() == [[0, 0]] * len(lost)
    assert play.obs[others, 1:].tolist() == [[SEED + i, 1, 2] for i in others]
    assert (play.obs[:, 0] == process).tolist() == [way in ALONE or i in others for i in range(N)]
    assert not set(play.obs[lost, 1]) & set(range(SEED, SEED + N))
    lives = play.obs[:, 1].copy()
    play.step()
    assert play.obs[lost, 2:].tolist() == [[0, 1]] * len(lost)
    assert play.obs[others, 2:].tolist() == [[1, 3]] * len(others)
    assert play.obs[:, 1].tolist() == lives.tolist()


def test_lives_that_begin_anew_do_not_depend_on_how_many_a_worker_has(vecs: Any) -> None:
    seen = []
    for worker_envs in (1, 3, None):
        play = Play(vecs(partial(Counter, "raise", mortal=SEED + N), worker_envs=worker_envs))
        seen.append([])
        for _ in range(12):
            finals = play.step()
            lost = [] if finals is None else finals.lost.tolist()
            seen[-1] += [play.obs[:, 1:].tolist(), lost, play.flags.tolist()]
    assert seen[0] == seen[1] == seen[2]
    assert len({life for step in seen[0][::3] for life, *_ in step}) == 2 * N


def test_an_environment_that_fails_too_often_in_a_row_is_an_error_with_its_traceback(
    vecs: Any,
) -> None:
    play = Play(vecs(partial(Counter, "raise", at=1, mortal=1 << 63, steps=1), max_restarts=3))
    play.step()  # the only episode that is finished
    for _ in range(3):
        finals = play.step()
        assert finals is not None
        assert finals.lost.tolist() == list(range(N))
        play.step()
    told = (
        r"copy 0\) raised RuntimeError in step: a fault on purpose; failed 4 times .*max_restarts=3"
    )
    with pytest.raises(EnvError, match=rf"(?s){told}.*Traceback.*in fail"):
        play.steps(2)
    with pytest.raises(EnvError, match="closed"):
        play.step()
