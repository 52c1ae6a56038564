"""Masked NumPy arrays: NumPy's own conversion would use the values behind a mask."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["MASKED_MESSAGE", "is_masked"]

# Follows the argument's name in errors; the Rust code has the same text.
MASKED_MESSAGE = (
    "some of it is masked, expected numbers; fill it, .filled(...), or leave it out, .compressed()"
)


def is_masked(value: Any) -> bool:
    """Return whether `value` is a NumPy array with masked elements; false if `numpy.ma` is not imported."""
    numpy_ma = sys.modules.get("numpy.ma")
    return numpy_ma is not None and isinstance(value, numpy_ma.MaskedArray) and numpy_ma.is_masked(value)
