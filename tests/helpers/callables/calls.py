"""Draws from one seed, and the common arguments of calls on buffers."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from helpers.callables.engine import Draw, Invalid, as_integer, require
from helpers.callables.schemas import map_columns

LARGEST = 2**64 - 1
MAX_SIZE = 2**28


class Quick(Draw):
    """Draws everything from one drawn seed, which is fast."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return low + int(self.rng.integers(0, high - low + 1, dtype=np.uint64))

    def unit(self) -> float:
        return float(self.one_of(0.0, 1.0, 0.99, float(self.rng.random())))

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def boolean(self) -> bool:
        return bool(self.rng.integers(2))

    def layout(self, array: Any, keep_dtype: bool = False) -> Any:
        if np.ndim(array):
            return super().layout(array, keep_dtype)
        return self.one_of(array, np.asarray(array), np.asarray(array).item())

    def flags(self, *shape: int, rate: float = 0.2) -> Any:
        kind = self.one_of(bool, float, np.float32, np.int64, np.uint8)
        return self.layout((np.asarray(self.rng.random(shape)) < rate).astype(kind), True)


def count_of(size: Any, n_batches: Any, length: int = 1) -> tuple[int, int, tuple[int, ...]]:
    """Return batch size, number of batches and leading axes."""
    size = as_integer(size, 0, LARGEST)
    batches = 1 if n_batches is None else as_integer(n_batches, 0, LARGEST)
    require(1 <= size * batches <= MAX_SIZE and size * batches * length <= MAX_SIZE)
    return size, batches, (size,) if n_batches is None else (batches, size)


def stacked(batches: list[dict[str, Any]], lead: tuple[int, ...]) -> dict[str, Any]:
    """Return one dict with the arrays of several batches."""

    def together(*parts: np.ndarray) -> np.ndarray:
        return np.concatenate(parts).reshape(lead + parts[0].shape[1:])

    return {name: map_columns(together, *(batch[name] for batch in batches)) for name in batches[0]}


def named_save(path: Any, name: Any) -> tuple[str, str]:
    """Return the folder and the name of a save."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise Invalid
    try:
        place = os.fsdecode(os.fsencode(path))
    except UnicodeEncodeError as error:
        raise Invalid from error
    require(place and "\0" not in place)
    return place, save_name(name)


def save_name(name: Any) -> str:
    require(isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name))
    return str(name)
