"""`rlox check`: it plays an environment and prints the findings."""

from __future__ import annotations

from rlox_cli.commands.check import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("env=FrozenLake-v1", "steps=20"),
    busy="rlox.envs.check.subprocess_check:check_in_subprocess",
    unwritable=(),
    conflicts=(
        (("env=CartPoel-v1",), "CartPole-v1"),
        (("env=null",), "name one environment"),
        (("CartPole-v1", "env.id=Acrobot-v1"), "both name the environment"),
        (("stpes=3",), "'steps'"),
        (("env.kwargs.gravity=3", "steps=1"), "env.kwargs do not fit"),
        (("env.wrappers=[flaten_observation]",), "flatten_observation"),
        (("-m", "env=CartPole-v1,Acrobot-v1"), "call it once for each"),
    ),
)
