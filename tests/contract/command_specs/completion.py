"""`rlox completion`: it prints a script, or the possible next words."""

from __future__ import annotations

from rlox_cli.commands.completion import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("shell=bash",),
    busy="rlox_cli.commands.completion:_print_completion",
    unwritable=(),
    least=("shell=bash",),
    conflicts=(
        ((), "give shell=SHELL"),
        (("shell=bsh",), "did you mean 'bash'"),
        (("tcsh",), "shell=tcsh: expected one of bash, zsh, fish"),
        (("bash", "zsh"), "'zsh' is not an override"),
        (("bash", "word=train"), "'words'"),
        (("-m", "shell=bash,zsh"), "call it once for each"),
    ),
)
