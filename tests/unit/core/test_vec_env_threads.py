"""Tests one batch of environments in many threads: whole steps or a clear refusal, and legal states."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pytest
from helpers.selection import FULL
from helpers.waiting import PATIENCE

from rlox import VecEnv
from rlox.errors import InternalError, RloxError

SECONDS = 60 if FULL else 2
THREADS = 16
FEWEST = 2  # accepted calls
# few: a step holds the interpreter's lock; many: it releases the lock and uses its own threads
SIZES = (8, 40_000)


def check_step(step, low, high):
    """Checks that rows are observations of the environment, final ones too; counts the ended episodes."""
    for name in ("obs", "final_obs"):
        obs = step[name]
        if obs is not None and len(obs):
            assert np.isfinite(obs).all()
            assert (obs >= low).all() and (obs <= high).all()
    ended = step["terminated"] | step["truncated"]
    assert (step["rewards"] == 1.0).all()
    return int(ended.sum())


@pytest.mark.parametrize("n", SIZES)
def test_sixteen_threads_step_one_batch_or_are_refused_in_words(n):
    env = VecEnv(n, seed=0)
    env.reset_all()
    # an episode ends at |x| > 2.4 or |angle| > 0.2095; one step does not exceed these bounds
    low = np.array([-4.8, -np.inf, -0.42, -np.inf], np.float32)
    counts: Counter[str] = Counter()
    wrong: list[BaseException] = []
    stop = time.monotonic() + SECONDS

    def work(thread: int) -> None:
        rng = np.random.default_rng(thread)
        obs, rewards = np.zeros((n, 4), np.float32), np.zeros(n)
        flags = np.zeros(n, bool), np.zeros(n, bool)
        # until the time is over; on a slow machine until some calls are made
        while time.monotonic() < stop + PATIENCE * (counts["made"] < FEWEST):
            actions = rng.integers(0, 2, n)
            try:
                if thread % 8 == 7:
                    env.restore(env.snapshot())
                elif thread % 8 == 6:
                    env.step_into(actions, obs, rewards, *flags)
                    assert np.isfinite(obs).all() and (rewards == 1.0).all()
                else:
                    check_step(env.step_all(actions), low, -low)
                counts["made"] += 1
            except RloxError as error:
                if isinstance(error, InternalError):
                    wrong.append(error)
                assert "thread" in str(error)
                counts["refused"] += 1

    def guarded(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    assert wrong == []
    assert counts["made"] >= FEWEST
    state, elapsed = env.snapshot()["state"], env.snapshot()["elapsed"]
    assert np.isfinite(state).all() and (np.asarray(elapsed) < env.max_episode_steps).all()


def test_steps_from_many_threads_are_each_one_step_of_the_batch():
    env, alone = VecEnv(3, seed=5), VecEnv(3, seed=5)
    for one in (env, alone):
        one.reset_all()
    made: Counter[str] = Counter()

    def work() -> None:
        for _ in range(50):
            try:
                env.step_all(np.zeros(3, np.int64))
                made["steps"] += 1
            except RloxError:
                made["refused"] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(made["steps"]):
        alone.step_all(np.zeros(3, np.int64))
    assert made.total() == 200
    for name, array in alone.snapshot().items():
        np.testing.assert_array_equal(env.snapshot()[name], array, err_msg=name)
