"""`rlox bench`: it measures a case in a separate process and writes a file."""

from __future__ import annotations

from rlox_cli.commands.bench import COMMAND

from . import CommandSpec

SPEC = CommandSpec(
    command=COMMAND,
    works=(
        "only=V-trace",
        "suite.passes=1",
        "suite.rounds=2",
        "suite.sample_ms=0.1",
        "instructions=false",
    ),
    busy="rlox_cli.bench.record:CaseMeasurements.add",
    unwritable=((("out=file/bench.json",), "file"), (("summary=file/table.md",), "file")),
    conflicts=(
        (("suite=rolout",), "did you mean 'rollout'"),
        (("suite=training", "only=nothing"), "has that in its name"),
        (("baseline=nowhere.json",), "nowhere.json"),
        (("suite.round=3",), "'suite.rounds'"),
        (("-m", "suite=ci,rollout"), "call it once for each"),
    ),
)
