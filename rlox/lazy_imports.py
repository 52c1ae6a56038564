"""Lazy imports of a package's names, so that only code that needs torch imports it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["lazy_getattr"]


def lazy_getattr(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package; `modules` lists the names in each module."""
    module_of_name = {name: module for module, names in modules.items() for name in names}

    def load_name(name: str) -> Any:
        if name in modules:  # a module itself, as if the package had imported it
            return importlib.import_module(f"{package}.{name}")
        if name not in module_of_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of_name[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load_name
