"""Check that numbers of an environment stay distinct in float32, which networks read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.check.values import Mismatch

__all__ = ["PrecisionCheck"]

CONSTANT_TOLERANCE = 1e-12  # relative to the largest number: a column that varies by less counts as constant
LOSS_TOLERANCE = 1e-3  # relative to a column's range: smaller differences do not count as a loss


class PrecisionCheck:
    """Compares each number with the last, the lowest and the highest one at its position (its column)."""

    def __init__(self) -> None:
        self._columns_by_part: dict[str, _ColumnStats] = {}

    def observe(self, space: Any, value: Any, part: str = "") -> None:
        """Record an observation that fits its space."""
        if isinstance(space, spaces.Dict | spaces.Tuple):
            subspaces = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
            for key, subspace in subspaces:
                self.observe(subspace, value[key], f"{part}[{key!r}]")
        elif isinstance(space, spaces.Box) and not np.can_cast(space.dtype, np.float32):
            numbers = np.array(value, np.float64)
            if part in self._columns_by_part:
                self._columns_by_part[part].observe(numbers)
            else:
                self._columns_by_part[part] = _ColumnStats(numbers)

    def find_losses(self) -> Iterator[Mismatch]:
        """Yield the first column of each part in which different numbers become equal in float32."""
        for part, columns in self._columns_by_part.items():
            if (loss := columns.find_loss()) is not None:
                index, first, second = loss
                yield Mismatch(
                    "observation-digits",
                    part,
                    f"has {first!r} and {second!r} at {index}, which are equal in float32, expected numbers "
                    "that differ there: networks see float32; subtract what they have in common, or use "
                    "another unit",
                )


class _ColumnStats:
    """Statistics of the numbers at each position of an array."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._last_values, self._min, self._max = values, values.copy(), values.copy()
        # the two numbers that differ most among those that are equal in float32
        self._max_gap = np.zeros_like(values)
        self._gap_pair = np.stack([values, values])

    def observe(self, values: NDArray[np.float64]) -> None:
        for reference in (self._last_values, self._min, self._max):
            gap = np.where(_as_float32(values) == _as_float32(reference), np.abs(values - reference), 0.0)
            is_wider = gap > self._max_gap
            self._max_gap[is_wider] = gap[is_wider]
            self._gap_pair[:, is_wider] = reference[is_wider], values[is_wider]
        self._last_values = values
        self._min, self._max = np.minimum(self._min, values), np.maximum(self._max, values)

    def find_loss(self) -> tuple[list[int], float, float] | None:
        """Return the first position where float32 loses relevant differences, and two numbers there."""
        spread = self._max - self._min
        magnitude = np.maximum(np.abs(self._max), np.abs(self._min))
        indices = np.argwhere(
            (spread > CONSTANT_TOLERANCE * magnitude) & (self._max_gap > LOSS_TOLERANCE * spread)
        )
        if not len(indices):
            return None
        index = tuple(int(i) for i in indices[0])
        first, second = (float(values[index]) for values in self._gap_pair)
        return list(index), first, second


def _as_float32(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # numbers beyond its range become infinite, and equal
        return numbers.astype(np.float32)
