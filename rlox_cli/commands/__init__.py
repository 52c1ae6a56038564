"""The commands of `rlox`: every file in this folder is one, and there is no other list of them."""

from __future__ import annotations

import importlib
import pkgutil

from rlox_cli.command import Command


def names() -> list[str]:
    """Every command, by name."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Command:
    """The command `name`, which is in `names()`."""
    command = importlib.import_module(f"{__name__}.{name}").COMMAND
    assert isinstance(command, Command)
    return command
