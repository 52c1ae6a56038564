"""Forks a process at random moments while its other threads push, sample, step and save.

`python -m faults.forks FORKS SEED` prints one JSON line with the exits of the children, by kind of fork. A
child uses inherited objects and objects that it makes itself, and exits 0. An inherited object may have been
in use at the fork: there a typed error is acceptable. The child's own objects must work. If a child does not
end, the parent kills it after `PATIENCE` and counts it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch.utils.data
from helpers.waiting import PATIENCE

import rlox
from rlox.errors import RloxError

ENOUGH = 3  # the campaign ends after so many hung children
ENVS = 32_768  # several threads share the steps of so many environments
WIDE = 4 * 84 * 84  # several threads copy batches of rows this wide
ROWS = 200


def batch(rows: int) -> tuple[Any, ...]:
    obs, no = np.ones((rows, WIDE), np.float32), np.zeros(rows, bool)
    return obs, np.zeros((rows, 1)), np.zeros(rows), no, no, obs


class SharedObjects:
    """Shared objects, each used by one thread."""

    def __init__(self) -> None:
        self.env = rlox.VecEnv(ENVS, seed=0)
        self.buffer = rlox.ReplayBuffer(ROWS, WIDE, 1)
        self.idle = rlox.ReplayBuffer(ROWS, WIDE, 1)  # no thread uses it at the time of a fork
        self.actions = np.zeros(ENVS, np.int64)
        for buffer in (self.buffer, self.idle):
            buffer.push_batch(*batch(ROWS))
        self.env.reset_all()

    def works(self, folder: Path) -> list[Callable[[], object]]:
        """Return the work of each thread."""
        return [
            lambda: self.env.step_all(self.actions),
            lambda: self.buffer.sample(64),
            lambda: self.buffer.push_batch(*batch(20)),
            lambda: self.buffer.save(folder),
        ]

    def use(self) -> None:
        """Do a child's work: use its own objects, inherited idle objects and inherited objects in use."""
        for buffer in (rlox.ReplayBuffer(ROWS, WIDE, 1), self.idle):
            buffer.push_batch(*batch(ROWS))
            assert (buffer.sample(64)["obs"] == 1).all()
        env = rlox.VecEnv(ENVS, seed=1)
        env.reset_all()
        assert np.isfinite(env.step_all(self.actions)["obs"]).all()
        with tempfile.TemporaryDirectory() as folder:
            self.idle.save(folder)
            self.idle.load(folder)
        for work in (*self.works(Path(folder))[:3], lambda: len(self.buffer)):
            try:
                work()
            except RloxError:
                continue


class Samples(torch.utils.data.Dataset[Any]):
    """Batches that the worker processes of a `DataLoader` draw."""

    def __init__(self, world: SharedObjects) -> None:
        self.world = world

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        self.world.use()
        return float(self.world.idle.sample(64, seed=index)["obs"].sum())


def in_child(world: SharedObjects) -> None:
    """Use the objects in the child and exit; this function never returns."""
    try:
        world.use()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def ended(poll: Callable[[], int | None], pid: int) -> str:
    """Return how a child ended; kill it if it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while (code := poll()) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if code is not None:
        return f"exit {code}"
    os.kill(pid, signal.SIGKILL)
    while poll() is None:
        time.sleep(0.01)
    return "hung"


def by_fork(world: SharedObjects) -> list[str]:
    pid = os.fork()
    if pid == 0:
        in_child(world)

    def poll() -> int | None:
        pid_done, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid_done else None

    return [ended(poll, pid)]


def by_process(world: SharedObjects) -> list[str]:
    process = multiprocessing.get_context("fork").Process(target=in_child, args=(world,))
    process.start()
    assert process.pid is not None
    return [ended(lambda: process.exitcode, process.pid)]


def by_loader(world: SharedObjects) -> list[str]:
    loader = torch.utils.data.DataLoader(
        Samples(world),
        batch_size=2,
        num_workers=2,
        timeout=PATIENCE,
        multiprocessing_context="fork",
    )
    try:
        total = sum(float(part.sum()) for part in loader)
    except RuntimeError as error:
        return ["hung" if "timed out" in str(error) else f"raised {error}"] * 2
    return ["exit 0" if total == 4 * 64 * WIDE else "wrong sum"] * 2


def campaign(forks: int, seed: int) -> dict[str, dict[str, int]]:
    """Fork until so many children have ended and return the counts of exits by kind of fork."""
    rng, world, counts = random.Random(seed), SharedObjects(), dict[str, Counter[str]]()
    stop, raised = threading.Event(), Counter[str]()

    def busy(work: Callable[[], object]) -> None:
        while not stop.is_set():
            try:
                work()
            except Exception as error:
                raised[repr(error)] += 1

    with tempfile.TemporaryDirectory() as folder:
        works = world.works(Path(folder))
        threads = [threading.Thread(target=busy, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        kinds = [by_fork, by_fork, by_process, by_loader]
        while (n_done := sum(count.total() for count in counts.values())) < forks:
            time.sleep(rng.random() * 0.05)
            kind = kinds[n_done % len(kinds)]
            counts.setdefault(kind.__name__, Counter()).update(kind(world))
            if sum(count["hung"] for count in counts.values()) >= ENOUGH:
                break
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        alive = sum(thread.is_alive() for thread in threads)
    counts = {kind: Counter({outcome: n for outcome, n in c.items() if n}) for kind, c in counts.items()}
    return {**counts, "parent": Counter({"stuck": alive}) + raised}


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
    print(json.dumps(campaign(int(sys.argv[1]), int(sys.argv[2]))), flush=True)
    os._exit(0)
