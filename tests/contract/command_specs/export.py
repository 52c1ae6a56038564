"""`rlox export`: it writes the policy of an existing run as a file, into the run or elsewhere."""

from __future__ import annotations

from rlox_cli.commands.export import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=("run=RUN",),
    busy="rlox.export:export_policy",
    unwritable=(((), "RUN/export"), (("out=file/x",), "file")),
    least=("run=nowhere",),
    conflicts=(
        ((), "give run=RUN"),
        (("run=nowhere",), "nowhere"),
        (("nowhere", "run=nowhere"), "both name a run"),
        (("nowhere", "elsewhere"), "one run at a time"),
        (("run=nowhere", "outt=x"), "'out'"),
        (("run=nowhere", "format=pickle"), "safetensors, onnx, all"),
        (("-m", "run=a,b"), "call it once for each"),
    ),
)
