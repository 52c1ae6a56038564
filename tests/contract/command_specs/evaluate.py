"""`rlox evaluate`: it evaluates an existing run and writes a file into it."""

from __future__ import annotations

from rlox_cli.commands.evaluate import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("run=RUN", "episodes=3"),
    busy="rlox.training.evaluate:Evaluator.__call__",
    unwritable=(((), "RUN/eval"), (("video=true",), "RUN/videos")),
    least=("run=nowhere",),
    conflicts=(
        ((), "give run=RUN"),
        (("run=nowhere",), "nowhere"),
        (("run=nowhere", "episode=3"), "'episodes'"),
        (("rn=nowhere",), "'run'"),
        (("run=nowhere", "seed=1,2"), "rlox evaluate … once for seed=1,2"),
        (("run=nowhere", "method=fqe"), "name a dataset"),
        (("run=nowhere", "buffer.path=data"), "give method=fqe"),
        (("run=nowhere", "method=fqe", "buffer.path=data", "episodes=3"), "leave episodes out"),
        (("-m", "run=a,b"), "call it once for each"),
    ),
)
