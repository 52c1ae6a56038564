"""Workers that die between calls, take nothing or hang together keep nobody else waiting."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from faults.workers import Counter, Kept, gone

from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.envs.workers import crew
from rlox.envs.workers.wire import Late, Wire, delivered
from rlox.errors import EnvError

SEED = 7


class Play:
    """Steps a vector with actions 0 and keeps what it says."""

    def __init__(self, source: Any, **config: Any) -> None:
        given = {"n_envs": 4, "worker_envs": 2, "step_timeout": 20.0, **config}
        self.vec: Any = make_vec(EnvConfig(workers="subprocess", **given), SEED, source)
        n = self.vec.n_envs
        self.obs, self.rewards = np.zeros((n, 4), np.float32), np.zeros(n)
        self.flags, self.actions = np.zeros((2, n), np.bool_), np.zeros(n, np.int64)
        self.vec.reset_into(self.obs)

    def step(self) -> Any:
        return self.vec.step_into(self.actions, self.obs, self.rewards, *self.flags)

    def kill(self, env: int) -> None:
        os.kill(int(self.obs[env, 0]), signal.SIGKILL)
        assert gone([int(self.obs[env, 0])])


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
def alarm() -> Iterator[None]:
    """A call that blocks for ever is an error after half a minute."""

    def rung(number: int, frame: Any) -> None:
        raise TimeoutError("blocked")

    before = signal.signal(signal.SIGALRM, rung)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_worker_killed_before_a_save_is_replaced_and_told_of_by_the_next_step(plays: Any) -> None:
    play = plays(Kept, max_restarts=1)
    for _ in range(2):
        play.step()
    play.kill(0)
    state = play.vec.state()
    finals = play.step()
    assert (finals.lost.tolist(), finals.restarts, len(finals.envs)) == ([0, 1], 1, 0)
    assert play.rewards.tolist() == [0, 0, 1, 1]
    assert play.flags.tolist() == [[False] * 4, [True, True, False, False]]
    assert play.obs[:, 2:].tolist() == [[0, 0], [0, 0], [0, 3], [0, 3]]
    resumed = plays(Kept)
    resumed.vec.restore(state)
    again = resumed.step()
    assert (again.lost.tolist(), again.restarts) == ([0, 1], 1)
    for _ in range(6):
        assert (resumed.obs[:, 1:] == play.obs[:, 1:]).all()
        assert (resumed.flags == play.flags).all()
        play.step()
        resumed.step()
    assert play.vec.state()["restarts"].tolist() == [1, 1, 0, 0]


def test_workers_that_die_before_each_save_are_too_many_in_the_end(plays: Any) -> None:
    play = plays(Kept, max_restarts=1)
    play.kill(0)
    play.vec.state()
    play.step()
    play.kill(0)
    with pytest.raises(EnvError, match=r"died during save_state.*env\.max_restarts=1"):
        play.vec.state()


@pytest.mark.usefixtures("alarm")
def test_a_stopped_worker_that_takes_no_state_is_found_at_the_deadline(
    plays: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "START_SECONDS", 2.0)
    play = plays(partial(Kept, heavy=300_000), worker_envs=1, step_timeout=2.0)
    state = play.vec.state()
    os.kill(int(play.obs[0, 0]), signal.SIGSTOP)
    begun = time.perf_counter()
    with pytest.raises(EnvError, match=r"copy 0.*did not answer load_state within 2 s"):
        play.vec.restore(state)
    assert time.perf_counter() - begun < 4


@pytest.mark.usefixtures("alarm")
def test_an_end_that_takes_nothing_keeps_no_other_from_what_is_meant_for_it() -> None:
    stuck, (_, _) = Wire.pair()
    heard, (reads, _) = Wire.pair()
    taken = bytearray()

    def take() -> None:
        while len(taken) < 300_000:
            taken.extend(os.read(reads, 1 << 16))

    for wire in (stuck, heard):
        wire.post(bytes(300_000))
    reader = threading.Thread(target=take)
    reader.start()
    assert delivered([stuck, heard], time.monotonic() + 1) == [stuck]
    reader.join()
    with pytest.raises(Late):
        stuck.send("more", time.monotonic() + 0.1)


def test_many_workers_that_hang_together_are_found_together(plays: Any) -> None:
    deadline, many = 1.0, 16
    hangs = partial(Counter, "sleep", mortal=SEED + many, within=0, at=1)
    play = plays(hangs, n_envs=many, worker_envs=1, step_timeout=deadline)
    begun = time.perf_counter()
    finals = play.step()
    seconds = time.perf_counter() - begun
    assert finals.lost.tolist() == list(range(many))
    assert seconds <= deadline + 1.0
