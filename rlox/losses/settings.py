"""What the settings of a loss must be."""

from __future__ import annotations

from numbers import Real
from typing import Any

from rlox.errors import ConfigError

__all__ = ["require_numbers"]


def require_numbers(**arguments: Any) -> None:
    """`ConfigError` unless each is a real number, NaN among them."""
    for name, value in arguments.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ConfigError(f"{name}={value!r}, expected a number")
