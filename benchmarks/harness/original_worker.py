"""Time rlox 1.2.0 in its own interpreter, which `original.py` starts.

Both packages have the name rlox, so they cannot share a process. Requests and answers are JSON, one per line.
Arrays travel in files, so that the memory of this process holds nothing else. This file imports nothing from
this repository.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import rlox  # the original rlox

Array = np.ndarray[Any, Any]
EPISODE_LENGTH = 200  # steps, as in `replay.py`
PreparedWorkload = tuple[Callable[[], object], Callable[[], dict[str, Array]]]


def function(
    arrays: Sequence[Array], name: str, arguments: Sequence[float], results: Sequence[str]
) -> PreparedWorkload:
    """Call a function of the module with the arrays, then the numbers; `results` names its results."""
    call, call_arguments = getattr(rlox, name), [*arrays, *arguments]

    def operation() -> Any:
        return call(*call_arguments)

    def answer() -> dict[str, Array]:
        result = operation()
        parts = result if isinstance(result, tuple) else (result,)
        return {key: np.asarray(part) for key, part in zip(results, parts, strict=True)}

    return operation, answer


def vec_env(arrays: Sequence[Array], env_id: str, n: int, seed: int) -> PreparedWorkload:
    """Call `step_all` with the next of the given actions, `[k, n]` or `[k, n, 1]`."""
    env = rlox.VecEnv(n=n, seed=seed, env_id=env_id)
    env.reset_all()
    rows = list(arrays[0])
    turns = itertools.cycle([row.tolist() for row in rows] if n == 1 and rows[0].ndim == 1 else rows)

    def operation() -> Any:
        return env.step_all(next(turns))

    def answer() -> dict[str, Array]:
        steps = -(-arrays[1].item() // n)
        ends = reward = 0.0
        for _ in range(steps):
            step_result = operation()
            ends += np.count_nonzero(np.logical_or(step_result["terminated"], step_result["truncated"]))
            reward += step_result["rewards"].sum()
        return {"ends": np.array(ends / (steps * n)), "reward": np.array(reward / (steps * n))}

    return operation, answer


def rollout(
    arrays: Sequence[Array], env_id: str, n: int, seed: int, gamma: float, lam: float
) -> PreparedWorkload:
    """Take T steps into arrays `[T, N]`, then compute GAE, which takes env-major order."""
    actions, values = arrays
    n_steps = len(actions)
    env = rlox.VecEnv(n=n, seed=seed, env_id=env_id)
    obs = np.zeros((n_steps + 1, n, 4), np.float32)
    rewards, dones = (np.zeros((n_steps, n), np.float32) for _ in range(2))
    obs[0] = env.reset_all()

    def operation() -> Any:
        for t in range(n_steps):
            step_result = env.step_all(actions[t])
            obs[t + 1] = step_result["obs"]
            rewards[t] = step_result["rewards"]
            np.logical_or(step_result["terminated"], step_result["truncated"], out=dones[t])
        rewards_by_env, values_by_env, dones_by_env = (
            np.ascontiguousarray(a.T).ravel() for a in (rewards, values[:-1], dones)
        )
        return rlox.compute_gae_batched_f32(
            rewards_by_env, values_by_env, dones_by_env, values[-1], n_steps, gamma, lam
        )

    def answer() -> dict[str, Array]:
        operation()
        return {"ends": np.array(dones.mean()), "reward": np.array(rewards.mean())}

    return operation, answer


class Replay:
    """A full buffer with the trajectory of `replay.py` through observations `[P, obs_dim]`."""

    def __init__(self, pool: Array, actions: Array, task: str, capacity: int, size: int) -> None:
        self.pool, self.actions, self.capacity, self.size = pool, actions, capacity, size
        kind = rlox.PrioritizedReplayBuffer if task == "prioritized" else rlox.ReplayBuffer
        self.buffer = kind(capacity, pool.shape[1], actions.shape[1])
        self.seeds = itertools.count()
        if task == "prioritized" or task.startswith("push one"):
            for number in range(capacity):
                self.buffer.push(*self.row(number))
        else:
            for start in range(0, capacity, len(pool)):
                self.buffer.push_batch(*self.rows(start, len(pool)))

    def row(self, number: int) -> tuple[Any, ...]:
        """Return the arguments of `push`."""
        index, next_index = number % len(self.pool), (number + 1) % len(self.pool)
        is_end = number % EPISODE_LENGTH == EPISODE_LENGTH - 1
        return (
            self.pool[index],
            self.actions[index],
            float(number),
            is_end,
            False,
            self.pool[next_index],
        )

    def rows(self, start: int, count: int) -> list[Array]:
        """Return the arguments of `push_batch`."""
        numbers = np.arange(start, start + count)
        indices, next_indices = numbers % len(self.pool), (numbers + 1) % len(self.pool)
        is_end = (numbers % EPISODE_LENGTH == EPISODE_LENGTH - 1).astype(np.uint8)
        parts = [
            self.pool[indices].ravel(),
            self.pool[next_indices].ravel(),
            self.actions[indices].ravel(),
        ]
        return [*parts, numbers.astype(np.float32), is_end, np.zeros(count, np.uint8)]

    def operation(self, task: str) -> Callable[[], object]:
        """Return the call that is timed."""
        push, size, seeds = self.buffer.push, self.size, self.seeds
        if task == "sample":
            return lambda: self.buffer.sample(size, next(seeds))
        if task == "push_batch":
            batch = self.rows(0, size)
            return lambda: self.buffer.push_batch(*batch)
        if task == "push one of a chain":
            turns = itertools.cycle([self.row(number) for number in range(len(self.pool))])
            return lambda: push(*next(turns))
        row = self.row(0)
        return lambda: push(*row)

    def prioritized(self, priorities: Array) -> Callable[[], object]:
        """Return a call that samples a batch and updates its priorities."""
        sample, update, seeds = self.buffer.sample, self.buffer.update_priorities, self.seeds
        return lambda: update(sample(len(priorities), next(seeds))["indices"], priorities)

    def answer(self) -> dict[str, Array]:
        """Return the number of sampled rows that were never pushed, and the mean position of the samples."""
        n_wrong, positions = 0, []
        for seed in range(16):
            batch = self.buffer.sample(256, seed)
            indices = batch["rewards"].astype(np.int64) % len(self.pool)
            for name, pool_indices in (
                ("obs", indices),
                ("next_obs", (indices + 1) % len(self.pool)),
            ):
                same = batch[name].reshape(len(pool_indices), -1) == self.pool[pool_indices]
                n_wrong += np.count_nonzero(~same.all(axis=1))
            positions.append(batch["rewards"].mean() / self.capacity)
        return {"wrong": np.array(n_wrong), "place": np.array(np.mean(positions))}


def replay(arrays: Sequence[Array], task: str, capacity: int, size: int) -> PreparedWorkload:
    """Prepare one of `Replay`'s operations on (observations, actions and, if prioritized, priorities)."""
    filled = Replay(arrays[0], arrays[1], task, capacity, size)
    work = filled.prioritized(arrays[2]) if task == "prioritized" else filled.operation(task)
    return work, filled.answer


def memory(arrays: Sequence[Array], capacity: int) -> PreparedWorkload:
    """Measure the bytes of a full `Replay`: the peak minus the memory that was resident before."""

    def answer() -> dict[str, Array]:
        pages = Path("/proc/self/statm").read_text("utf-8").split()[1]
        before = int(pages) * resource.getpagesize()
        filled = Replay(arrays[0], arrays[1], "push_batch", capacity, 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"bytes": np.array(peak - before), "rows": np.array(len(filled.buffer))}

    return answer, answer


WORKLOADS: dict[str, Callable[..., PreparedWorkload]] = {
    "function": function,
    "vec_env": vec_env,
    "rollout": rollout,
    "replay": replay,
    "memory": memory,
}


def sample(operation: Callable[[], object], loops: int) -> float:
    """Return the seconds of `loops` calls, with the garbage collector off."""
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(loops):
            operation()
        return time.perf_counter() - start
    finally:
        gc.enable()


def write_arrays(folder: str, arrays: dict[str, Array]) -> dict[str, str]:
    """Write the arrays to files; return their paths."""
    paths = {name: str(Path(folder, f"{name}.npy")) for name in arrays}
    for name, path in paths.items():
        np.save(path, arrays[name], allow_pickle=False)
    return paths


def serve(requests: Iterable[str], answers: TextIO) -> None:
    """Answer requests until the pipe is closed."""
    workload: PreparedWorkload | None = None
    for line in requests:
        request = json.loads(line)
        kind = request["do"]
        reply: dict[str, Any] = {}
        if kind == "hello":
            reply = {"rlox": version("rlox"), "numpy": version("numpy")}
        elif kind == "prepare":
            arrays = [np.load(path, allow_pickle=False) for path in request["arrays"]]
            workload = WORKLOADS[request["workload"]](arrays, **request["options"])
        elif workload is None:
            raise RuntimeError(f"{kind} before prepare")
        elif kind == "sample":
            reply = {"seconds": sample(workload[0], request["loops"])}
        else:
            reply = {"arrays": write_arrays(request["folder"], workload[1]())}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    # The library's own output goes to standard error, so that the answers stay readable.
    with os.fdopen(os.dup(1), "w") as pipe:
        os.dup2(2, 1)
        serve(sys.stdin, pipe)
