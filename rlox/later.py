"""Names of a package that its modules bring at first use, so that torch is imported by what needs it only."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["later"]


def later(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` (PEP 562) of a package: the names that each of its modules has, by module."""
    home = {name: module for module, names in homes.items() for name in names}

    def found(name: str) -> Any:
        if name in homes:  # a module itself, as if it had been imported with the package
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
