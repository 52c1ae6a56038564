"""Makes saved replay buffers, states and snapshots of environments, with their contents."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from helpers.tagged_buffers import RINGS, TIERED, Kind, dataset

import rlox
from golden.files import Arrays

ENVS = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
MORE = 6  # rows pushed after loading
Files = dict[str, Arrays]
"""Arrays by the name of their file."""


def named(prefix: str, batch: Any) -> Arrays:
    """Return a batch as arrays with names like `gather/obs.pixels`."""
    out: Arrays = {}
    for name, value in batch.items():
        if isinstance(value, dict):
            out |= {f"{prefix}/{name}.{part}": array for part, array in value.items()}
        else:
            out[f"{prefix}/{name}"] = np.asarray(value)
    return out


def draws(buffer: Any) -> Arrays:
    """Return batches of a given seed, and the next batches of the buffer's own generator."""
    if isinstance(buffer, rlox.SequenceReplayBuffer):
        asked = {"seeded": (6, 5, 7), "own": (6, 5), "own again": (6, 5)}
        return {k: a for name, at in asked.items() for k, a in named(name, buffer.sample(*at)).items()}
    out = named("seeded", buffer.sample(12, seed=7))
    if isinstance(buffer, rlox.OfflineDatasetBuffer):
        out |= named("stretches", buffer.sample_trajectories(6, 5, seed=7))
        out |= named("stats", buffer.stats())
    else:
        out |= named("windows", buffer.sample(12, seed=7, n_step=3, gamma=0.9))
    return out | named("own", buffer.sample(6)) | named("own again", buffer.sample(6, n_batches=2))


def contents(case: Kind, buffer: Any, indices: np.ndarray) -> Arrays:
    """Return all rows, the next draws, and draws after more rows."""
    out = named("gather", buffer.gather(indices)) | {"len": np.array(len(buffer))}
    out |= draws(buffer)
    for env, count in enumerate(case.pushed):
        for t in range(count, count + MORE):
            case.push(buffer, env, t)
    later = (6, 5, 8) if isinstance(buffer, rlox.SequenceReplayBuffer) else (12, 8)
    return out | named("later", buffer.sample(*later))


def change(case: Kind, buffer: Any) -> None:
    """Change the state that a save keeps besides rows: written columns, priorities, draws."""
    indices = case.held_indices()[-3:]
    buffer.update("rewards", indices, np.array([-1, -2, -3], np.float32))
    if isinstance(buffer, rlox.PrioritizedReplayBuffer):
        buffer.update_priorities(case.held_indices()[:20], np.arange(20) / 4)
        buffer.set_beta(0.5)
    draws(buffer)


def make_ring(name: str, place: Path) -> Files:
    """Make a folder that was saved twice, and the state and the contents at the second save."""
    case, path = RINGS[name], f"buffers/{name}"
    buffer = case.make(place)
    case.fill(buffer, 0.0, 0.6)
    buffer.save(place / path)
    buffer.cut_episode(0)
    case.fill(buffer, 0.6, 1.0)
    change(case, buffer)
    buffer.save(place / path)
    _unlock(place / path)
    state = {key: np.array(value) for key, value in buffer.state().items()}
    return {f"{path}.state2": state, path: contents(case, buffer, case.held_indices())}


def make_tiered(name: str, place: Path) -> Files:
    """Make a folder with a named save and with rows that were sealed later.

    The newest row of the named save may wait for its successor. The buffer that sealed the later rows was
    never closed.
    """
    case, path = TIERED[name], place / "buffers" / name
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
    found: Files = {}
    for which in ("newest", "named"):
        opened = Path(shutil.copytree(path, place / "opened"))
        buffer = case.make(opened)
        held = case.held_indices()
        if which == "named":
            buffer.load("named")
            held = in_ring(np.array([int(0.8 * count) for count in case.pushed]))
        found[f"buffers/{name}.{which}"] = contents(case, buffer, held)
        del buffer
        shutil.rmtree(opened)
    _unlock(path)
    return found


def in_ring(ends: np.ndarray) -> np.ndarray:
    """Return the indices that a ring of 60 rows holds after so many pushes of each environment."""
    n = len(ends)
    rows = [t * n + env for env, end in enumerate(ends) for t in range(max(end - 60 // n, 0), end)]
    return np.array(rows, np.uint64)


def make_data(name: str, place: Path) -> Files:
    """Make a saved dataset, with normalised observations if its name says so."""
    buffer = dataset(normalize=name == "dataset_normalized")
    buffer.sample(3)
    buffer.save(place / "buffers" / name)
    _unlock(place / "buffers" / name)
    return {f"buffers/{name}": draws(buffer)}


def _unlock(folder: Path) -> None:
    (folder / "lock").unlink(missing_ok=True)


def actions(env: Any, steps: int, n: int) -> np.ndarray:
    """Return actions `[steps, n]`, or with a last axis of 1, that depend on the environment's space alone."""
    turn = np.arange(steps * n).reshape(steps, n) * 7919 % 97
    if env.n_actions is not None:
        return turn % int(env.n_actions)
    low, high = float(env.action_low[0]), float(env.action_high[0])
    return (low + (high - low) * turn[..., None] / 96).astype(np.float32)


def steps_of_batch(env: Any, steps: int) -> Arrays:
    """Return the output of further steps of a `VecEnv`."""
    out = [env.step_all(action) for action in actions(env, steps, 4)]
    names = ("obs", "rewards", "terminated", "truncated")
    return {name: np.stack([step[name] for step in out]) for name in names}


def make_batch(env_id: str, precision: str) -> Files:
    """Make the snapshot of a `VecEnv` in mid-episode, and its next steps."""
    env = rlox.VecEnv(4, seed=9, env_id=env_id, precision=precision)
    env.reset_all()
    steps_of_batch(env, 170)
    return {f"environments/{env_id}.{precision}": _snapshot(env) | steps_of_batch(env, 60)}


def make_single(env_id: str) -> Files:
    """Make the snapshot of a `SingleEnv` in mid-episode, its next steps and the next start."""
    env = rlox.SingleEnv(env_id, seed=9)
    env.reset()
    for action in actions(env, 7, 1)[:, 0]:
        env.step(action)
    return {f"environments/{env_id}.single": _snapshot(env) | steps_of_one(env, 2)}


def _snapshot(env: Any) -> Arrays:
    return {f"snapshot/{key}": np.array(value) for key, value in env.snapshot().items()}


def steps_of_one(env: Any, steps: int) -> Arrays:
    """Return the observations of further steps of a `SingleEnv` and of a reset."""
    found = [env.step(action)["obs"] for action in actions(env, steps, 1)[:, 0]]
    return {"obs": np.stack([*found, env.reset()])}
