"""The commands of `rlox`: every module in this folder is one; there is no other list."""

from __future__ import annotations

import importlib
import pkgutil

from rlox_cli.shell.command import Command


def names() -> list[str]:
    """Return the names of all commands, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Command:
    """Load the command `name`, which is in `names()`."""
    command = importlib.import_module(f"{__name__}.{name}").COMMAND
    assert isinstance(command, Command)
    return command
