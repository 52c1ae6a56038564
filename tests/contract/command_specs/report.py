"""`rlox report`: it reads the logs of runs and writes a page."""

from __future__ import annotations

from rlox_cli.commands.report import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("runs=[RUN]", "formats=[]"),
    busy="rlox_cli.report.build:report",
    unwritable=(((), "RUN/report"), (("out=file/x",), "file")),
    least=("runs=[nowhere]",),
    conflicts=(
        ((), "give runs=RUNS"),
        (("nowhere",), "nowhere: no such folder or file"),
        (("runs=[]",), "rlox report RUN"),
        (("runs=[nowhere]", "formats=[gif]"), "png, pdf, svg"),
        (("runs=[nowhere]", "ranges={CartPole-v1: [500,0]}"), "[LOW, HIGH]"),
        (("runs=[nowhere]", "outt=x"), "'out'"),
        (("runs=[nowhere]", "expected=nothing.json"), "nothing.json"),
        (("-m", "runs=[a]", "seed=1,2"), "call it once for each"),
    ),
)
