"""A dataset whose observations and actions stay in their file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.errors import NonFiniteError
from rlox.sources.file_columns import FileColumn, blocks
from rlox.stopping import check

__all__ = ["DatasetOnDisk"]

WIDE = ("obs", "next_obs", "actions")


class DatasetOnDisk:
    """What `OfflineDatasetBuffer` gives of the same rows, read from their file as they are drawn.

    Rewards and flags are in memory: about 40 bytes a transition. Which rows are drawn is a buffer's to say,
    of rows that have their number in place of an observation.

    Parameters
    ----------
    columns : as `read_dataset` has them; `obs`, `next_obs` and `actions` are `FileColumn`s
    seed : draws without a seed of their own come from it
    """

    normalized = False

    def __init__(self, columns: Mapping[str, Any], seed: int = 0) -> None:
        self._wide: dict[str, FileColumn] = {name: columns[name] for name in WIDE}
        n = len(columns["rewards"])
        numbers = np.arange(n + 1).reshape(-1, 1)
        self._rows = OfflineDatasetBuffer(
            numbers[:-1], numbers[1:], np.zeros(n, np.uint8), columns["rewards"],
            columns["terminated"], columns["truncated"], seed=seed,
        )  # fmt: skip
        self._moments = {}
        for name in WIDE:
            moments = _moments(name, self._wide[name])
            if name == "obs" and moments is not None:
                self._moments = dict(zip(("obs_mean", "obs_std"), moments, strict=True))

    def __len__(self) -> int:
        return len(self._rows)

    def stats(self) -> dict[str, Any]:
        """As `OfflineDatasetBuffer.stats`."""
        dims = {"obs_dim": _width(self._wide["obs"]), "act_dim": _width(self._wide["actions"])}
        return {**self._rows.stats(), **dims, **self._moments}

    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """As `OfflineDatasetBuffer.sample`."""
        drawn = self._rows.sample(batch_size, seed, n_batches=n_batches)
        rows: NDArray[Any] = drawn["indices"]
        found = drawn if out is None else out
        for name in drawn.keys() - WIDE:
            found[name] = drawn[name]
        for name, column in self._wide.items():
            if out is None:
                found[name] = np.empty((*rows.shape, *_shape(column)), column.dtype)
            column.take(rows.reshape(-1), found[name])
        return found

    def sample_trajectories(
        self, batch_size: int, seq_len: int, seed: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """As `OfflineDatasetBuffer.sample_trajectories`."""
        drawn = self._rows.sample_trajectories(batch_size, seq_len, seed)
        mask = drawn["mask"]
        rows = drawn["obs"][..., 0][mask]
        for name in ("obs", "actions"):
            column = self._wide[name]
            there = np.empty((len(rows), *_shape(column)), column.dtype)
            column.take(rows, there)
            drawn[name] = np.zeros((*mask.shape, *_shape(column)), column.dtype)
            drawn[name][mask] = there
        return drawn


def _shape(column: FileColumn) -> tuple[int, ...]:
    """Of a row, as a buffer has it: a single number is a vector of one."""
    return column.shape[1:] or (1,)


def _width(column: FileColumn) -> int:
    return int(np.prod(column.shape[1:], dtype=np.int64))


def _moments(name: str, column: FileColumn) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Mean and population deviation of each number, as the buffer sums them; None of whole numbers."""
    if column.dtype.kind != "f":
        return None

    def summed(off: NDArray[np.float64] | float, power: int) -> NDArray[np.float64]:
        sums = np.zeros((1, *column.shape[1:]))
        for part, (rows,) in blocks(column):
            check()
            _require_finite(name, part.start, rows)
            each = (rows.astype(np.float64) - off) ** power
            # one row after the other, whatever the blocks: the same bits as in memory
            sums = np.add.accumulate(np.concatenate([sums, each]), axis=0)[-1:]
        found: NDArray[np.float64] = sums[0] / len(column)
        return found

    mean = summed(0.0, 1)
    return mean, np.sqrt(summed(mean, 2))


def _require_finite(name: str, first: int, rows: NDArray[Any]) -> None:
    bad = np.flatnonzero(~np.isfinite(rows).reshape(-1))
    if len(bad):
        width = rows[0].size
        raise NonFiniteError(
            f"{name} has {rows.reshape(-1)[bad[0]]} at index {first * width + bad[0]}; "
            "rlox dataset check says where else"
        )
