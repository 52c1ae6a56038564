"""Checks of the settings of a loss."""

from __future__ import annotations

from numbers import Real
from typing import Any

from rlox.errors import ConfigError

__all__ = ["require_numbers"]


def require_numbers(**arguments: Any) -> None:
    """Raise `ConfigError` unless each argument is a real number; NaN is accepted."""
    for name, value in arguments.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ConfigError(f"{name}={value!r}, expected a number")
