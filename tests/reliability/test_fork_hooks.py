"""A forked child has whole objects and can use them, whatever other threads were doing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rlox import HindsightConfig, ReplayBuffer
from rlox._core import RunningStatsVec, Stream, VecEnv

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

FORKS = 100 if os.environ.get("RLOX_FULL") == "1" else 15
DIM = 64


def filled(rows: int) -> ReplayBuffer:
    """A buffer in which all numbers of a row are one number."""
    buffer = ReplayBuffer(rows, DIM, 1)
    push_rows(buffer, rows)
    return buffer


def push_rows(buffer: ReplayBuffer, rows: int) -> None:
    """Pushes rows of one number each."""
    numbers = np.arange(rows, dtype=np.float32)
    obs = np.repeat(numbers[:, None], DIM, axis=1)
    flags = np.zeros(rows, dtype=bool)
    buffer.push_batch(obs, numbers, numbers, flags, flags, obs)


def whole(buffer: ReplayBuffer) -> bool:
    """Whether every row drawn is of one number, and rows can be pushed."""
    push_rows(buffer, 10)
    batch = buffer.sample(2_000)
    expected = np.repeat(batch["rewards"][:, None], DIM, axis=1)
    return np.array_equal(batch["obs"], expected) and np.array_equal(batch["next_obs"], expected)


def child(check: Callable[[], bool], seconds: float = 60) -> str:
    """Forks; how `check` went in the child."""
    pid = os.fork()
    if pid == 0:
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
    """Runs each again and again in a thread of its own."""
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
            thread.join(60)
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
    stream = Stream(1, "long")
    thread = threading.Thread(target=stream.normal, args=(20_000_000,))
    thread.start()
    time.sleep(0.05)
    assert child(lambda: stream.position == 4 * 20_000_000) == "fine"
    thread.join()
    assert child(lambda: True) == "fine"  # and this one waits for nobody


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


def test_a_fork_from_a_signal_handler_does_not_wait_for_the_call_it_interrupted():
    outcomes = []
    stats = RunningStatsVec(2)

    def count() -> bool:
        stats.batch_update(np.ones((50_000, 2)))
        return stats.count == 50_000

    def handle(number: int, frame: object) -> None:
        outcomes.append(child(count))

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        Stream(1, "long").normal(10_000_000)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert outcomes == ["fine"]


def test_a_fork_from_a_signal_handler_does_not_wait_for_threads_that_wait_for_the_call_it_interrupted():
    buffer, outcomes, done = filled(2_000), [], threading.Event()

    def push() -> None:
        while not done.is_set():
            push_rows(buffer, 1)

    def handle(number: int, frame: object) -> None:
        outcomes.append(
            child(lambda: RunningStatsVec(2).batch_update(np.ones((50_000, 2))) is None)
        )

    before = signal.signal(signal.SIGALRM, handle)
    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        buffer.sample(1_000_000)
    finally:
        done.set()
        signal.signal(signal.SIGALRM, before)
        thread.join()
    assert outcomes == ["fine"]
    assert len(buffer) == 2_000


def test_a_fork_from_a_signal_handler_does_not_wait_for_a_thread_that_saves_the_object_of_that_call(
    tmp_path,
):
    buffer, pids, done = filled(2_000), [], threading.Event()

    def save() -> None:
        while not done.is_set():
            push_rows(buffer, 1)
            buffer.save(tmp_path / "parent")

    before = signal.signal(signal.SIGALRM, lambda number, frame: pids.append(os.fork()))
    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        buffer.sample(1_000_000)
    finally:
        signal.signal(signal.SIGALRM, before)
    if pids == [0]:
        # The thread was in the middle of a save, and is not here to end it.
        signal.alarm(60)
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

    def handle(number: int, frame: object) -> None:
        raise Stop

    def stopped() -> bool:
        signal.signal(signal.SIGUSR1, handle)
        parent = os.getpid()
        timer = threading.Timer(0.2, os.kill, (parent, signal.SIGUSR1))
        timer.start()
        try:
            Stream(1, "long").normal(150_000_000)
        except Stop:
            return True
        return False

    def run() -> None:
        # This thread was no main thread when it called before.
        Stream(1, "short").normal(10_000)
        outcomes.append(child(stopped))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcomes == ["fine"]


def sampled(buffer: ReplayBuffer, results: multiprocessing.Queue) -> None:
    """Samples in a worker process."""
    batch = buffer.sample(2_000, seed=3)
    results.put(float(batch["rewards"].sum()))


@pytest.mark.smoke
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
        sums = [results.get(timeout=60) for _ in workers]
        for worker in workers:
            worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert sums == [float(buffer.sample(2_000, seed=3)["rewards"].sum())] * 4
