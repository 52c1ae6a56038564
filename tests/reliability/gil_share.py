"""Measures how much of the time a counting thread may run while this process makes long calls.

Prints JSON: the milliseconds of a call, whose size is adapted to this machine, and the share of the time in
which the counting thread ran or was ready to run. A second process measures the share from Linux's /proc. A
thread that waits for the interpreter sleeps; one that waits for a processor, because of other processes, is
ready.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlox import _core

SAMPLES = 600
# Seconds of a call, which must be long compared with Python's work between two calls.
LEAST = 0.002
# Seconds that a thread with the interpreter may keep it; the default of 5 ms hides short calls.
SWITCH_INTERVAL = 1e-4


class Counter(threading.Thread):
    """Counts as fast as possible."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0

    def run(self) -> None:
        while True:
            self.count += 1


def gae(scale: int) -> Callable[[], object]:
    n = 250_000 * scale
    numbers, ends = np.random.default_rng(0).normal(size=n), np.zeros(n)
    return lambda: _core.compute_gae(numbers, numbers, ends)


def gae_batched(scale: int) -> Callable[[], object]:
    n = 250_000 * scale
    numbers = np.random.default_rng(0).normal(size=n).astype(np.float32)
    ends, last = np.zeros_like(numbers), np.zeros(2_000, np.float32)
    return lambda: _core.compute_gae_batched_f32(numbers, numbers, ends, last)


def matrix(scale: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return random numbers and zeros for the ends of episodes, time-major."""
    shape = 250 * scale, 1_000
    return np.random.default_rng(0).normal(size=shape), np.zeros(shape)


def gae_time_major(scale: int) -> Callable[[], object]:
    numbers, zeros = matrix(scale)
    ends, out = zeros.astype(bool), (np.empty_like(numbers), np.empty_like(numbers))
    return lambda: _core.compute_gae_time_major(
        numbers, numbers, numbers, ends, ends, advantages=out[0], returns=out[1]
    )


def step_all(scale: int) -> Callable[[], object]:
    n = 50_000 * scale
    envs, actions = _core.VecEnv(n, 0), np.zeros(n, np.int64)
    return lambda: envs.step_all(actions)


def step_into(scale: int) -> Callable[[], object]:
    n = 50_000 * scale
    envs, actions = _core.VecEnv(n, 0), np.zeros(n, np.int64)
    obs, rewards = np.empty((n, 4), np.float32), np.empty(n)
    flags = np.empty(n, bool), np.empty(n, bool)
    return lambda: envs.step_into(actions, obs, rewards, *flags)


def kl(scale: int) -> Callable[[], object]:
    logs, _ = matrix(scale)
    return lambda: _core.compute_batch_token_kl(logs, logs, estimator="k3")


def groups(scale: int) -> Callable[[], object]:
    rewards = np.random.default_rng(0).normal(size=(25_000 * scale, 16))
    return lambda: _core.compute_batch_group_advantages(rewards)


def vtrace(scale: int) -> Callable[[], object]:
    numbers, ends = matrix(scale)
    return lambda: _core.compute_vtrace(numbers, numbers, numbers, ends, numbers[0])


def n_step(scale: int) -> Callable[[], object]:
    numbers, ends = matrix(scale)
    return lambda: _core.compute_n_step_returns(numbers, numbers, 5, dones=ends)


def lambda_returns(scale: int) -> Callable[[], object]:
    numbers, ends = matrix(scale)
    return lambda: _core.compute_lambda_returns(numbers, numbers, dones=ends)


def moments(scale: int) -> Callable[[], object]:
    rows = np.random.default_rng(0).normal(size=(50_000 * scale, 8))
    stats = _core.RunningStatsVec(8)
    return lambda: stats.batch_update(rows)


def draws(scale: int) -> Callable[[], object]:
    stream = _core.Stream(0, "env")
    return lambda: stream.normal(100_000 * scale)


def holding(scale: int) -> Callable[[], object]:
    """Make a call that keeps the interpreter; the measurement must distinguish it from the others."""
    usleep = ctypes.PyDLL(None).usleep
    return lambda: usleep(10_000)


# Without `pack_sequences` and `pack_tokens`, which spend a large part of a long call on making and
# filling Python's arrays, `unpack_sequences`, which only makes views, and `snapshot` and `restore`,
# which copy arrays into a dict and back.
CALLS: dict[str, Callable[[int], Callable[[], object]]] = {
    "compute_gae": gae,
    "compute_gae_batched_f32": gae_batched,
    "compute_gae_time_major": gae_time_major,
    "compute_batch_group_advantages": groups,
    "compute_batch_token_kl": kl,
    "compute_lambda_returns": lambda_returns,
    "compute_n_step_returns": n_step,
    "compute_vtrace": vtrace,
    "normal": draws,
    "step_all": step_all,
    "step_into": step_into,
    "update_statistics": moments,
    "holding": holding,
}


def sized(make: Callable[[int], Callable[[], object]]) -> tuple[Callable[[], object], float]:
    """Return a call of at least `LEAST` seconds on this machine, and its seconds: the shortest of three."""
    scale = 1
    while True:
        work, times = make(scale), []
        for _ in range(4):  # the first is a trial
            begun = time.perf_counter()
            work()
            times.append(time.perf_counter() - begun)
        if min(times[1:]) >= LEAST:
            return work, min(times[1:])
        scale *= 2


def watch(stat: str) -> None:
    """Print the share of samples of a thread's `stat` in which it is running or ready."""
    states = []
    for _ in range(SAMPLES):
        time.sleep(0.0005)
        states.append(Path(stat).read_text().rpartition(")")[2].split()[0])
    print(states.count("R") / SAMPLES)


def share(thread: threading.Thread, work: Callable[[], object]) -> float:
    """Return the share that `watch` prints for `thread` while this process repeats `work`."""
    stat = f"/proc/{os.getpid()}/task/{thread.native_id}/stat"
    command = [sys.executable, __file__, "--watch", stat]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        while watcher.poll() is None:
            work()
        assert watcher.stdout is not None
        return float(watcher.stdout.read())


def main() -> None:
    if sys.argv[1] == "--watch":
        return watch(sys.argv[2])
    sys.setswitchinterval(SWITCH_INTERVAL)
    counter = Counter()
    work, alone = sized(CALLS[sys.argv[1]])
    counter.start()
    print(json.dumps({"milliseconds": 1000 * alone, "kept": share(counter, work)}))
    return None


if __name__ == "__main__":
    main()
