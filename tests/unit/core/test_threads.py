"""Tests threads of the data plane: their number, forks and workers. No result depends on them."""

from __future__ import annotations

import os
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from helpers.waiting import PATIENCE

import rlox
from rlox.envs.workers.vec_env import SupervisedVecEnv
from rlox.errors import ConfigError

LARGE = 32_768  # environments; threads share 16,384 or more
# A parent uses its threads and forks. The child steps as many environments and compares the result.
FORK = """
import os, signal, sys
import numpy as np, rlox
def play():
    env = rlox.VecEnv(int(sys.argv[1]), seed=3)
    for _ in range(3):
        got = env.step_all(np.ones(env.n_envs, np.int64))
    return got["obs"].tobytes()
rlox.set_num_threads(4)
expected = play()
for generation in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(int(sys.argv[2]))
        os._exit(0 if play() == expected and rlox.num_threads() == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0, f"child {generation} failed or hung"
    assert play() == expected
print(generation + 1, "children")
"""


@pytest.fixture(autouse=True)
def the_default_afterwards():
    yield
    rlox.set_num_threads()


def python(code: str, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={k: v for k, v in os.environ.items() if k not in VARIABLES} | environ,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


VARIABLES = ("RLOX_THREADS", "RAYON_NUM_THREADS")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, len(os.sched_getaffinity(0))),
        ({"RAYON_NUM_THREADS": "3"}, 3),
        ({"RLOX_THREADS": "5", "RAYON_NUM_THREADS": "3"}, 5),
        ({"RLOX_THREADS": "many", "RAYON_NUM_THREADS": "3"}, 3),
        ({"RLOX_THREADS": "0"}, len(os.sched_getaffinity(0))),
    ],
)
def test_the_default_comes_from_the_environment_or_the_cpus(environ, expected):
    said = python("import rlox; print(rlox.num_threads())", **environ)
    # a control group may allow fewer CPUs than the affinity
    assert int(said) == expected or (len(environ) < 2 and int(said) < expected)


def test_num_threads_returns_the_set_number_and_wrong_ones_are_refused():
    rlox.set_num_threads(3)
    assert rlox.num_threads() == 3
    for wrong in (0, 1025, -1, 2.5):
        with pytest.raises(ConfigError):
            rlox.set_num_threads(wrong)
    assert rlox.num_threads() == 3


def test_no_result_depends_on_the_number_of_threads():
    def play(count: int) -> bytes:
        rlox.set_num_threads(count)
        env = rlox.VecEnv(LARGE, seed=5, env_id="Pendulum-v1")
        actions = np.linspace(-2, 2, LARGE, dtype=np.float32)[:, None]
        steps = [env.step_all(actions) for _ in range(3)]
        return b"".join(np.asarray(steps[-1][key]).tobytes() for key in sorted(steps[-1]))

    alone = play(1)
    assert [play(count) == alone for count in (2, 3, 8)] == [True] * 3


def test_a_forked_child_steps_large_batches_with_threads_of_its_own():
    assert python(FORK, str(LARGE), str(int(PATIENCE))) == "3 children"


class TellsThreads(gym.Env):
    observation_space = gym.spaces.Box(0.0, 2048.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.array([rlox.num_threads()], np.float32), {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


def test_an_environment_in_a_subprocess_has_one_thread_and_its_parent_keeps_its_own():
    rlox.set_num_threads(6)
    vec = SupervisedVecEnv([TellsThreads, TellsThreads], 0, "tells", 60.0)
    obs = np.zeros((2, 1), np.float32)
    vec.reset_into(obs)
    vec.close()
    assert (obs.tolist(), rlox.num_threads()) == ([[1.0], [1.0]], 6)
