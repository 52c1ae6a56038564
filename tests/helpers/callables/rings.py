"""Models the replay buffers by plain lists of transitions and the documented draws."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.callables.engine import Stale, any_numeric, as_array, require
from helpers.callables.schemas import FLAT, Schema, put
from rlox import _core

COLUMNS: dict[str, tuple[int, ...]] = {"actions": (1,), "rewards": (), "latent": (2,)}
PADDING = 2**64 - 1
Row = dict[str, Any]


def flags(value: Any, lead: tuple[int, ...]) -> np.ndarray:
    array = any_numeric(value)
    rest = array.shape[len(lead) :]
    require(array.shape[: len(lead)] == lead and int(np.prod(rest)) == 1)
    require(not np.isnan(array).any())
    return array.astype(bool).reshape(lead)


class Draws:
    """Draws integers below a bound from 32 random bits each (Lemire 2019, algorithm 5)."""

    def __init__(self, seed: int, index: int) -> None:
        self.stream = _core.Stream(seed, "replay", index)
        self.words: list[int] = []

    def word(self) -> int:
        if not self.words:
            bits = self.stream.next_u64()
            self.words = [bits & (2**32 - 1), bits >> 32]
        return self.words.pop(0)

    def below(self, bound: int) -> int:
        product = self.word() * bound
        while product & (2**32 - 1) < 2**32 % bound:
            product = self.word() * bound
        return product >> 32

    def uniform(self) -> float:
        low, high = self.word(), self.word()
        return ((high << 32 | low) >> 11) * 2.0**-53


class Rings:
    """All pushed rows by environment; only the newest `rows_per_env` are held."""

    def __init__(self, capacity: int, n_envs: int, seed: int, schema: Schema = FLAT) -> None:
        self.rows_per_env, self.n_envs, self.seed, self.n_drawn = (
            capacity // n_envs,
            n_envs,
            seed,
            0,
        )
        self.schema = schema
        self.rows: list[list[Row]] = [[] for _ in range(n_envs)]
        self.begin = [0] * n_envs  # earlier rows were cleared
        self.begins_episode = [True] * n_envs

    def start(self, env: int) -> int:
        return max(self.begin[env], len(self.rows[env]) - self.rows_per_env)

    def held_indices(self) -> list[int]:
        """Return the held indices, stream by stream."""
        return [
            t * self.n_envs + env
            for env, rows in enumerate(self.rows)
            for t in range(self.start(env), len(rows))
        ]

    def find(self, index: int) -> tuple[int, int]:
        t, env = divmod(index, self.n_envs)
        if not self.start(env) <= t < len(self.rows[env]):
            raise Stale
        return env, t

    def check_written(self, numbers: list[int]) -> None:
        """Raise Stale for an index that no row has had yet, except the padding index."""
        for index in numbers:
            t, env = divmod(index, self.n_envs)
            if index not in (PADDING, -1) and not 0 <= t < len(self.rows[env]):
                raise Stale

    def is_open(self, env: int) -> bool:
        """Return whether the newest row still lacks its next observation."""
        return bool(self.rows[env]) and self.rows[env][-1]["next_obs"] is None

    def store(self, env: int, row: Row) -> None:
        rows = self.rows[env]
        if self.is_open(env):
            rows[-1]["next_obs"] = row["obs"]
        ended = row["terminated"] or row["truncated"]
        if row["next_obs"] is None and ended:
            row["next_obs"] = row["obs"]
        rows.append({**row, "first": self.begins_episode[env]})
        self.begins_episode[env] = bool(ended)

    def cut(self, env: int) -> None:
        if self.is_open(env):
            self.rows[env][-1]["next_obs"] = self.rows[env][-1]["obs"]
        self.begins_episode[env] = True

    def clear(self) -> None:
        for env in range(self.n_envs):
            self.cut(env)
            self.begin[env] = len(self.rows[env])

    def episode(self, env: int, t: int) -> tuple[int, int]:
        """Return the first held row of the episode of row `t`, and the end behind its last."""
        rows, first, last = self.rows[env], t, t + 1
        while first > self.start(env) and not rows[first]["first"]:
            first -= 1
        while last < len(rows) and not rows[last]["first"]:
            last += 1
        return first, last

    def after(self, env: int, t: int) -> Any:
        """Return the next observation of a row, or its own observation while the next is unknown."""
        row = self.rows[env][t]
        return row["obs"] if row["next_obs"] is None else row["next_obs"]

    def batches(self, seed: int | None, count: int) -> Iterator[tuple[int, int]]:
        """Yield seed and number of each batch of a call."""
        if seed is None:
            numbers = range(self.n_drawn, self.n_drawn + count)
            self.n_drawn += count
            yield from ((self.seed, number) for number in numbers)
        else:
            yield from ((seed, number) for number in range(count))

    def draw(self, draws: Draws) -> tuple[int, int]:
        """Draw a row uniformly."""
        counts = [len(rows) - self.start(env) for env, rows in enumerate(self.rows)]
        number = draws.below(sum(counts))
        if len(set(counts)) == 1:
            ahead, env = divmod(number, self.n_envs)
            return env, self.start(env) + ahead
        ends = np.cumsum(counts)
        env = int(np.searchsorted(ends, number, side="right"))
        return env, self.start(env) + number - int(ends[env] - counts[env])

    def batch(self, rows: list[tuple[int, int]], horizon: tuple[int, float] | None = None) -> Any:
        """Return the arrays of rows, or of the n-step windows that begin at them."""
        n = len(rows)
        out: dict[str, Any] = {"obs": self.schema.zeros(n), "next_obs": self.schema.zeros(n)}
        for name, shape in COLUMNS.items():
            out[name] = np.zeros((len(rows), *shape), np.float32)
        for name in ("terminated", "truncated"):
            out[name] = np.zeros(len(rows), bool)
        out["indices"] = np.array([t * self.n_envs + env for env, t in rows], np.uint64)
        if horizon is not None:
            out["discounts"] = np.zeros(len(rows), np.float32)
        for i, (env, t) in enumerate(rows):
            first, last = self.rows[env][t], t
            put(out["obs"], i, first["obs"])
            for name in COLUMNS:
                out[name][i] = first[name]
            if horizon is not None:
                total, factor, last = self.window(env, t, *horizon)
                with np.errstate(all="ignore"):
                    out["rewards"][i] = total
                out["discounts"][i] = 0.0 if self.rows[env][last]["terminated"] else factor
            put(out["next_obs"], i, self.after(env, last))
            for name in ("terminated", "truncated"):
                out[name][i] = self.rows[env][last][name]
        return out

    def contents(self) -> dict[str, Any]:
        """Return each column of the held rows; `batch` takes three times as long."""
        rows = [
            {**steps[t], "next_obs": self.after(env, t)}
            for env, steps in enumerate(self.rows)
            for t in range(self.start(env), len(steps))
        ]
        out = {name: self.schema.joined([row[name] for row in rows]) for name in ("obs", "next_obs")}
        for name, shape in {**COLUMNS, "terminated": (), "truncated": ()}.items():
            dtype = bool if name in ("terminated", "truncated") else np.float32
            out[name] = np.array([row[name] for row in rows], dtype).reshape(len(rows), *shape)
        return out

    def window(self, env: int, t: int, n: int, gamma: float) -> tuple[float, float, int]:
        """Return n-step return, discount and last row, by the definition."""
        end = min(self.episode(env, t)[1], t + n)
        total, factor = 0.0, 1.0
        with np.errstate(all="ignore"):
            for k in range(t, end):
                total += factor * float(self.rows[env][k]["rewards"])
                factor *= gamma
        return total, factor, end - 1

    def copy(self) -> Rings:
        """Return an independent copy; it shares the pushed arrays, which never change."""
        other = copy.copy(self)
        other.rows = [[{**row} for row in rows] for rows in self.rows]
        other.begin, other.begins_episode = list(self.begin), list(self.begins_episode)
        return other


def outputs(out: Any, template: dict[str, Any]) -> None:
    """Refuse a dict that cannot receive a batch."""
    if out is None:
        return
    require(isinstance(out, dict))
    for name, array in template.items():
        output = out.get(name)
        if isinstance(array, dict):
            require(output is not None)
            outputs(output, array)
            continue
        require(isinstance(output, np.ndarray) and output.flags.writeable)
        require((output.dtype, output.shape) == (array.dtype, array.shape))
        require(output.flags.c_contiguous and output.flags.aligned)


def indices_of(value: Any) -> list[int]:
    """Return indices `[n]`; negative ones belong to no row."""
    array = as_array(value)
    require(array.ndim == 1 and array.dtype.kind in "iu")
    return [int(index) for index in array]
