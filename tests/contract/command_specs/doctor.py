"""`rlox doctor`: it checks the machine and its packages and prints a report."""

from __future__ import annotations

from rlox_cli.commands.doctor import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=(),
    busy="rlox_cli.health.doctor:examine",
    unwritable=(),
    conflicts=(
        (("run_rot=x",), "'run_root'"),
        (("-m", "run_root=a,b"), "call it once for each"),
    ),
)
