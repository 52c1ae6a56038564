"""Writes the files beside it: saved replay folders, states and snapshots, and what they hold.

`python tests/golden/make.py` with `tests` on the path. They are of the formats whose versions they
carry (segments and manifests 1, states 1, snapshots as each says); a later format gets files of its own.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from helpers.tagged import RINGS, TIERED, Kind, dataset

import rlox

HERE = Path(__file__).parent
ENVS = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
Arrays = dict[str, np.ndarray]
MORE = 6  # rows pushed after loading


def named(prefix: str, batch: Any) -> Arrays:
    """A batch as arrays with names like `gather/obs.pixels`."""
    out: Arrays = {}
    for name, value in batch.items():
        if isinstance(value, dict):
            out |= {f"{prefix}/{name}.{part}": array for part, array in value.items()}
        else:
            out[f"{prefix}/{name}"] = np.asarray(value)
    return out


def draws(buffer: Any) -> Arrays:
    """Batches of a given seed, and the next ones of the buffer's own."""
    if isinstance(buffer, rlox.SequenceReplayBuffer):
        asked = {"seeded": (6, 5, 7), "own": (6, 5), "own again": (6, 5)}
        return {
            k: a for name, at in asked.items() for k, a in named(name, buffer.sample(*at)).items()
        }
    out = named("seeded", buffer.sample(12, seed=7))
    if isinstance(buffer, rlox.OfflineDatasetBuffer):
        out |= named("stretches", buffer.sample_trajectories(6, 5, seed=7))
        out |= named("stats", buffer.stats())
    else:
        out |= named("windows", buffer.sample(12, seed=7, n_step=3, gamma=0.9))
    return out | named("own", buffer.sample(6)) | named("own again", buffer.sample(6, n_batches=2))


def contents(case: Kind, buffer: Any, indices: np.ndarray) -> Arrays:
    """All rows, the next draws, and how it goes on."""
    out = named("gather", buffer.gather(indices)) | {"len": np.array(len(buffer))}
    out |= draws(buffer)
    for env, count in enumerate(case.pushed):
        for t in range(count, count + MORE):
            case.push(buffer, env, t)
    later = (6, 5, 8) if isinstance(buffer, rlox.SequenceReplayBuffer) else (12, 8)
    return out | named("later", buffer.sample(*later))


def change(case: Kind, buffer: Any) -> None:
    """What a save keeps besides rows: written columns, priorities, draws."""
    indices = case.held()[-3:]
    buffer.update("rewards", indices, np.float32([-1, -2, -3]))
    if isinstance(buffer, rlox.PrioritizedReplayBuffer):
        buffer.update_priorities(case.held()[:20], np.arange(20) / 4)
        buffer.set_beta(0.5)
    draws(buffer)


def ring(name: str, case: Kind) -> None:
    buffer = case.make(HERE)
    case.fill(buffer, 0.0, 0.6)
    buffer.save(HERE / name)
    buffer.cut_episode(0)
    case.fill(buffer, 0.6, 1.0)
    change(case, buffer)
    buffer.save(HERE / name)
    np.savez_compressed(HERE / f"{name}.state2.npz", **buffer.state())
    np.savez_compressed(HERE / f"{name}.npz", **contents(case, buffer, case.held()))


def tiered(name: str, case: Kind) -> None:
    """A named save whose newest row may wait for what follows, and rows sealed later by a buffer that
    was never closed.
    """
    path = HERE / name
    buffer = case.make(path)
    case.fill(buffer, 0.0, 0.5)
    buffer.close(keep=True)
    buffer = case.make(path)
    case.fill(buffer, 0.5, 0.7)
    buffer.cut_episode(0)
    case.fill(buffer, 0.7, 0.8)
    draws(buffer)
    buffer.save("named")
    case.fill(buffer, 0.8, 1.0)
    buffer.flush()
    del buffer
    opened = HERE / "opened"
    for which in ("newest", "named"):
        shutil.copytree(path, opened)
        buffer = case.make(opened)
        held = case.held()
        if which == "named":
            buffer.load("named")
            ends = np.array([int(0.8 * count) for count in case.pushed])
            held = in_ring(ends)
        np.savez_compressed(HERE / f"{name}.{which}.npz", **contents(case, buffer, held))
        del buffer
        shutil.rmtree(opened)


def in_ring(ends: np.ndarray) -> np.ndarray:
    """Indices of the rows held by a ring of 60 when so many rows of each environment were pushed."""
    n = len(ends)
    rows = [t * n + env for env, end in enumerate(ends) for t in range(max(end - 60 // n, 0), end)]
    return np.array(rows, np.uint64)


def data(name: str, normalize: bool) -> None:
    buffer = dataset(normalize=normalize)
    buffer.sample(3)
    buffer.save(HERE / name)
    np.savez_compressed(HERE / f"{name}.npz", **draws(buffer))


def actions(env: Any, steps: int, n: int) -> np.ndarray:
    """A sequence of actions that follows from the environment's space alone, `[steps, n]` or with a
    last axis of 1.
    """
    turn = np.arange(steps * n).reshape(steps, n) * 7919 % 97
    if env.n_actions is not None:
        return turn % env.n_actions
    low, high = env.action_low[0], env.action_high[0]
    return (low + (high - low) * turn[..., None] / 96).astype(np.float32)


def continued(env: Any, steps: int) -> Arrays:
    """What a `VecEnv` gives in further steps."""
    out = [env.step_all(action) for action in actions(env, steps, 4)]
    names = ("obs", "rewards", "terminated", "truncated")
    return {name: np.stack([step[name] for step in out]) for name in names}


def environment(env_id: str, precision: str) -> None:
    env = rlox.VecEnv(4, seed=9, env_id=env_id, precision=precision)
    env.reset_all()
    continued(env, 170)
    snapshot = {f"snapshot/{k}": np.asarray(v) for k, v in env.snapshot().items()}
    np.savez_compressed(HERE / f"{env_id}.{precision}.npz", **snapshot, **continued(env, 60))


def single(env_id: str) -> None:
    env = rlox.SingleEnv(env_id, seed=9)
    env.reset()
    for action in actions(env, 7, 1)[:, 0]:
        env.step(action)
    snapshot = {f"snapshot/{k}": np.asarray(v) for k, v in env.snapshot().items()}
    np.savez_compressed(HERE / f"{env_id}.single.npz", **snapshot, **rest_of(env, 2))


def rest_of(env: Any, steps: int) -> Arrays:
    """What a `SingleEnv` gives in further steps and after a reset."""
    found = [env.step(action)["obs"] for action in actions(env, steps, 1)[:, 0]]
    return {"obs": np.stack([*found, env.reset()])}


def main() -> None:
    for old in HERE.iterdir():
        if old.is_dir() and old.name != "runs":  # which have a make.py of their own
            shutil.rmtree(old)
        elif old.suffix == ".npz":
            old.unlink()
    for name, case in RINGS.items():
        ring(name, case)
    for name, case in TIERED.items():
        tiered(name, case)
    data("dataset", normalize=False)
    data("dataset_normalized", normalize=True)
    for env_id in ENVS:
        single(env_id)
        for precision in ("f64", "f32"):
            environment(env_id, precision)
    for lock in HERE.glob("*/lock"):
        lock.unlink()


if __name__ == "__main__":
    main()
