"""`rlox sync`: it sends the missing rows of an existing run to its loggers."""

from __future__ import annotations

from rlox_cli.commands.sync import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("run=RUN",),
    busy="rlox_cli.runs.syncing:sync_run",
    unwritable=(),
    least=("run=nowhere",),
    conflicts=(
        ((), "give run=RUN"),
        (("run=nowhere",), "config.yaml is missing"),
        (("run=nowhere", "timeut=3"), "'timeout'"),
        (("nowhere", "run=elsewhere"), "both name a run"),
        (("nowhere", "wandb.mode=on"), "online"),
        (("-m", "run=a,b"), "call it once for each"),
    ),
)
