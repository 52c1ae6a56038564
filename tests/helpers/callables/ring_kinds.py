"""Models of buffers that do not draw uniformly, or keep rows on disk."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from helpers.callables.engine import require
from helpers.callables.rings import PADDING, Draws, Rings, Row
from helpers.callables.schemas import FLAT, Schema, map_columns, put
from rlox import _core


class Sequences(Rings):
    """Draws windows of rows of one episode."""

    cross = False

    def place(self, draws: Draws, length: int) -> list[tuple[int, int]]:
        """Return the rows of a window: draw until a row is a valid beginning."""
        while True:
            env, t = self.draw(draws)
            first, last = self.episode(env, t)
            if self.cross:
                first, last = self.start(env), len(self.rows[env])
            if t + length <= last or t == first:
                return [(env, k) for k in range(t, min(last, t + length))]

    def windows(self, seed: int, number: int, size: int, length: int) -> dict[str, Any]:
        draws = Draws(seed, number)
        all_rows = [self.place(draws, length) for _ in range(size)]
        template = self.batch([])
        out = map_columns(lambda a: np.zeros((size, length, *a.shape[1:]), a.dtype), template)
        out["indices"][:] = PADDING
        out["is_first"] = np.zeros((size, length), bool)
        out["mask"] = np.zeros((size, length), bool)
        for b, rows in enumerate(all_rows):
            for key, arrays in self.batch(rows).items():
                put(out[key], (b, slice(len(rows))), arrays)
            out["is_first"][b, : len(rows)] = [self.rows[env][t]["first"] for env, t in rows]
            out["mask"][b, : len(rows)] = True
        return out


class Priorities(Rings):
    """Draws rows in proportion to priority^alpha."""

    alpha, beta, max_priority, stratified = 0.6, 0.4, 1.0, True

    def store(self, env: int, row: Row) -> None:
        priority = row.pop("priority", None)
        priority = self.max_priority if priority is None else priority
        self.max_priority = max(self.max_priority, priority)
        super().store(env, {**row, "priority": priority})

    def leaves(self) -> np.ndarray:
        """Return p = priority^alpha by environment and position modulo the ring, float64."""
        p = np.zeros(self.n_envs * self.rows_per_env)
        for index in self.held_indices():
            env, t = self.find(index)
            p[env * self.rows_per_env + t % self.rows_per_env] = self.rows[env][t]["priority"] ** self.alpha
        return p

    def row_of(self, leaf: int) -> tuple[int, int]:
        env, place = divmod(leaf, self.rows_per_env)
        positions = range(self.start(env), len(self.rows[env]))
        return env, next(t for t in positions if t % self.rows_per_env == place)

    def weighted(self, seed: int, number: int, size: int) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Return rows and importance weights of a batch."""
        p = self.leaves()
        require(p.sum() > 0)
        units = _core.Stream(seed, "replay", number).uniform(size)
        points = (np.arange(size) + units) / size if self.stratified else units
        leaves = np.searchsorted(p.cumsum(), points * p.sum(), side="right")
        weights = (p[p > 0].min() / p[leaves]) ** self.beta
        return [self.row_of(int(leaf)) for leaf in leaves], weights.astype(np.float32)


class Tiers(Rings):
    """Keeps the older rows on disk, sealed in blocks."""

    def __init__(self, hot: int, total: int, n_envs: int, seed: int, schema: Schema = FLAT) -> None:
        super().__init__(total, n_envs, seed, schema)
        hot //= n_envs
        row_bytes = 4 * (2 + 1 + 1 + 2)
        self.chunk = max(-(-self.rows_per_env // 256), min(2**20 // row_bytes, hot // 3), 1)
        self.ring = max(hot, 2 * self.chunk + 2)
        self.sealed, self.durable, self.cold = [0] * n_envs, [0] * n_envs, [0] * n_envs

    def n_complete_rows(self, env: int) -> int:
        return len(self.rows[env]) - self.is_open(env)

    def make_room(self) -> None:
        if max(len(rows) - s for rows, s in zip(self.rows, self.sealed, strict=True)) >= self.chunk:
            self.seal()

    def seal(self) -> None:
        self.sealed = [len(rows) for rows in self.rows]
        self.durable = [self.n_complete_rows(env) for env in range(self.n_envs)]

    def flush(self) -> None:
        if self.durable != [self.n_complete_rows(env) for env in range(self.n_envs)]:
            self.seal()

    def reopen(self) -> None:
        """Set the state of a new buffer that continues with the files."""
        for env, rows in enumerate(self.rows):
            del rows[self.n_complete_rows(env) :]
        self.begins_episode = [True] * self.n_envs
        self.n_drawn = 0
        self.resume()

    def resume(self) -> None:
        """Move all rows to disk."""
        self.seal()
        self.cold = [len(rows) for rows in self.rows]

    def copy(self) -> Tiers:
        other: Any = super().copy()
        other.sealed, other.durable = list(self.sealed), list(self.durable)
        other.cold = copy.copy(self.cold)
        return other

    def hot(self) -> int:
        starts = [max(c, len(rows) - self.ring) for c, rows in zip(self.cold, self.rows, strict=True)]
        return sum(len(rows) - start for start, rows in zip(starts, self.rows, strict=True))

    def unsealed(self) -> int:
        return sum(len(rows) - d for rows, d in zip(self.rows, self.durable, strict=True))
