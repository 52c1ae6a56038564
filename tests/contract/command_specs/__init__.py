"""One spec per command: what the contract tests need to know of it.

`tests/contract/command_specs/<name>.py` has `SPEC`; a new command is tested by having one, and
`test_commands.py` says which are missing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlox_cli.command import Command


@dataclass(frozen=True)
class CommandSpec:
    """A small use of a command, and how it goes wrong."""

    command: Command
    # Arguments with which it does its work; RUN in them is a run folder, given where they name it.
    works: tuple[str, ...]
    # The function that is called while it works, as `module:Class.method`: a signal comes there.
    busy: str
    # Arguments beside `works`, and a folder (of files) in the way: what it writes cannot be written.
    unwritable: tuple[tuple[tuple[str, ...], str], ...]
    # What has to be given in any case.
    least: tuple[str, ...] = ()
    # Contradictions and the like, which no single key shows, and what the message must have.
    conflicts: tuple[tuple[tuple[str, ...], str], ...] = ()
    # The command whose wrong keys are tried, where this one takes the very same.
    same_keys_as: str | None = None

    def given(self, run: Path | None, *more: str) -> list[str]:
        """`works` with the folder in it, and more arguments."""
        return [arg.replace("RUN", str(run)) for arg in (*self.works, *more)]

    @property
    def needs_run(self) -> bool:
        """Whether it works on a run that is there before."""
        return any("RUN" in arg for arg in self.works)


SPECS: dict[str, CommandSpec] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").SPEC
    for module in pkgutil.iter_modules(__path__)
}


def keyed() -> Sequence[CommandSpec]:
    """The specs whose keys no other spec stands for."""
    return [spec for spec in SPECS.values() if spec.same_keys_as is None]
