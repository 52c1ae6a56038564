"""Observations as a replay buffer keeps them: an integer in place of its one-hot columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.spaces import FLOAT, ObservationCodec

__all__ = ["Packing"]

MAX_VALUES = 1 << 24  # float32 holds the whole numbers below exactly


@dataclass(frozen=True)
class Packing:
    """Rows in which each integer of an observation is one float32, counted from 0, behind the other numbers.

    Images and a mask of actions follow as they are. `unpack(pack(rows))` gives the same bytes.
    """

    codec: ObservationCodec
    plain: NDArray[np.int64]  # columns, in a row's numbers, that are kept as they are
    hot: NDArray[np.int64]  # the one-hot columns
    firsts: NDArray[np.int64]  # the first column of each integer
    before: NDArray[np.int64]  # how many of `hot` precede it

    @classmethod
    def of(cls, codec: ObservationCodec) -> Packing | None:
        """The packing for the rows of `codec`; `None` where no row becomes shorter."""
        integers = [(first, n) for first, n in codec.integers if 1 < n <= MAX_VALUES]
        if not integers:
            return None
        firsts, sizes = np.asarray(integers, np.int64).T
        hot = np.concatenate([np.arange(first, first + n) for first, n in integers])
        plain = np.delete(np.arange(codec.numbers), hot)
        return cls(codec, plain, hot, firsts, np.cumsum(sizes) - sizes)

    @property
    def numbers(self) -> int:
        """How many numbers a packed row has."""
        return len(self.plain) + len(self.firsts)

    @property
    def dim(self) -> int:
        """The length of a packed row, which has the dtype of the codec's rows."""
        return self.codec.dim - self._unit * (self.codec.numbers - self.numbers)

    @property
    def row_bytes(self) -> int:
        """Memory of a packed row."""
        return self.dim * self.codec.dtype.itemsize

    def pack(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows `[..., codec.dim]` as packed rows `[..., dim]`, a new array."""
        packed = np.zeros((*rows.shape[:-1], self.dim), self.codec.dtype)
        given, kept = self.codec.numbers_of(rows), self._numbers_of(packed)
        hot = given[..., self.hot]
        # one column of each integer is not 0, so that they come in the order of the integers
        places = np.nonzero(hot.reshape(-1, len(self.hot)))[1]
        kept[..., : len(self.plain)] = given[..., self.plain]
        kept[..., len(self.plain) :] = (
            places.reshape(*hot.shape[:-1], len(self.firsts)) - self.before
        )
        packed[..., self._unit * self.numbers :] = rows[..., self._unit * self.codec.numbers :]
        return packed

    def unpack(self, packed: NDArray[Any], rows: NDArray[Any]) -> None:
        """Write packed rows `[..., dim]` as rows `[..., codec.dim]`."""
        rows[...] = 0
        kept, numbers = self._numbers_of(packed), self.codec.numbers_of(rows)
        numbers[..., self.plain] = kept[..., : len(self.plain)]
        places = kept[..., len(self.plain) :].astype(np.int64) + self.firsts
        np.put_along_axis(numbers, places, 1.0, -1)
        rows[..., self._unit * self.codec.numbers :] = packed[..., self._unit * self.numbers :]

    @property
    def _unit(self) -> int:
        """Columns of a number: the bytes of one, where there are images."""
        return FLOAT.itemsize if self.codec.images else 1

    def _numbers_of(self, packed: NDArray[Any]) -> NDArray[np.float32]:
        """A view of the numbers in packed rows."""
        numbers: NDArray[np.float32] = packed[..., : self._unit * self.numbers].view(FLOAT)
        return numbers
