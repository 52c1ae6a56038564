"""Masked arrays of NumPy: its own conversion takes what is behind a mask for numbers."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["MASKED_MESSAGE", "is_masked"]

# What errors say of one, behind its name; Rust says the same.
MASKED_MESSAGE = (
    "some of it is masked, expected numbers; fill it, .filled(...), or leave it out, .compressed()"
)


def is_masked(value: Any) -> bool:
    """Whether it is an array of NumPy with something masked; there is none before `numpy.ma` is imported."""
    numpy_ma = sys.modules.get("numpy.ma")
    return numpy_ma is not None and isinstance(value, numpy_ma.MaskedArray) and numpy_ma.is_masked(value)
