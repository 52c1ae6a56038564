"""Whether float32, which networks see, tells the numbers apart that an environment gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.check.values import Misfit

__all__ = ["Digits"]

NOISE = 1e-12  # of the largest number: a column that varies by less is constant, but for rounding
FINE = 1e-3  # of what a column varies by: differences below it are no loss


class Digits:
    """Compares each number with the last, the least and the greatest one of its column."""

    def __init__(self) -> None:
        self._parts: dict[str, _Columns] = {}

    def see(self, space: Any, value: Any, part: str = "") -> None:
        """Take an observation that fits its space."""
        if isinstance(space, spaces.Dict | spaces.Tuple):
            inner = (
                space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
            )
            for key, each in inner:
                self.see(each, value[key], f"{part}[{key!r}]")
        elif isinstance(space, spaces.Box) and not np.can_cast(space.dtype, np.float32):
            numbers = np.array(value, np.float64)
            if part in self._parts:
                self._parts[part].see(numbers)
            else:
                self._parts[part] = _Columns(numbers)

    def lost(self) -> Iterator[Misfit]:
        """The first column of each part whose numbers become equal in float32."""
        for part, columns in self._parts.items():
            if (found := columns.lost()) is not None:
                at, one, other = found
                yield Misfit(
                    "observation-digits",
                    part,
                    f"has {one!r} and {other!r} at {at}, which are equal in float32, expected numbers that "
                    "differ there: networks see float32; subtract what they have in common, or use another "
                    "unit",
                )


class _Columns:
    """What is known of the numbers in each place of an array."""

    def __init__(self, first: NDArray[np.float64]) -> None:
        self._last, self._least, self._most = first, first.copy(), first.copy()
        # of the two numbers that differ most and are equal in float32
        self._gap = np.zeros_like(first)
        self._pair = np.stack([first, first])

    def see(self, now: NDArray[np.float64]) -> None:
        for other in (self._last, self._least, self._most):
            gap = np.where(_single(now) == _single(other), np.abs(now - other), 0.0)
            wider = gap > self._gap
            self._gap[wider] = gap[wider]
            self._pair[:, wider] = other[wider], now[wider]
        self._last = now
        self._least, self._most = np.minimum(self._least, now), np.maximum(self._most, now)

    def lost(self) -> tuple[list[int], float, float] | None:
        """The first place where float32 loses differences that count, and two numbers there."""
        spread = self._most - self._least
        size = np.maximum(np.abs(self._most), np.abs(self._least))
        found = np.argwhere((spread > NOISE * size) & (self._gap > FINE * spread))
        if not len(found):
            return None
        at = tuple(int(i) for i in found[0])
        one, other = (float(numbers[at]) for numbers in self._pair)
        return list(at), one, other


def _single(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond its range all are infinite, and equal
        return numbers.astype(np.float32)
