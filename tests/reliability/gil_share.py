"""How much of its rate a counting thread keeps while this process makes one long call after another.

Prints JSON: the milliseconds a call takes, and the rate during the calls over the rate alone. Time
in which the counting thread was ready but had no processor, because of other processes, is left out.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rlox import _core

SECONDS = 0.3


class Counter(threading.Thread):
    """Counts as fast as it can."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0

    def run(self) -> None:
        while True:
            self.count += 1

    def waited(self) -> float:
        """Seconds so far in which the thread was ready and no processor was free."""
        stat = Path(f"/proc/self/task/{self.native_id}/schedstat")
        return int(stat.read_text().split()[1]) / 1e9 if stat.exists() else 0.0


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
}


def rate(counter: Counter, work: Callable[[], object]) -> float:
    """Counts per second while `work` is done again and again."""
    begun, waited, count = time.perf_counter(), counter.waited(), counter.count
    while time.perf_counter() - begun < SECONDS:
        work()
    elapsed = time.perf_counter() - begun
    ready = elapsed - (counter.waited() - waited)
    return (counter.count - count) / ready


def main() -> None:
    work, counter = CALLS[sys.argv[1]](), Counter()
    work()
    begun = time.perf_counter()
    work()
    alone = time.perf_counter() - begun
    counter.start()
    free = rate(counter, lambda: time.sleep(0.05))
    busy = rate(counter, work)
    print(json.dumps({"milliseconds": 1000 * alone, "kept": busy / free}))


if __name__ == "__main__":
    main()
