"""A dataset whose observations and actions stay in their file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.errors import NonFiniteError
from rlox.sources.file_columns import FileColumn, iter_blocks
from rlox.stopping import raise_if_expired

__all__ = ["DatasetOnDisk"]

WIDE_COLUMNS = ("obs", "next_obs", "actions")


class DatasetOnDisk:
    """Samples the same rows as `OfflineDatasetBuffer`, but reads them from their file when sampled.

    Rewards and flags stay in memory: about 40 bytes a transition. An in-memory buffer with row numbers in
    place of observations decides which rows are drawn.

    Parameters
    ----------
    columns : as `read_dataset` returns them; `obs`, `next_obs` and `actions` are `FileColumn`s
    seed : used by calls of `sample` without a seed
    """

    normalized = False

    def __init__(self, columns: Mapping[str, Any], seed: int = 0) -> None:
        self._file_columns: dict[str, FileColumn] = {name: columns[name] for name in WIDE_COLUMNS}
        n = len(columns["rewards"])
        numbers = np.arange(n + 1).reshape(-1, 1)
        self._row_numbers = OfflineDatasetBuffer(
            numbers[:-1], numbers[1:], np.zeros(n, np.uint8), columns["rewards"],
            columns["terminated"], columns["truncated"], seed=seed,
        )  # fmt: skip
        self._moments = {}
        for name in WIDE_COLUMNS:
            moments = _mean_and_std(name, self._file_columns[name])
            if name == "obs" and moments is not None:
                self._moments = dict(zip(("obs_mean", "obs_std"), moments, strict=True))

    def __len__(self) -> int:
        return len(self._row_numbers)

    def stats(self) -> dict[str, Any]:
        """Like `OfflineDatasetBuffer.stats`."""
        dims = {
            "obs_dim": _width(self._file_columns["obs"]),
            "act_dim": _width(self._file_columns["actions"]),
        }
        return {**self._row_numbers.stats(), **dims, **self._moments}

    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Like `OfflineDatasetBuffer.sample`."""
        sample = self._row_numbers.sample(batch_size, seed, n_batches=n_batches)
        rows: NDArray[Any] = sample["indices"]
        result = sample if out is None else out
        for name in sample.keys() - WIDE_COLUMNS:
            result[name] = sample[name]
        for name, column in self._file_columns.items():
            if out is None:
                result[name] = np.empty((*rows.shape, *_row_shape(column)), column.dtype)
            column.take(rows.reshape(-1), result[name])
        return result

    def sample_trajectories(
        self, batch_size: int, seq_len: int, seed: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """Like `OfflineDatasetBuffer.sample_trajectories`."""
        sample = self._row_numbers.sample_trajectories(batch_size, seq_len, seed)
        mask = sample["mask"]
        rows = sample["obs"][..., 0][mask]
        for name in ("obs", "actions"):
            column = self._file_columns[name]
            values = np.empty((len(rows), *_row_shape(column)), column.dtype)
            column.take(rows, values)
            sample[name] = np.zeros((*mask.shape, *_row_shape(column)), column.dtype)
            sample[name][mask] = values
        return sample


def _row_shape(column: FileColumn) -> tuple[int, ...]:
    """Return the shape of one row as a buffer has it: a single number is a vector of length 1."""
    return column.shape[1:] or (1,)


def _width(column: FileColumn) -> int:
    return int(np.prod(column.shape[1:], dtype=np.int64))


def _mean_and_std(name: str, column: FileColumn) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return mean and population deviation of each number, summed in a buffer's order; None for integers."""
    if column.dtype.kind != "f":
        return None

    def mean_power(center: NDArray[np.float64] | float, power: int) -> NDArray[np.float64]:
        sums = np.zeros((1, *column.shape[1:]))
        for part, (rows,) in iter_blocks(column):
            raise_if_expired()
            _require_finite(name, part.start, rows)
            powers = (rows.astype(np.float64) - center) ** power
            # row by row, so that the result equals the in-memory one bit for bit
            sums = np.add.accumulate(np.concatenate([sums, powers]), axis=0)[-1:]
        mean: NDArray[np.float64] = sums[0] / len(column)
        return mean

    mean = mean_power(0.0, 1)
    return mean, np.sqrt(mean_power(mean, 2))


def _require_finite(name: str, first: int, rows: NDArray[Any]) -> None:
    bad = np.flatnonzero(~np.isfinite(rows).reshape(-1))
    if len(bad):
        width = rows[0].size
        raise NonFiniteError(
            f"{name} has {rows.reshape(-1)[bad[0]]} at index {first * width + bad[0]}; "
            "rlox dataset check says where else"
        )
