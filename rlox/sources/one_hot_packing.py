"""Compact observations in a replay buffer: one integer in place of its one-hot columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.spaces import FLOAT, ObservationCodec

__all__ = ["OneHotPacking"]

MAX_VALUES = 1 << 24  # float32 represents smaller integers exactly


@dataclass(frozen=True)
class OneHotPacking:
    """Packs rows: first come the numbers that are not one-hot, then each integer as one float32, from 0.

    Images and an action mask follow unchanged. A row that is packed and then unpacked has the same bytes.
    """

    codec: ObservationCodec
    kept_columns: NDArray[np.int64]  # columns, in a row's numbers, that stay unchanged
    one_hot_columns: NDArray[np.int64]  # the one-hot columns
    first_columns: NDArray[np.int64]  # the first column of each integer
    offsets: NDArray[np.int64]  # how many of `one_hot_columns` precede those of each integer

    @classmethod
    def of(cls, codec: ObservationCodec) -> OneHotPacking | None:
        """Return the packing for rows of `codec`; `None` if no row becomes shorter."""
        integers = [(first, n) for first, n in codec.one_hot_columns if 1 < n <= MAX_VALUES]
        if not integers:
            return None
        firsts, sizes = np.asarray(integers, np.int64).T
        one_hot_columns = np.concatenate([np.arange(first, first + n) for first, n in integers])
        kept_columns = np.delete(np.arange(codec.numeric_dim), one_hot_columns)
        return cls(codec, kept_columns, one_hot_columns, firsts, np.cumsum(sizes) - sizes)

    @property
    def numeric_dim(self) -> int:
        """The count of numbers in a packed row."""
        return len(self.kept_columns) + len(self.first_columns)

    @property
    def dim(self) -> int:
        """The length of a packed row, which has the dtype of the codec's rows."""
        return self.codec.dim - self._columns_per_number * (self.codec.numeric_dim - self.numeric_dim)

    @property
    def row_bytes(self) -> int:
        """Bytes of a packed row."""
        return self.dim * self.codec.dtype.itemsize

    def pack(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Pack rows `[..., codec.dim]` into a new array `[..., dim]`."""
        packed = np.zeros((*rows.shape[:-1], self.dim), self.codec.dtype)
        numbers, packed_numbers = self.codec.numeric_view(rows), self._numeric_view(packed)
        one_hot = numbers[..., self.one_hot_columns]
        # exactly one column of each integer is not 0, so the results are in the order of the integers
        places = np.nonzero(one_hot.reshape(-1, len(self.one_hot_columns)))[1]
        packed_numbers[..., : len(self.kept_columns)] = numbers[..., self.kept_columns]
        packed_numbers[..., len(self.kept_columns) :] = (
            places.reshape(*one_hot.shape[:-1], len(self.first_columns)) - self.offsets
        )
        packed[..., self._columns_per_number * self.numeric_dim :] = rows[
            ..., self._columns_per_number * self.codec.numeric_dim :
        ]
        return packed

    def unpack(self, packed: NDArray[Any], rows: NDArray[Any]) -> None:
        """Unpack `packed` `[..., dim]` into `rows` `[..., codec.dim]`."""
        rows[...] = 0
        packed_numbers, numbers = self._numeric_view(packed), self.codec.numeric_view(rows)
        numbers[..., self.kept_columns] = packed_numbers[..., : len(self.kept_columns)]
        places = packed_numbers[..., len(self.kept_columns) :].astype(np.int64) + self.first_columns
        np.put_along_axis(numbers, places, 1.0, -1)
        rows[..., self._columns_per_number * self.codec.numeric_dim :] = packed[
            ..., self._columns_per_number * self.numeric_dim :
        ]

    @property
    def _columns_per_number(self) -> int:
        """Columns of one number: its bytes if rows contain images, else 1."""
        return FLOAT.itemsize if self.codec.images else 1

    def _numeric_view(self, packed: NDArray[Any]) -> NDArray[np.float32]:
        """Return a view of the numbers in packed rows."""
        numbers: NDArray[np.float32] = packed[..., : self._columns_per_number * self.numeric_dim].view(FLOAT)
        return numbers
