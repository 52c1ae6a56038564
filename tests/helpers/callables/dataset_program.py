"""Programs of calls on a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables.buffers import LARGEST, Program, count_of, stacked
from helpers.callables.engine import Arguments, Draw, any_numeric, require, whole
from helpers.callables.rings import Draws, outputs
from rlox import _core

CONSTANT = 1e-6


class Dataset:
    """The arrays, and where draws stand."""

    def __init__(self, arrays: Arguments, scaled: bool, seed: int) -> None:
        self.arrays, self.scaled, self.seed, self.drawn = arrays, scaled, seed, 0
        obs = arrays["obs"].astype(np.float64)
        self.mean, self.std = obs.mean(axis=0), obs.std(axis=0)
        self.scale = np.where(self.std < CONSTANT, 1.0, self.std)
        self.ends = arrays["terminated"] | arrays["truncated"]
        self.n = len(obs)

    def held(self) -> range:
        return range(self.n)

    def bounds(self, row: int) -> tuple[int, int]:
        """First row of the episode of a row, and behind the last."""
        before, after = np.flatnonzero(self.ends[:row]), np.flatnonzero(self.ends[row:])
        first = int(before[-1]) + 1 if len(before) else 0
        return first, row + int(after[0]) + 1 if len(after) else self.n

    def episodes(self) -> list[tuple[int, int]]:
        return sorted({self.bounds(row) for row in range(self.n)})

    def scaled_obs(self, obs: np.ndarray) -> np.ndarray:
        if not self.scaled:
            return obs
        return ((obs.astype(np.float64) - self.mean) / self.scale).astype(obs.dtype)

    def copy(self) -> Dataset:
        other = Dataset(self.arrays, self.scaled, self.seed)
        other.drawn = self.drawn
        return other

    def draws(self, seed: int | None, count: int) -> list[Draws]:
        if seed is not None:
            return [Draws(seed, number) for number in range(count)]
        numbers = range(self.drawn, self.drawn + count)
        self.drawn += count
        return [Draws(self.seed, number) for number in numbers]


class DatasetProgram(Program):
    """`OfflineDatasetBuffer`."""

    kind = _core.OfflineDatasetBuffer
    steps = (
        "sample", "sample_trajectories", "stats", "n_episodes", "normalize", "denormalize", "facts",
        "save", "load",
    )  # fmt: skip

    def __init__(self, draw: Draw, folder: Path) -> None:
        self.n, self.scaled = draw.integer(1, 12), draw.boolean()
        self.dtype = draw.one_of(np.float32, np.float64)
        self.arrays = {
            "obs": (draw.rng.normal(2, 3, (self.n, 2))).astype(self.dtype),
            "next_obs": draw.rng.normal(2, 3, (self.n, 2)).astype(self.dtype),
            "actions": draw.rng.normal(size=(self.n, 1)).astype(np.float32),
            "rewards": draw.rng.normal(size=self.n).astype(self.dtype),
            "terminated": draw.rng.random(self.n) < 0.2,
            "truncated": draw.rng.random(self.n) < 0.2,
        }
        super().__init__(draw, folder)

    def made(self) -> Any:
        return Dataset(self.arrays, self.scaled, self.seed)

    def make(self, seed: int) -> Any:
        return self.kind(**self.arrays, normalize=self.scaled, seed=seed)

    def draw_sample(self) -> Arguments:
        given = self.draw_request()
        if self.draw.boolean():
            given["out"] = self.buffer.sample(**{"seed": 0, **given})
        return given

    def batch(self, rows: list[int]) -> dict[str, np.ndarray]:
        batch = {name: array[rows] for name, array in self.model.arrays.items()}
        for name in ("obs", "next_obs"):
            batch[name] = self.model.scaled_obs(batch[name])
        return batch | {"indices": np.array(rows, np.uint64)}

    def model_sample(
        self, batch_size: Any = None, seed: Any = None, n_batches: Any = None, out: Any = None
    ) -> Any:
        size, count, lead = count_of(batch_size, n_batches)
        seed = None if seed is None else whole(seed, 0, LARGEST)
        like = self.batch([])
        outputs(out, {k: np.zeros(lead + a.shape[1:], a.dtype) for k, a in like.items()})
        draws = self.model.draws(seed, count)
        rows = [[each.below(self.n) for _ in range(size)] for each in draws]
        return stacked([self.batch(batch) for batch in rows], lead)

    def draw_sample_trajectories(self) -> Arguments:
        seed = {"seed": self.draw.integer(0, LARGEST)} if self.draw.boolean() else {}
        sizes = {"batch_size": self.draw.integer(1, 5), "seq_len": self.draw.integer(1, 6)}
        return sizes | seed

    def model_sample_trajectories(
        self, batch_size: Any = None, seq_len: Any = None, seed: Any = None
    ) -> Any:
        length = whole(seq_len, 1, LARGEST)
        size, _, _ = count_of(batch_size, None, length)
        seed = None if seed is None else whole(seed, 0, LARGEST)
        (draws,) = self.model.draws(seed, 1)
        like = {k: a for k, a in self.batch([]).items() if k in ("obs", "actions", "rewards")}
        like |= {"returns_to_go": like["rewards"], "timesteps": np.zeros(0, np.int64)}
        like["mask"] = np.zeros(0, bool)
        out = {k: np.zeros((size, length, *a.shape[1:]), a.dtype) for k, a in like.items()}
        for b in range(size):
            row = draws.below(self.n)
            first, end = self.model.bounds(row)
            rows = list(range(row, min(end, row + length)))
            rewards = self.model.arrays["rewards"].astype(np.float64)
            part = self.batch(rows)
            part["returns_to_go"] = np.array([rewards[t:end].sum() for t in rows])
            part["timesteps"], part["mask"] = np.array(rows) - first, np.ones(len(rows), bool)
            for name, array in out.items():
                array[b, : len(rows)] = part[name]
        return out

    def draw_stats(self) -> Arguments:
        return {}

    draw_n_episodes = draw_stats

    def model_stats(self) -> Any:
        episodes = self.model.episodes()
        rewards = self.model.arrays["rewards"].astype(np.float64)
        returns = np.array([rewards[first:end].sum() for first, end in episodes])
        return {
            "n_transitions": self.n,
            "n_episodes": len(episodes),
            "n_complete_episodes": int(self.model.ends.sum()),
            "obs_dim": 2,
            "act_dim": 1,
            "mean_return": float(returns.mean()),
            "std_return": float(returns.std()),
            "min_return": float(returns.min()),
            "max_return": float(returns.max()),
            "mean_episode_length": self.n / len(episodes),
            "obs_mean": self.model.mean,
            "obs_std": self.model.std,
        }

    def model_n_episodes(self) -> int:
        return len(self.model.episodes())

    def draw_normalize(self) -> Arguments:
        return {"obs": self.draw.numbers(*([3] if self.draw.boolean() else []), 2)}

    draw_denormalize = draw_normalize

    def model_normalize(self, obs: Any = None) -> Any:
        return self.converted(obs, lambda x: (x - self.model.mean) / self.model.scale)

    def model_denormalize(self, obs: Any = None) -> Any:
        return self.converted(obs, lambda x: x * self.model.scale + self.model.mean)

    def converted(self, obs: Any, work: Any) -> Any:
        array = any_numeric(obs)
        require(array.ndim >= 1 and array.shape[-1] == 2)
        single = array.dtype.kind == "f" and array.dtype.itemsize == 4
        with np.errstate(all="ignore"):
            result = work(array.astype(np.float64))
            return result.astype(np.float32) if single else result

    def model_facts(self) -> Any:
        return {"normalized": self.scaled, "len": self.n}

    facts_read = ("normalized",)

    def contents(self) -> tuple[Any, Any]:
        return self.buffer.sample(20, seed=1), self.model_sample(20, 1)
