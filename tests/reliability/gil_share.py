"""How much of the time a counting thread may run while this process makes one long call after another.

Prints JSON: the milliseconds a call takes, and the share of the time in which the counting thread ran or
was ready to, as a process beside this one sees it (Linux: the state in /proc). A thread that waits for the
interpreter sleeps; one that waits for a processor, because of other processes, is ready.
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

from rlox import _core

SAMPLES = 600
# Seconds that a thread which has the interpreter may keep it; the default of 5 ms hides short calls.
SWITCH_INTERVAL = 1e-4


class Counter(threading.Thread):
    """Counts as fast as it can."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0

    def run(self) -> None:
        while True:
            self.count += 1


def gae() -> Callable[[], object]:
    numbers, ends = np.random.default_rng(0).normal(size=2_000_000), np.zeros(2_000_000)
    return lambda: _core.compute_gae(numbers, numbers, ends)


def gae_batched() -> Callable[[], object]:
    numbers = np.random.default_rng(0).normal(size=2_000_000).astype(np.float32)
    ends, last = np.zeros_like(numbers), np.zeros(2_000, np.float32)
    return lambda: _core.compute_gae_batched_f32(numbers, numbers, ends, last)


def gae_time_major() -> Callable[[], object]:
    numbers = np.random.default_rng(0).normal(size=(2_000, 1_000))
    ends = np.zeros((2_000, 1_000), bool)
    out = np.empty_like(numbers), np.empty_like(numbers)
    return lambda: _core.compute_gae_time_major(
        numbers, numbers, numbers, ends, ends, advantages=out[0], returns=out[1]
    )


def step_all() -> Callable[[], object]:
    envs, actions = _core.VecEnv(400_000, 0), np.zeros(400_000, np.int64)
    return lambda: envs.step_all(actions)


def step_into() -> Callable[[], object]:
    n = 400_000
    envs, actions = _core.VecEnv(n, 0), np.zeros(n, np.int64)
    obs, rewards = np.empty((n, 4), np.float32), np.empty(n)
    flags = np.empty(n, bool), np.empty(n, bool)
    return lambda: envs.step_into(actions, obs, rewards, *flags)


def kl(estimator: str) -> Callable[[], Callable[[], object]]:
    def made() -> Callable[[], object]:
        logs = np.random.default_rng(0).normal(size=(2_000, 1_000))
        return lambda: _core.compute_batch_token_kl(logs, logs, estimator=estimator)

    return made


def groups() -> Callable[[], object]:
    rewards = np.random.default_rng(0).normal(size=(200_000, 16))
    return lambda: _core.compute_batch_group_advantages(rewards)


def vtrace() -> Callable[[], object]:
    numbers, ends = np.random.default_rng(0).normal(size=(2_000, 1_000)), np.zeros((2_000, 1_000))
    return lambda: _core.compute_vtrace(numbers, numbers, numbers, ends, numbers[0])


def n_step() -> Callable[[], object]:
    numbers, ends = np.random.default_rng(0).normal(size=(2_000, 1_000)), np.zeros((2_000, 1_000))
    return lambda: _core.compute_n_step_returns(numbers, numbers, 5, dones=ends)


def lambda_returns() -> Callable[[], object]:
    numbers, ends = np.random.default_rng(0).normal(size=(2_000, 1_000)), np.zeros((2_000, 1_000))
    return lambda: _core.compute_lambda_returns(numbers, numbers, dones=ends)


def moments() -> Callable[[], object]:
    stats, rows = _core.RunningStatsVec(8), np.random.default_rng(0).normal(size=(500_000, 8))
    return lambda: stats.batch_update(rows)


def draws() -> Callable[[], object]:
    stream = _core.Stream(0, "env")
    return lambda: stream.normal(1_000_000)


def holding() -> Callable[[], object]:
    """A call that keeps the interpreter: what is measured has to tell it from the others."""
    usleep = ctypes.PyDLL(None).usleep
    return lambda: usleep(10_000)


# Not here: `pack_sequences` and `pack_tokens`, which spend a large part of a long call making and
# filling Python's arrays, `unpack_sequences`, which makes nothing but views, and `snapshot` and
# `restore`, which copy arrays into a dict and back.
CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "compute_gae": gae,
    "compute_gae_batched_f32": gae_batched,
    "compute_gae_time_major": gae_time_major,
    "compute_batch_group_advantages": groups,
    "compute_batch_token_kl": kl("k3"),
    "compute_lambda_returns": lambda_returns,
    "compute_n_step_returns": n_step,
    "compute_vtrace": vtrace,
    "normal": draws,
    "step_all": step_all,
    "step_into": step_into,
    "update_statistics": moments,
    "holding": holding,
}


def watch(stat: str) -> None:
    """Print the share of looks at a thread's `stat` that find it running or ready."""
    states = []
    for _ in range(SAMPLES):
        time.sleep(0.0005)
        states.append(Path(stat).read_text().rpartition(")")[2].split()[0])
    print(states.count("R") / SAMPLES)


def share(thread: threading.Thread, work: Callable[[], object]) -> float:
    """What `watch` says of `thread` while `work` is done again and again."""
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
    work, counter = CALLS[sys.argv[1]](), Counter()
    work()
    begun = time.perf_counter()
    work()
    alone = time.perf_counter() - begun
    counter.start()
    print(json.dumps({"milliseconds": 1000 * alone, "kept": share(counter, work)}))
    return None


if __name__ == "__main__":
    main()
