"""Programs of calls for a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers.callables.buffers import Program
from helpers.callables.calls import LARGEST, count_of, stacked
from helpers.callables.engine import Arguments, Draw, any_numeric, as_integer, numeric, require
from helpers.callables.rings import Draws, flags, outputs
from helpers.callables.schemas import FLAT, Schema
from rlox import _core

CONSTANT = 1e-6
NAMED = {
    ("f", 8): "float64", ("u", 1): "uint8", ("u", 2): "uint16",
    ("i", 1): "int8", ("i", 2): "int16", ("i", 4): "int32",
}  # fmt: skip
INTEGER_DTYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
ROWS = ("obs", "next_obs", "actions")


def stored_as(array: np.ndarray) -> str:
    """Return the dtype of the column that an array makes."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    return NAMED.get((kind, size)) or {"i": "int64", "u": "int64", "b": "bool"}.get(kind, "float32")


def stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the numbers in a column of that dtype; refuse them if it cannot hold them."""
    if dtype.strip("u").startswith("int") and array.size:
        require(array.dtype.kind in "iub")
        limits = np.iinfo(dtype)
        require(int(array.min()) >= limits.min and int(array.max()) <= limits.max)
    require(dtype != "bool" or not np.isnan(array).any())
    with np.errstate(all="ignore"):
        array = array.astype(dtype)
    require(array.dtype.kind != "f" or np.isfinite(array).all())
    return array


def rows(value: Any, n: int) -> np.ndarray:
    """Return an array of `n` rows, or a flat array that divides into them."""
    array = any_numeric(value)
    flat = array.ndim == 1 and array.size % n == 0
    require(array.size and (flat or (array.ndim > 1 and len(array) == n)))
    return array


def moments(obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each element of `[n, ...]`; refuse values beyond float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = obs.mean(axis=0), obs.std(axis=0)
    require(bool(np.isfinite(std).all()))
    return mean, std


class Dataset:
    """The arrays, and the state of the draws."""

    def __init__(self, arrays: Arguments, scaled: bool, seed: int) -> None:
        self.arrays, self.scaled, self.seed, self.n_drawn = arrays, scaled, seed, 0
        obs = arrays["obs"].astype(np.float64)
        self.mean, self.std = moments(obs)
        self.scale = np.where(self.std < CONSTANT, 1.0, self.std)
        self.ends = arrays["terminated"] | arrays["truncated"]
        self.n = len(obs)

    def held_indices(self) -> range:
        return range(self.n)

    def bounds(self, row: int) -> tuple[int, int]:
        """Return the first row of a row's episode, and the end behind its last row."""
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
        other.n_drawn = self.n_drawn
        return other

    def draws(self, seed: int | None, count: int) -> list[Draws]:
        if seed is not None:
            return [Draws(seed, number) for number in range(count)]
        numbers = range(self.n_drawn, self.n_drawn + count)
        self.n_drawn += count
        return [Draws(self.seed, number) for number in numbers]


class DatasetProgram(Program):
    """A program for `OfflineDatasetBuffer`."""

    kind = _core.OfflineDatasetBuffer
    schemas = ("flat",)
    steps = (
        "sample", "sample_trajectories", "stats", "n_episodes", "normalize", "denormalize", "facts",
        "save", "load", "construct",
    )  # fmt: skip

    def __init__(self, draw: Draw, folder: Path, schema: Schema = FLAT) -> None:
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
        super().__init__(draw, folder, schema)

    def make_model(self) -> Any:
        return Dataset(self.arrays, self.scaled, self.seed)

    def make(self, seed: int) -> Any:
        return self.kind(**self.arrays, normalize=self.scaled, seed=seed)

    def draw_sample(self) -> Arguments:
        arguments = self.draw_request()
        if self.draw.boolean():
            arguments["out"] = self.buffer.sample(**{"seed": 0, **arguments})
        return arguments

    def batch(self, rows: list[int]) -> dict[str, np.ndarray]:
        batch = {name: array[rows] for name, array in self.model.arrays.items()}
        for name in ("obs", "next_obs"):
            batch[name] = self.model.scaled_obs(batch[name])
        return batch | {"indices": np.array(rows, np.uint64)}

    def model_sample(
        self, batch_size: Any = None, seed: Any = None, n_batches: Any = None, out: Any = None
    ) -> Any:
        size, count, lead = count_of(batch_size, n_batches)
        seed = None if seed is None else as_integer(seed, 0, LARGEST)
        template = self.batch([])
        outputs(out, {k: np.zeros(lead + a.shape[1:], a.dtype) for k, a in template.items()})
        draws = self.model.draws(seed, count)
        rows = [[each.below(self.n) for _ in range(size)] for each in draws]
        return stacked([self.batch(batch) for batch in rows], lead)

    def draw_sample_trajectories(self) -> Arguments:
        seed = {"seed": self.draw.integer(0, LARGEST)} if self.draw.boolean() else {}
        sizes = {"batch_size": self.draw.integer(1, 5), "seq_len": self.draw.integer(1, 6)}
        return sizes | seed

    def model_sample_trajectories(self, batch_size: Any = None, seq_len: Any = None, seed: Any = None) -> Any:
        length = as_integer(seq_len, 1, LARGEST)
        size, _, _ = count_of(batch_size, None, length)
        seed = None if seed is None else as_integer(seed, 0, LARGEST)
        (draws,) = self.model.draws(seed, 1)
        template = {k: a for k, a in self.batch([]).items() if k in ("obs", "actions", "rewards")}
        template |= {"returns_to_go": template["rewards"], "timesteps": np.zeros(0, np.int64)}
        template["mask"] = np.zeros(0, bool)
        out = {k: np.zeros((size, length, *a.shape[1:]), a.dtype) for k, a in template.items()}
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

    def whole_numbers(self, template: np.ndarray, dtype: str) -> np.ndarray:
        """Return integers of any size that a column can hold."""
        if dtype == "bool":
            return self.draw.rng.random(template.shape) < 0.5
        limits = np.iinfo(dtype)
        max_number = min(limits.max, 2**63 - 1)
        return self.draw.rng.integers(limits.min, max_number, template.shape, dtype, endpoint=True)

    def draw_construct(self) -> Arguments:
        arrays, integral = dict(self.arrays), self.draw.boolean()
        if integral:
            obs, actions = self.draw.one_of(*INTEGER_DTYPES), self.draw.one_of(*INTEGER_DTYPES)
            for name, dtype in zip(ROWS, (obs, obs, actions), strict=True):
                arrays[name] = self.whole_numbers(arrays[name], dtype)
        arrays = {name: self.draw.layout(array, True) for name, array in arrays.items()}
        return arrays | {
            "normalize": self.scaled and not integral,
            "seed": self.draw.integer(0, LARGEST),
        }

    def model_construct(
        self, normalize: Any = False, seed: Any = 0, rewards: Any = None, **arguments: Any
    ) -> Any:
        require(isinstance(normalize, (bool, np.bool_)))
        as_integer(seed, 0, LARGEST)
        rewards = numeric(rewards, None)
        n = len(stored(rewards, "float64" if rewards.dtype == np.float64 else "float32"))
        require(n > 0)
        obs, after, actions = (rows(arguments.get(name), n) for name in ROWS)
        dtype = stored_as(obs)
        columns = stored(obs, dtype), stored(after, dtype), stored(actions, stored_as(actions))
        require(obs.size == after.size and (not normalize or dtype.startswith("float")))
        for name in ("terminated", "truncated"):
            flags(arguments.get(name), (n,))
        moments(columns[0].reshape(n, -1).astype(np.float64))
        draws = Draws(7, 0)
        drawn_rows = [draws.below(n) for _ in range(5)]
        batch = [column.reshape(n, -1)[drawn_rows] for column in columns]
        return n, bool(normalize), obs.size // n, actions.size // n, batch[2 * normalize :]

    def call_construct(self, **arguments: Any) -> Any:
        buffer = self.kind(**arguments)
        stats, batch = buffer.stats(), buffer.sample(5, seed=7)
        names = ROWS[2 * buffer.normalized :]  # another step tests the normalisation of observations
        columns = [batch[name].reshape(5, -1) for name in names]
        return len(buffer), buffer.normalized, stats["obs_dim"], stats["act_dim"], columns

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
    ends = ("made", "refused")

    def contents(self) -> tuple[Any, Any]:
        return self.buffer.sample(20, seed=1), self.model_sample(20, 1)
