"""The suites of `rlox bench`: their cases, and the yardstick of each case."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import bench_buffer_ops
import bench_e2e_rollout
import bench_env_stepping
import bench_gae
import bench_llm_ops
import bench_training

from harness.case import Case, System
from harness.cli import CaseFactory, Context
from harness.steps import steps

ROWS: dict[str, CaseFactory] = {
    **bench_gae.ROWS,
    **bench_buffer_ops.ROWS,
    **bench_env_stepping.ROWS,
    **bench_llm_ops.ROWS,
    **bench_e2e_rollout.ROWS,
    **bench_training.ROWS,
}
# The yardstick of a row is the work that limits it; all other rows have "arithmetic".
YARDSTICK_BY_ROW = {
    "P2": "memory",
    "P4": "calls",
    "P5": "memory",
    "P6": "gather",
    "P7": "memory",
    "P8": "gather",
    "P20": "memory",
    **dict.fromkeys(("P13", "P14", "P15", "P16", "U1"), "network"),
}
BUNDLED_PEERS = ("numpy", "gymnasium", "torch")  # peers that are installed with rlox
# Row, size, system, and another part of the work's name. The sizes fit into the private caches of a core
# where possible: beyond them, other programs on the machine make the same instructions take up to three times
# as long.
CI_ENTRIES = (
    ("P1", "2,048", "rlox", ""),
    ("P2", "256 x 64", "rlox time-major, into", ""),
    ("P2", "256 x 64", "rlox env-major", ""),
    ("P3", "2,048", "rlox", ""),
    ("P4", "10,000", "rlox", ""),
    ("P6", "256", "rlox", "obs 4"),
    ("P8", "256", "rlox", ""),
    ("P9", "256", "rlox", "CartPole-v1"),
    ("P9", "256", "rlox step_into", "Acrobot-v1"),
    ("P10", "256 x 16", "rlox", ""),
    ("P11", "1 x 8,192", "rlox", "float32"),
    ("P12", "256 x 2,048", "rlox", ""),
    ("P19", "8,192", "rlox", "exact"),
)


@dataclass(frozen=True)
class Entry:
    """One of rlox's systems for a case, the peers that are measured beside it, and its yardstick."""

    case: Case
    system: System
    yardstick: str

    @property
    def name(self) -> str:
        """The name that identifies the entry in other runs."""
        return f"{self.case.row} {self.case.work}, {self.case.size}: {self.system.name}"

    @property
    def is_counted(self) -> bool:
        """Whether its instructions are counted; torch takes minutes to load under valgrind."""
        return self.yardstick != "network"


def entries(case: Case, system_names: Iterable[str] | None = None) -> Iterator[Entry]:
    """Yield each of rlox's systems of a case, or only the named ones."""
    for our_system in case.ours:
        if system_names is None or our_system.name in system_names:
            yield Entry(case, our_system, YARDSTICK_BY_ROW.get(case.row, "arithmetic"))


def ci(context: Context) -> Iterator[Entry]:
    """Yield every kind of work once, beside peers that are installed with rlox, and single updates."""
    cases_by_row = {row: list(ROWS[row](context)) for row in dict.fromkeys(q[0] for q in CI_ENTRIES)}
    for row, size, system, work_part in CI_ENTRIES:
        case = next(c for c in cases_by_row[row] if c.size == size and work_part in c.work)
        bundled_peers = tuple(p for p in case.peers if p.package in BUNDLED_PEERS)
        yield from entries(replace(case, peers=bundled_peers), (system,))
    yield from itertools.chain.from_iterable(map(entries, steps()))


def rows(*names: str) -> Callable[[Context], Iterator[Entry]]:
    """Return a suite of whole rows."""

    def entries_of_rows(context: Context) -> Iterator[Entry]:
        for name in names:
            yield from itertools.chain.from_iterable(map(entries, ROWS[name](context)))

    return entries_of_rows


def training(context: Context) -> Iterator[Entry]:
    """Yield the training cases with goals, which are whole runs."""
    for row in bench_training.ROWS.values():
        for case in row(context):
            if any(system.goals for system in case.ours):
                yield from entries(case)


SUITES: dict[str, Callable[[Context], Iterator[Entry]]] = {
    "ci": ci,
    "primitives": rows("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P10", "P11", "P19"),
    "rollout": rows("P9", "P12", "P20"),
    "training": training,
}
