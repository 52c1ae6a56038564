"""Tests that a signal ends any long call soon, with its handler's exception, and leaves the object whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.mid_call import call_during, call_interrupted, handle_signal, on_interrupt_check
from helpers.waiting import PATIENCE

from rlox._core import MmapReplayBuffer, ReplayBuffer, RunningStatsVec, Stream
from rlox.errors import ConfigError

DRAWS = 10_000_000  # usually makes a long call
REFUSED = "in use by the call that this signal handler interrupted"


class Alarm(Exception):
    """The exception of the test handlers."""


def stop() -> None:
    """A handler that raises."""
    raise Alarm("enough", 7)


def ring() -> None:
    """Call the handler now, inside a call."""
    signal.raise_signal(signal.SIGALRM)


def long_draw(seconds: float) -> int:
    """Return how many numbers this machine draws in these processor seconds."""
    begun = time.thread_time()
    Stream(1, "long").normal(DRAWS)
    return int(DRAWS * seconds / (time.thread_time() - begun))


def stopped_draw(draws: int) -> float:
    """Return the processor seconds of a long draw that a handler ends once the draw runs.

    The signal comes at a random moment, between two instructions of the draw.
    """
    stream = Stream(1, "long")

    def draw(draws: int) -> Callable[[], object]:
        stream.position = 6
        return partial(stream.normal, draws)

    begun = time.thread_time()
    with handle_signal(signal.SIGALRM, stop), pytest.raises(Alarm) as raised:
        call_during(draw, draws, partial(signal.setitimer, signal.ITIMER_REAL, 0.001))
    taken = time.thread_time() - begun
    assert raised.value.args == ("enough", 7)
    assert stream.position == 6, "the draw was made"
    again = Stream(1, "long")
    again.position = 6
    assert stream.uniform(2).tolist() == again.uniform(2).tolist()
    return taken


@pytest.mark.alone  # compares processor seconds
def test_a_raising_handler_ends_a_long_draw_soon_and_undoes_it():
    assert stopped_draw(long_draw(0.5)) < 0.5 / 2


@pytest.mark.alone  # compares processor seconds
def test_a_signal_ends_a_draw_soon_beside_threads_that_keep_the_interpreter_busy():
    draws, done = long_draw(0.5), threading.Event()

    def count() -> None:
        while not done.is_set():
            sum(range(1_000))

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert stopped_draw(draws) < 0.5 / 2
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_handler_that_does_not_raise_changes_nothing_of_a_draw():
    rung: list[int] = []

    def draw(draws: int) -> Callable[[], np.ndarray]:
        rung.clear()
        return partial(Stream(1, "long").normal, draws)

    got = call_interrupted(draw, DRAWS, lambda: rung.append(1))
    assert rung == [1]
    parts = Stream(1, "long")
    for start in range(0, len(got), 1_000_000):
        part = got[start : start + 1_000_000]
        np.testing.assert_array_equal(part, parts.normal(len(part)))


def printed(code: str) -> str:
    """Run code in a separate process and return its output."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": path}, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_from_another_thread_is_a_keyboard_interrupt_that_undoes_the_draw():
    code = """
        import os, signal, threading
        from functools import partial
        from helpers.mid_call import call_during
        from rlox._core import Stream
        # A shell may have told its background jobs to ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stream = Stream(1, "long")
        interrupt = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
        try:
            call_during(lambda draws: partial(stream.normal, draws), 100_000_000, interrupt.start)
        except KeyboardInterrupt:
            print("interrupted", stream.position)
    """
    assert printed(code).split() == ["interrupted", "0"]


def test_a_handler_exception_before_a_call_does_not_block_later_signals():
    code = """
        import signal, threading
        from functools import partial
        from helpers.mid_call import call_during
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
        alarm = partial(signal.setitimer, signal.ITIMER_REAL, 0.001)
        try:
            call_during(lambda draws: partial(stream.normal, draws), 100_000_000, alarm)
        except KeyboardInterrupt:
            print("second", stream.position)
    """
    assert printed(code).split() == ["first", "0", "second", "0"]


def ended_wait(draws: int) -> bool:
    """End a wait for a stream by a signal; return whether another thread still drew from the stream."""
    stream = Stream(1, "busy")
    thread = threading.Thread(target=stream.normal, args=(draws,))
    numbers = 0

    def ask() -> None:
        nonlocal numbers
        while thread.is_alive():
            stream.next_u64()  # each call is short, until the other thread has the stream
            numbers += 1

    thread.start()
    with handle_signal(signal.SIGALRM, stop), on_interrupt_check(ring):
        try:
            ask()
        except Alarm:
            under_way = thread.is_alive()
        else:
            under_way = False
    thread.join()
    each = Stream(1, "busy")
    each.next_u64()
    assert stream.position == 4 * draws + numbers * each.position
    return under_way


def test_a_signal_ends_the_wait_for_an_object_that_another_thread_goes_on_to_use():
    assert any(ended_wait(DRAWS << more) for more in range(5)), "each draw was waited for"


def test_a_handler_that_uses_the_object_of_the_call_it_interrupted_is_refused():
    streams: list[Stream] = []
    refused: list[str] = []

    def draw(draws: int) -> Callable[[], np.ndarray]:
        refused.clear()
        streams.append(Stream(1, "long"))
        return partial(streams[-1].normal, draws)

    got = call_interrupted(draw, DRAWS, tried(lambda: streams[-1].next_u64(), refused))
    assert len(refused) == 1
    assert REFUSED in refused[0]
    assert streams[-1].position == 4 * len(got)


def rows_of_ones(rows: int) -> tuple[np.ndarray, ...]:
    obs, flags = np.ones((rows, 64), np.float32), np.zeros(rows, bool)
    # contiguous, since NumPy's own copy would delay the start of the call
    return obs, obs[:, :1].copy(), obs[:, 0].copy(), flags, flags, obs


def tried(call: Callable[[], object], refused: list[str]) -> Callable[[], None]:
    """Return a handler that makes a call and records its refusal."""

    def handler() -> None:
        try:
            call()
        except ConfigError as error:
            refused.append(str(error))

    return handler


def test_a_save_from_a_handler_during_a_save_is_refused(
    tmp_path,
):
    buffers: list[ReplayBuffer] = []
    refused: list[str] = []

    def save(rows: int) -> Callable[[], object]:
        buffers.append(ReplayBuffer(rows, 64, 1))
        buffers[-1].push_batch(*rows_of_ones(rows))
        return partial(buffers[-1].save, tmp_path / "outer")

    again = tried(lambda: buffers[-1].save(tmp_path / "inner"), refused)
    with handle_signal(signal.SIGALRM, again):
        call_during(save, 100_000, ring)
    assert len(refused) == 1
    assert REFUSED in refused[0]
    read = ReplayBuffer(len(buffers[-1]), 64, 1)
    read.load(tmp_path / "outer")
    assert len(read) == len(buffers[-1])


@pytest.mark.parametrize("inner", ["flush", "save"])
def test_a_handler_in_the_middle_of_sealing_never_waits_for_it(inner, tmp_path):
    made: list[tuple[MmapReplayBuffer, int, Path]] = []
    refused: list[str] = []
    rung: list[int] = []

    def push(rows: int) -> Callable[[], object]:
        folder = tmp_path / str(rows)
        made.append((MmapReplayBuffer(10_000, rows, 64, 1, folder), rows, folder))
        return partial(made[-1][0].push_batch, *rows_of_ones(rows))

    def use() -> object:
        rung.append(1)
        return made[-1][0].flush() if inner == "flush" else made[-1][0].save("inner")

    with handle_signal(signal.SIGALRM, tried(use, refused)):
        call_during(push, 100_000, ring, max_calls=20)
    assert len(refused) == len(rung) > 0
    assert all(REFUSED in message for message in refused)
    buffer, rows, folder = made[-1]
    buffer.close(keep=True)
    assert len(MmapReplayBuffer(10_000, rows, 64, 1, folder)) == rows


def test_a_handler_may_use_other_objects_than_that_of_the_call_it_interrupted():
    other = RunningStatsVec(2)
    numbers = np.ones((50_000, 2))
    with handle_signal(signal.SIGALRM, lambda: other.batch_update(numbers)):
        call_during(lambda draws: partial(Stream(1, "long").normal, draws), DRAWS, ring)
    assert other.count == 50_000


def test_a_short_call_still_raises_the_exception_of_a_handler():
    # Python does the same between its own instructions: no exception of a handler is lost.
    for _ in range(20):
        rung: list[int] = []

        def raises(rung: list[int] = rung) -> None:
            rung.append(1)
            stop()

        with pytest.raises(Alarm), handle_signal(signal.SIGALRM, raises):
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            while not rung:
                Stream(1, "short").normal(20_000)
        assert rung == [1]


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
def test_a_handler_exception_during_argument_conversion_propagates_unchanged(name):
    """Python checks for signals whenever it converts a value to a text or an array."""
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_signals_at_any_moment_of_a_draw_by_another_thread_leave_it_whole():
    stream = Stream(1, "busy")
    thread = threading.Thread(target=stream.normal, args=(DRAWS,))
    thread.start()
    with handle_signal(signal.SIGALRM, stop):
        while thread.is_alive():
            with pytest.raises(Alarm):
                ring()
            time.sleep(0.001)
    assert stream.position == 4 * DRAWS
