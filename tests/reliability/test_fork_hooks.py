"""Tests that a forked child has consistent, usable objects, whatever other threads are doing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from helpers.mid_call import call_during, handle_signal
from helpers.selection import FULL
from helpers.waiting import PATIENCE, until

from rlox import HindsightConfig, ReplayBuffer
from rlox._core import RunningStatsVec, Stream, VecEnv

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

FORKS = 100 if FULL else 15
DIM = 64


def filled(rows: int) -> ReplayBuffer:
    """Make a buffer in which all numbers of a row are equal."""
    buffer = ReplayBuffer(rows, DIM, 1)
    push_rows(buffer, rows)
    return buffer


def push_rows(buffer: ReplayBuffer, rows: int) -> None:
    """Push rows of equal numbers."""
    numbers = np.arange(rows, dtype=np.float32)
    obs = np.repeat(numbers[:, None], DIM, axis=1)
    flags = np.zeros(rows, dtype=bool)
    buffer.push_batch(obs, numbers, numbers, flags, flags, obs)


def whole(buffer: ReplayBuffer) -> bool:
    """Whether all numbers of every sampled row are equal, and the buffer takes new rows."""
    push_rows(buffer, 10)
    batch = buffer.sample(2_000)
    expected = np.repeat(batch["rewards"][:, None], DIM, axis=1)
    return np.array_equal(batch["obs"], expected) and np.array_equal(batch["next_obs"], expected)


def child(check: Callable[[], bool], seconds: float = PATIENCE) -> str:
    """Fork and run `check` in the child; return the result."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds))
        status = 2
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}" + " (hung)" * (os.WTERMSIG(status) == 14)
    return {0: "fine", 1: "wrong", 2: "raised"}[os.WEXITSTATUS(status)]


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Run each function repeatedly in its own thread."""
    done = threading.Event()

    def again(work: Callable[[], object]) -> None:
        while not done.is_set():
            work()

    threads = [threading.Thread(target=again, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads), "deadlock in the parent"


def test_children_find_whole_buffers_while_threads_push_and_sample():
    buffer = filled(20_000)
    out = buffer.sample(5_000)
    works = (
        lambda: push_rows(buffer, 3_000),
        lambda: buffer.sample(5_000),
        lambda: buffer.sample(5_000, out=out),
    )
    with meanwhile(*works):
        for _ in range(FORKS):
            assert child(lambda: whole(buffer)) == "fine"
            time.sleep(0.003)
    assert whole(buffer)


def test_children_can_use_the_arrays_of_calls_that_were_under_way():
    buffer = filled(20_000)
    out = buffer.sample(3_000)
    with meanwhile(lambda: buffer.sample(3_000, out=out)):
        for _ in range(FORKS):
            assert child(lambda: buffer.sample(3_000, out=out) is out) == "fine"
            time.sleep(0.002)


def test_children_find_whole_environments_while_a_thread_steps():
    env = VecEnv(2_000, seed=3, env_id="Pendulum-v1")
    env.reset_all()
    actions = np.zeros(2_000, np.float32)

    def consistent() -> bool:
        state = env.get_state()
        elapsed = env.snapshot()["elapsed"]
        env.step_all(actions)
        return bool((elapsed == elapsed[0]).all()) and bool(np.isfinite(state).all())

    with meanwhile(lambda: env.step_all(actions)):
        for _ in range(FORKS):
            assert child(consistent) == "fine"
            time.sleep(0.002)


def test_a_fork_waits_for_the_work_of_other_threads_and_no_longer():
    stream, draws = Stream(1, "long"), 4_000_000
    drawn, done = threading.Event(), threading.Event()

    def draw() -> None:
        while not done.is_set():
            stream.normal(draws)
            drawn.set()

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        # The thread is in a draw nearly always: the child of a fork that did not wait finds half a draw, or a
        # lock that no thread releases.
        assert drawn.wait(PATIENCE)
        for _ in range(5):
            assert child(lambda: stream.position % (4 * draws) == 0 < stream.position) == "fine"
    finally:
        done.set()
        thread.join()
    assert child(lambda: True) == "fine"  # this one waits for no thread


def test_a_fork_from_a_callback_does_not_wait_for_its_own_call():
    spaces = {name: ("float32", (2,)) for name in ("observation", "achieved_goal", "desired_goal")}
    buffer = ReplayBuffer(100, None, 1, obs_spaces=spaces)
    obs = {name: np.zeros(2, np.float32) for name in spaces}
    for _ in range(50):
        buffer.push(obs, 0.0, 0.0, False, False, obs)
    outcomes = []

    def compute_reward(achieved: np.ndarray, desired: np.ndarray, info: object) -> np.ndarray:
        outcomes.append(child(lambda: len(buffer) == 50))
        return np.zeros(len(achieved))

    buffer.sample(10_000, her=HindsightConfig(compute_reward))
    assert outcomes == ["fine"]


def ring() -> None:
    """Call the signal handler now, inside a call."""
    signal.raise_signal(signal.SIGALRM)


def test_a_fork_from_a_signal_handler_does_not_wait_for_the_call_it_interrupted():
    outcomes = []
    stats = RunningStatsVec(2)

    def count() -> bool:
        stats.batch_update(np.ones((50_000, 2)))
        return stats.count == 50_000

    with handle_signal(signal.SIGALRM, lambda: outcomes.append(child(count))):
        call_during(lambda draws: partial(Stream(1, "long").normal, draws), 10_000_000, ring)
    assert outcomes == ["fine"]


def windows(buffer: ReplayBuffer) -> Callable[[int], Callable[[], object]]:
    """Return long calls that take little memory: each sampled row needs many earlier rows."""
    return lambda rows: partial(buffer.sample, rows, n_step=200, gamma=0.99)


def test_a_fork_from_a_signal_handler_does_not_wait_for_blocked_threads():
    buffer, outcomes, done = filled(2_000), [], threading.Event()

    def push() -> None:
        while not done.is_set():
            push_rows(buffer, 1)

    def fork() -> None:
        outcomes.append(child(lambda: RunningStatsVec(2).batch_update(np.ones((50_000, 2))) is None))

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    try:
        with handle_signal(signal.SIGALRM, fork):
            call_during(windows(buffer), 50_000, ring)
    finally:
        done.set()
        thread.join()
    assert outcomes == ["fine"]
    assert len(buffer) == 2_000


def test_a_fork_from_a_signal_handler_does_not_wait_for_a_saving_thread(
    tmp_path,
):
    buffer, pids, done = filled(2_000), [], threading.Event()

    def save() -> None:
        while not done.is_set():
            push_rows(buffer, 1)
            buffer.save(tmp_path / "parent")

    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    until((tmp_path / "parent").exists, "save under way")
    with handle_signal(signal.SIGALRM, lambda: pids.append(os.fork())):
        call_during(windows(buffer), 50_000, ring)
    if pids == [0]:
        # The thread that was saving does not exist in the child, so it cannot finish the save.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        status = 2
        try:
            buffer.save(tmp_path / "child")
            again = ReplayBuffer(2_000, DIM, 1)
            again.load(tmp_path / "child")
            status = 0 if whole(again) and whole(buffer) else 1
        finally:
            os._exit(status)
    done.set()
    thread.join()
    _, status = os.waitpid(pids[0], 0)
    assert status == 0
    assert whole(buffer)


def test_a_fork_of_a_thread_leaves_a_child_that_handles_signals():
    outcomes = []

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    def stopped() -> bool:
        stream = Stream(1, "long")

        def draw(draws: int) -> Callable[[], object]:
            stream.position = 0  # an earlier draw was too short
            return partial(stream.normal, draws)

        with handle_signal(signal.SIGUSR1, stop):
            try:
                call_during(draw, 10_000_000, partial(signal.raise_signal, signal.SIGUSR1))
            except Stop:
                return stream.position == 0
        return False

    def run() -> None:
        # This thread was not the main thread in its earlier call.
        Stream(1, "short").normal(10_000)
        outcomes.append(child(stopped))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcomes == ["fine"]


def sampled(buffer: ReplayBuffer, results: multiprocessing.Queue) -> None:
    """Sample in a worker process."""
    batch = buffer.sample(2_000, seed=3)
    results.put(float(batch["rewards"].sum()))


def test_processes_started_by_fork_sample_what_the_parent_does():
    buffer = filled(20_000)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    other = filled(20_000)
    with warnings.catch_warnings(), meanwhile(lambda: other.sample(2_000)):
        warnings.simplefilter("ignore", DeprecationWarning)
        workers = [context.Process(target=sampled, args=(buffer, results)) for _ in range(4)]
        for worker in workers:
            worker.start()
        sums = [results.get(timeout=PATIENCE) for _ in workers]
        for worker in workers:
            worker.join(PATIENCE)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert sums == [float(buffer.sample(2_000, seed=3)["rewards"].sum())] * 4
