"""Tests that workers which die between calls, read nothing or hang together do not block the others."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from faults.deadlines import expire_for_hung
from faults.processes import wait_until_ended
from faults.workers import CounterEnv, SaveableCounter
from helpers.waiting import PATIENCE

from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.envs.workers import template, wire
from rlox.envs.workers.spawner import WorkerSpawner
from rlox.envs.workers.wire import ReplyTimeout, Wire, flush_all
from rlox.envs.workers.worker import TRACEBACK_SIGNAL
from rlox.errors import EnvError

SEED = 7


class Play:
    """Steps a vector with actions 0 and keeps its outputs."""

    def __init__(self, source: Any, **config: Any) -> None:
        given = {
            "n_envs": 4,
            "worker_envs": 2,
            "step_timeout": PATIENCE,
            "seeding": "offset",
        } | config
        self.vec: Any = make_vec(EnvConfig(workers="subprocess", **given), SEED, source)
        n = self.vec.n_envs
        self.obs, self.rewards = np.zeros((n, 4), np.float32), np.zeros(n)
        self.flags, self.actions = np.zeros((2, n), np.bool_), np.zeros(n, np.int64)
        self.vec.reset_into(self.obs)

    def step(self) -> Any:
        return self.vec.step_into(self.actions, self.obs, self.rewards, *self.flags)

    def kill(self, env: int) -> None:
        os.kill(int(self.obs[env, 0]), signal.SIGKILL)
        assert wait_until_ended([int(self.obs[env, 0])])


@pytest.fixture
def plays() -> Any:
    opened: list[Play] = []

    def play(source: Any, **config: Any) -> Play:
        opened.append(Play(source, **config))
        return opened[-1]

    yield play
    for each in opened:
        each.vec.close()


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Lets the deadlines of hung workers expire at once and lists them."""
    return expire_for_hung(monkeypatch)


def test_the_next_step_reports_a_replaced_worker_that_died_before_a_save(plays: Any) -> None:
    play = plays(SaveableCounter, max_restarts=1)
    for _ in range(2):
        play.step()
    play.kill(0)
    state = play.vec.state()
    finals = play.step()
    assert (finals.lost_envs.tolist(), finals.restarts, len(finals.envs)) == ([0, 1], 1, 0)
    assert play.rewards.tolist() == [0, 0, 1, 1]
    assert play.flags.tolist() == [[False] * 4, [True, True, False, False]]
    assert play.obs[:, 2:].tolist() == [[0, 0], [0, 0], [0, 3], [0, 3]]
    resumed = plays(SaveableCounter)
    resumed.vec.restore(state)
    again = resumed.step()
    assert (again.lost_envs.tolist(), again.restarts) == ([0, 1], 1)
    for _ in range(6):
        assert (resumed.obs[:, 1:] == play.obs[:, 1:]).all()
        assert (resumed.flags == play.flags).all()
        play.step()
        resumed.step()
    assert play.vec.state()["restarts"].tolist() == [1, 1, 0, 0]


def test_worker_deaths_before_saves_count_towards_max_restarts(plays: Any) -> None:
    play = plays(SaveableCounter, max_restarts=1)
    play.kill(0)
    play.vec.state()
    play.step()
    play.kill(0)
    with pytest.raises(EnvError, match=r"died during save_state.*env\.max_restarts=1"):
        play.vec.state()


def test_restoring_into_a_stopped_worker_fails_at_the_deadline(plays: Any, passed: list[float]) -> None:
    play = plays(partial(SaveableCounter, heavy=300_000), worker_envs=1)
    state = play.vec.state()
    os.kill(int(play.obs[0, 0]), signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(EnvError, match=rf"copy 0.*did not answer load_state within {PATIENCE:g} s"):
        play.vec.restore(state)
    # the worker does not read the state; one deadline holds for sending it and for the answer
    sent, answered = passed
    assert sent == answered
    assert begun <= sent - PATIENCE <= time.monotonic()


def test_a_blocked_wire_does_not_stop_others_from_receiving_their_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, (_, _) = Wire.pair()
    heard, (reads, _) = Wire.pair()
    taken = bytearray()

    def take() -> None:
        while len(taken) < 300_000:
            taken.extend(os.read(reads, 1 << 16))

    for each in (stuck, heard):
        each.send_nowait(bytes(300_000))
    # the deadline expires only after the other end has received all its bytes
    now = SimpleNamespace(monotonic=lambda: 0.0 if heard.has_unsent else 2 * PATIENCE)
    monkeypatch.setattr(wire, "time", now)
    reader = threading.Thread(target=take, daemon=True)
    reader.start()
    assert flush_all([stuck, heard], PATIENCE) == [stuck]
    reader.join()
    with pytest.raises(ReplyTimeout):
        stuck.send("more", PATIENCE)


def test_receive_waits_for_a_silent_wire_until_the_deadline() -> None:
    silent, (_, _) = Wire.pair()
    deadline = time.monotonic() + 0.05
    with pytest.raises(ReplyTimeout):
        silent.receive(deadline)
    assert time.monotonic() >= deadline


HUNG = """
import faulthandler, signal, sys
with open(sys.argv[1], "w") as notes:
    faulthandler.register(int(sys.argv[2]), notes)
    signal.pthread_sigmask(signal.SIG_BLOCK, {int(sys.argv[2])})
    print("busy", flush=True)
    sys.stdin.readline()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {int(sys.argv[2])})
    sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says elsewhere what signals wait")
def test_request_tracebacks_waits_until_a_hung_process_has_written_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, pipe, waits = tmp_path / "notes", subprocess.PIPE, itertools.count(1)
    line = [sys.executable, "-c", HUNG, str(notes), str(int(TRACEBACK_SIGNAL))]
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) as hung:
        assert hung.stdin and hung.stdout
        assert hung.stdout.readline() == "busy\n"

        def sleep(seconds: float) -> None:
            if next(waits) == 3:  # the process handles the signal late
                print(file=hung.stdin, flush=True)
            time.sleep(seconds)

        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
        monkeypatch.setattr(template, "time", clock)
        template.request_tracebacks([hung.pid])
        assert "most recent call first" in notes.read_text()
        os.kill(hung.pid, signal.SIGSTOP)
        template.request_tracebacks([hung.pid])  # does not wait for a stopped process
        hung.kill()


def test_workers_that_hang_together_share_a_deadline_and_end_together(
    plays: Any, passed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    many, end = 16, WorkerSpawner.end
    ended: list[list[int]] = []

    def noted(nursery: WorkerSpawner, workers: Any) -> Any:
        ended.append(list(workers))
        return end(nursery, workers)

    monkeypatch.setattr(WorkerSpawner, "end", noted)
    hangs = partial(CounterEnv, "sleep", fails_below=SEED + many, within=0, at=1)
    play = plays(hangs, n_envs=many, worker_envs=1)
    begun = time.monotonic()
    finals = play.step()
    assert finals.lost_envs.tolist() == list(range(many))
    assert (len(passed), len(set(passed))) == (many, 1)
    assert begun <= passed[0] - PATIENCE <= time.monotonic()
    assert ended == [list(range(many))]
