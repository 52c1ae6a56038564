"""Tests that threads which use one object take turns, and that none waits for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from helpers.waiting import PATIENCE

from rlox._core import ReplayBuffer, RunningStatsVec, Stream, VecEnv

EXPLORERS = """
import threading
import numpy as np
from rlox.algorithms import DQN
from rlox._core import VecEnv

native = DQN("CartPole-v1", backend="native", net_arch=(8,), buffer_size=64).learner.native
explorer, vector = native.explorer, native.vector
many, chosen = np.zeros((1_000_000, 4), np.float32), np.full(1_000_000, -1)
envs, done, steps = VecEnv(1, seed=0), threading.Event(), []
obs, next_obs = np.zeros((2, 1, 4), np.float32), np.zeros((1, 1, 4), np.float32)
obs[0] = envs.reset_all()
flags = np.zeros((2, 1, 1), bool)
columns = np.full((1, 1), -1), np.zeros((1, 1)), *flags, np.zeros(1), np.zeros(1, np.int64)

def step():
    while not done.is_set():
        columns[0][:] = -1
        explorer.collect(vector, envs, obs, next_obs, *columns)
        obs[0] = obs[1]
        steps.append(1)

thread = threading.Thread(target=step)
thread.start()
while len(steps) < 2_000:  # long calls, in the middle of which the other thread makes short ones
    explorer.act(vector, many, chosen)
done.set()
thread.join()
print("both ended")
"""


def several(work: Callable[[], None], threads: int = 8) -> list[BaseException]:
    """Run `work` in threads; return the exceptions that they raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in started), "deadlock"
    return errors


@pytest.mark.parametrize("n", [1, 3_000])
def test_threads_that_step_one_environment_take_turns(n: int):
    env, twin = VecEnv(n, seed=4), VecEnv(n, seed=4)
    env.reset_all()
    twin.reset_all()
    actions = np.ones(n, dtype=np.int64)

    def step() -> None:
        for _ in range(50):
            env.step_all(actions)
            assert env.n_envs == n
            env.get_state()

    assert several(step) == []
    for _ in range(8 * 50):
        twin.step_all(actions)
    np.testing.assert_array_equal(env.get_state(), twin.get_state())


def test_threads_that_share_a_stream_draw_each_number_once():
    stream = Stream(2, "shared")
    drawn: list[np.ndarray] = []

    def draw() -> None:
        drawn.extend(stream.uniform(5_000) for _ in range(20))

    assert several(draw) == []
    alone = Stream(2, "shared").uniform(8 * 20 * 5_000)
    np.testing.assert_array_equal(np.sort(np.concatenate(drawn)), np.sort(alone))


def test_threads_that_share_statistics_count_everything_once():
    stats = RunningStatsVec(3)
    numbers = np.random.default_rng(0).normal(size=(4_000, 3))

    def update() -> None:
        for _ in range(20):
            stats.batch_update(numbers)
            assert stats.mean.shape == (3,)

    assert several(update) == []
    assert stats.count == 8 * 20 * 4_000
    np.testing.assert_allclose(stats.mean, numbers.mean(axis=0))
    stats.merge(stats)
    assert stats.count == 2 * 8 * 20 * 4_000


def test_readers_cannot_starve_the_writer_of_a_buffer():
    buffer = ReplayBuffer(1_000, 64, 1)
    obs = np.zeros(64, np.float32)
    buffer.push(obs, 0.0, 0.0, False, False, obs)
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            buffer.sample(2_000)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    try:
        begun = time.monotonic()
        for _ in range(20):
            buffer.push(obs, 0.0, 0.0, False, False, obs)
        assert time.monotonic() - begun < PATIENCE
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert len(buffer) == 21


def test_short_calls_beside_long_ones_of_one_explorer_never_wait_for_each_other():
    done = subprocess.run([sys.executable, "-c", EXPLORERS], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "both ended\n", done.stderr
