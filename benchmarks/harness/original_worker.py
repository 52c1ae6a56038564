"""Times rlox 1.2.0 in an interpreter of its own, which `original.py` starts.

Both packages are called rlox, so they cannot share a process. Requests and answers are JSON, one a
line; arrays travel in files, so that the memory of this process holds nothing else. This file imports
nothing of rlox's repository.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import rlox  # the original

Array = np.ndarray[Any, Any]
Prepared = tuple[Callable[[], object], Callable[[], dict[str, Array]]]


def function(
    arrays: Sequence[Array], name: str, arguments: Sequence[float], results: Sequence[str]
) -> Prepared:
    """A function of the module on (arrays, then numbers); `results` names what it returns."""
    call, given = getattr(rlox, name), [*arrays, *arguments]

    def operation() -> Any:
        return call(*given)

    def answer() -> dict[str, Array]:
        got = operation()
        parts = got if isinstance(got, tuple) else (got,)
        return {key: np.asarray(part) for key, part in zip(results, parts, strict=True)}

    return operation, answer


def vec_env(arrays: Sequence[Array], env_id: str, n: int, seed: int) -> Prepared:
    """One `step_all` with the next of the given actions, `[k, n]` or `[k, n, 1]`."""
    env = rlox.VecEnv(n=n, seed=seed, env_id=env_id)
    env.reset_all()
    rows = list(arrays[0])
    turns = itertools.cycle(
        [row.tolist() for row in rows] if n == 1 and rows[0].ndim == 1 else rows
    )

    def operation() -> Any:
        return env.step_all(next(turns))

    def answer() -> dict[str, Array]:
        steps = -(-arrays[1].item() // n)
        ends = reward = 0.0
        for _ in range(steps):
            got = operation()
            ends += np.count_nonzero(np.logical_or(got["terminated"], got["truncated"]))
            reward += got["rewards"].sum()
        return {"ends": np.array(ends / (steps * n)), "reward": np.array(reward / (steps * n))}

    return operation, answer


def rollout(
    arrays: Sequence[Array], env_id: str, n: int, seed: int, gamma: float, lam: float
) -> Prepared:
    """T steps into arrays `[T, N]`, then GAE on the env-major order that it takes."""
    actions, values = arrays
    n_steps = len(actions)
    env = rlox.VecEnv(n=n, seed=seed, env_id=env_id)
    obs = np.zeros((n_steps + 1, n, 4), np.float32)
    rewards, dones = (np.zeros((n_steps, n), np.float32) for _ in range(2))
    obs[0] = env.reset_all()

    def operation() -> Any:
        for t in range(n_steps):
            got = env.step_all(actions[t])
            obs[t + 1] = got["obs"]
            rewards[t] = got["rewards"]
            np.logical_or(got["terminated"], got["truncated"], out=dones[t])
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


WORKLOADS: dict[str, Callable[..., Prepared]] = {
    "function": function,
    "vec_env": vec_env,
    "rollout": rollout,
}


def sample(operation: Callable[[], object], loops: int) -> float:
    """Seconds of `loops` calls with the garbage collector at rest."""
    gc.disable()
    try:
        begun = time.perf_counter()
        for _ in range(loops):
            operation()
        return time.perf_counter() - begun
    finally:
        gc.enable()


def written(folder: str, arrays: dict[str, Array]) -> dict[str, str]:
    """Paths of files with the arrays."""
    paths = {name: str(Path(folder, f"{name}.npy")) for name in arrays}
    for name, path in paths.items():
        np.save(path, arrays[name], allow_pickle=False)
    return paths


def serve(requests: Iterable[str], answers: TextIO) -> None:
    """Answers requests until the pipe is closed."""
    prepared: Prepared | None = None
    for line in requests:
        request = json.loads(line)
        kind = request["do"]
        reply: dict[str, Any] = {}
        if kind == "hello":
            reply = {"rlox": version("rlox"), "numpy": version("numpy")}
        elif kind == "prepare":
            arrays = [np.load(path, allow_pickle=False) for path in request["arrays"]]
            prepared = WORKLOADS[request["workload"]](arrays, **request["options"])
        elif prepared is None:
            raise RuntimeError(f"{kind} before prepare")
        elif kind == "sample":
            reply = {"seconds": sample(prepared[0], request["loops"])}
        else:
            reply = {"arrays": written(request["folder"], prepared[1]())}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    # whatever the library prints goes to the standard error, so that answers stay readable
    with os.fdopen(os.dup(1), "w") as pipe:
        os.dup2(2, 1)
        serve(sys.stdin, pipe)
