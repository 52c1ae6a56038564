"""`rlox list`: it lists options and runs."""

from __future__ import annotations

from rlox_cli.commands.list import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("what=algo",),
    busy="rlox_cli.shell.listing:format_listing",
    unwritable=(),
    least=("what=algo",),
    conflicts=(
        ((), "give what=WHAT"),
        (("what=envs",), "did you mean 'env'"),
        (("runs", "run_root=nowhere"), "run_root=nowhere: no such folder"),
        (("algo", "contain=x"), "'contains'"),
        (("-m", "what=algo,env"), "call it once for each"),
    ),
)
