"""The programs of calls, and the public names that they use and compare."""

from __future__ import annotations

from helpers.callables.buffer_kinds import PrioritizedProgram, SequenceProgram, TieredProgram
from helpers.callables.buffers import Program
from helpers.callables.dataset_program import DatasetProgram

PROGRAMS: tuple[type[Program], ...] = (
    Program, SequenceProgram, PrioritizedProgram, TieredProgram, DatasetProgram,
)  # fmt: skip
COVERED = {"prune_replay", "HindsightConfig", "HindsightConfig.strategy", "HindsightConfig.ratio"}
for program in PROGRAMS:
    name = program.kind.__name__
    COVERED |= {name, *(f"{name}.{member}" for member in (*program.steps, *program.facts_read))}
    if "restore" in program.steps:
        COVERED.add(f"{name}.state")
