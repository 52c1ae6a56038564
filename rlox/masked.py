"""Masked arrays of NumPy: its own conversion takes what is behind a mask for numbers."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["MASKED", "is_masked"]

# What errors say of one, behind its name; Rust says the same.
MASKED = (
    "some of it is masked, expected numbers; fill it, .filled(...), or leave it out, .compressed()"
)


def is_masked(given: Any) -> bool:
    """Whether it is an array of NumPy with something masked; there is none before `numpy.ma` is imported."""
    masks = sys.modules.get("numpy.ma")
    return masks is not None and isinstance(given, masks.MaskedArray) and masks.is_masked(given)
