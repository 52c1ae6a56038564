"""One spec per command, with the facts that the contract tests need.

`tests/contract/command_specs/<name>.py` has `SPEC`. A spec is enough to have a new command tested;
`test_commands.py` reports commands without a spec.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlox_cli.shell.command import Command


@dataclass(frozen=True)
class CommandSpec:
    """A small example of a command, with inputs on which it fails."""

    command: Command
    # Arguments of a successful call. RUN stands for a run folder.
    works: tuple[str, ...]
    # A function that the command calls as it works, as `module:Class.method`; the test sends a signal there.
    busy: str
    # Arguments to add to `works`, and a path at which a file makes the output unwritable.
    unwritable: tuple[tuple[tuple[str, ...], str], ...]
    # Arguments that every call needs.
    least: tuple[str, ...] = ()
    # Arguments that contradict each other although each key is valid, and a text that the message contains.
    conflicts: tuple[tuple[tuple[str, ...], str], ...] = ()
    # The command that stands for this one in the tests of wrong keys, because its keys are the same.
    same_keys_as: str | None = None

    def given(self, run: Path | None, *more: str) -> list[str]:
        """Return `works` and more arguments, with the run folder in place of RUN."""
        return [arg.replace("RUN", str(run)) for arg in (*self.works, *more)]

    @property
    def needs_run(self) -> bool:
        """Whether the command works on an existing run."""
        return any("RUN" in arg for arg in self.works)


SPECS: dict[str, CommandSpec] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").SPEC
    for module in pkgutil.iter_modules(__path__)
}


def keyed() -> Sequence[CommandSpec]:
    """Return the specs of commands whose keys no other spec covers."""
    return [spec for spec in SPECS.values() if spec.same_keys_as is None]
