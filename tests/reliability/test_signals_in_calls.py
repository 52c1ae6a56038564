"""A signal ends any long call soon, with the exception of its handler, and leaves the object whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest

from rlox._core import MmapReplayBuffer, ReplayBuffer, RunningStatsVec, Stream, VecEnv
from rlox.errors import ConfigError

pytestmark = pytest.mark.serial  # seconds from a signal to the end of a call

# From the handler to the exception: the promise is 0.2 s, on a machine that may be busy with others.
SOON = 1.0


class Alarm(Exception):
    """What the handler of a test raises."""


@contextmanager
def alarm(seconds: float, handler: Callable[[], None]) -> Iterator[list[float]]:
    """Calls `handler` after some time; gives the times of the calls."""
    times: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        times.append(time.monotonic())
        handler()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield times
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def stop() -> None:
    """A handler that raises."""
    raise Alarm("enough", 7)


def test_a_handler_that_raises_ends_a_long_draw_which_then_was_never_made():
    stream = Stream(1, "long")
    stream.uniform(3)
    begun = time.monotonic()
    with alarm(0.1, stop) as times, pytest.raises(Alarm) as raised:
        stream.normal(150_000_000)
    assert raised.value.args == ("enough", 7)
    assert time.monotonic() - times[0] < SOON
    assert times[0] - begun < SOON
    assert stream.position == 6
    again = Stream(1, "long")
    again.position = 6
    assert stream.uniform(2).tolist() == again.uniform(2).tolist()


@pytest.mark.smoke
def test_a_handler_that_does_not_raise_changes_nothing():
    with alarm(0.05, lambda: None) as times:
        got = Stream(1, "long").normal(10_000_000)
    assert len(times) == 1
    parts = Stream(1, "long")
    for start in range(0, 10_000_000, 1_000_000):
        np.testing.assert_array_equal(got[start : start + 1_000_000], parts.normal(1_000_000))


def test_ctrl_c_is_a_keyboard_interrupt():
    code = """
        import os, signal, threading, time
        from rlox._core import Stream
        # A shell may have told its background jobs to ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stream = Stream(1, "long")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            stream.normal(250_000_000)
        except KeyboardInterrupt:
            print("interrupted", stream.position, time.monotonic() - begun)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stderr
    word, position, seconds = result.stdout.split()
    assert (word, position) == ("interrupted", "0")
    assert float(seconds) < 0.2 + SOON


def test_what_a_handler_raises_before_a_call_has_begun_is_raised_and_later_ones_are_heard():
    code = """
        import signal, threading, time
        from rlox._core import Stream
        known = threading.main_thread
        def interrupted():
            threading.main_thread = known
            raise KeyboardInterrupt
        threading.main_thread = interrupted  # as if Ctrl-C came there
        stream = Stream(1, "long")
        try:
            stream.normal(1_000_000)
        except KeyboardInterrupt:
            print("first", stream.position)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begun = time.monotonic()
        try:
            stream.normal(250_000_000)
        except KeyboardInterrupt:
            print("second", stream.position, time.monotonic() - begun)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stderr
    *words, seconds = result.stdout.split()
    assert words == ["first", "0", "second", "0"]
    assert float(seconds) < 0.1 + SOON


def busy_stream() -> tuple[Stream, threading.Thread]:
    """A stream that another thread draws from for a second or so, and the thread."""
    stream = Stream(1, "busy")
    thread = threading.Thread(target=stream.normal, args=(40_000_000,))
    thread.start()
    time.sleep(0.05)
    return stream, thread


def test_waiting_for_an_object_that_another_thread_uses_can_be_ended():
    stream, thread = busy_stream()
    with alarm(0.1, stop) as times, pytest.raises(Alarm):
        stream.next_u64()
    assert time.monotonic() - times[0] < SOON
    assert thread.is_alive(), "nothing was waited for"
    thread.join()
    assert stream.position == 4 * 40_000_000


def test_a_handler_that_uses_the_object_of_the_call_it_interrupted_is_refused():
    stream = Stream(1, "long")
    caught: list[str] = []

    def handler() -> None:
        try:
            stream.next_u64()
        except ConfigError as error:
            caught.append(str(error))

    with alarm(0.05, handler):
        stream.normal(10_000_000)
    assert len(caught) == 1
    assert "in use by the call that this signal handler interrupted" in caught[0]
    assert stream.position == 4 * 10_000_000


def rows_of_ones(rows: int) -> tuple[np.ndarray, ...]:
    obs, flags = np.ones((rows, 64), np.float32), np.zeros(rows, bool)
    # contiguous: what NumPy copies to make it so takes time before the call begins
    return obs, obs[:, :1].copy(), obs[:, 0].copy(), flags, flags, obs


def filled(buffer: Any, rows: int) -> Any:
    for _ in range(3):
        buffer.push_batch(*rows_of_ones(rows))
    return buffer


def tried(call: Callable[[], object], refused: list[str]) -> Callable[[], None]:
    """A handler that makes a call which may be refused."""

    def handler() -> None:
        try:
            call()
        except ConfigError as error:
            refused.append(str(error))

    return handler


def test_a_handler_that_saves_in_the_middle_of_a_save_is_refused_and_the_outer_save_is_whole(
    tmp_path,
):
    buffer, refused = filled(ReplayBuffer(600_000, 64, 1), 200_000), []
    with alarm(0.025, tried(lambda: buffer.save(tmp_path / "inner"), refused)):
        buffer.save(tmp_path / "outer")
    assert len(refused) == 1
    assert "in use by the call that this signal handler interrupted" in refused[0]
    again = ReplayBuffer(600_000, 64, 1)
    again.load(tmp_path / "outer")
    assert len(again) == 600_000


@pytest.mark.parametrize("inner", ["flush", "save"])
def test_a_handler_in_the_middle_of_sealing_never_waits_for_it(inner, tmp_path):
    buffer, refused = MmapReplayBuffer(10_000, 300_000, 64, 1, tmp_path), []
    call = buffer.flush if inner == "flush" else lambda: buffer.save("inner")
    rows = rows_of_ones(300_000)
    with alarm(0.025, tried(call, refused)):
        buffer.push_batch(*rows)
    assert len(refused) == 1
    assert "in use by the call that this signal handler interrupted" in refused[0]
    buffer.close(keep=True)
    assert len(MmapReplayBuffer(10_000, 300_000, 64, 1, tmp_path)) == 300_000


def test_a_handler_may_use_other_objects():
    other = RunningStatsVec(2)
    numbers = np.ones((50_000, 2))
    with alarm(0.05, lambda: other.batch_update(numbers)):
        Stream(1, "long").normal(10_000_000)
    assert other.count == 50_000


def test_a_call_that_is_over_before_it_is_asked_still_raises_what_came_meanwhile():
    # As Python does between its own instructions: nothing a handler raises is lost.
    for _ in range(20):
        with alarm(0.002, stop) as times:
            try:
                while True:
                    Stream(1, "short").normal(20_000)
            except Alarm:
                pass
        assert len(times) == 1


def test_signals_wait_for_no_busy_thread_for_long():
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            sum(range(1_000))

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with alarm(0.3, stop) as times, pytest.raises(Alarm):
            Stream(1, "long").normal(150_000_000)
        assert time.monotonic() - times[0] < 2 * SOON
    finally:
        done.set()
        for thread in threads:
            thread.join()


DICT = {"a": ("float32", (2,)), "b": ("float32", (1,))}
NOISY = {
    "push of dicts": """
        buffer = rlox.ReplayBuffer(1_000, act_dim=1, obs_spaces=DICT)
        obs = {"a": [1.0, 2.0], "b": np.ones(1, np.float32)}
        def call():
            buffer.push(obs, 0, 0.0, False, False, obs)
    """,
    "push of lists": """
        buffer = rlox.ReplayBuffer(1_000, 4, 1)
        def call():
            buffer.push([1.0, 2.0, 3.0, 4.0], [0.0], 0.0, False, False, [1.0, 2.0, 3.0, 4.0])
    """,
    "sample into out": """
        buffer = rlox.ReplayBuffer(1_000, 4, 1)
        buffer.push([1.0, 2.0, 3.0, 4.0], [0.0], 0.0, False, False, [1.0, 2.0, 3.0, 4.0])
        out = buffer.sample(2)
        def call():
            buffer.sample(2, out=out)
    """,
    "restore": """
        buffer = rlox.PrioritizedReplayBuffer(10, 4, 1)
        state = buffer.state()
        def call():
            buffer.restore(state)
    """,
    "making a buffer": """
        def call():
            rlox.ReplayBuffer(10, 4, 1, obs_dtype="uint8", extra_columns={"x": ("float32", (2,))})
    """,
}


@pytest.mark.parametrize("name", NOISY)
def test_what_comes_while_arguments_are_read_is_raised_as_it_is(name):
    """Python looks for signals wherever it makes a text or an array of a value."""
    loop = """
        import signal, sys
        class Stop(Exception):
            pass
        def stop(*_):
            raise Stop if number % 2 else KeyboardInterrupt
        signal.signal(signal.SIGALRM, stop)
        for number in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0001 * (number % 7))
                for _ in range(1_000_000):
                    call()
            except (KeyboardInterrupt, Stop):
                continue
            sys.exit(f"swallowed at {number}")
    """
    code = "import numpy as np, rlox\nDICT = " + repr(DICT) + "\n"
    code += textwrap.dedent(NOISY[name]) + textwrap.dedent(loop)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


def test_other_threads_are_not_stopped_by_a_signal():
    stream, thread = busy_stream()
    with alarm(0.02, stop), pytest.raises(Alarm):
        time.sleep(1)
    thread.join()
    assert stream.position == 4 * 40_000_000


def several(work: Callable[[], None], threads: int = 8) -> list[BaseException]:
    """Runs `work` in threads; returns what they raised."""
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
        thread.join(60)
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


def test_a_buffer_that_readers_never_leave_can_be_written():
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
        assert time.monotonic() - begun < 30
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert len(buffer) == 21
