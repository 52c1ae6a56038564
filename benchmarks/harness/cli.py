"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import machine, peers
from harness.agreement import DisagreementError
from harness.case import Case
from harness.gate import failure_messages
from harness.measure import measure_case
from harness.original import CACHE, Original, OriginalError, find_python, install
from harness.plots import write_plots
from harness.programs import ProgramError
from harness.record import CaseRecord, Report
from harness.table import render, row_cells
from harness.threads import SINGLE_THREAD_ENV, ensure_single_threaded
from harness.timing import Protocol
from rlox_cli.bench.intervals import RESAMPLES

RESULTS = Path(__file__).resolve().parents[1] / "results"
FULL = Protocol(repeats=21, min_seconds=0.01)
QUICK = Protocol(repeats=7, min_seconds=0.002)
EXIT_PASSED, EXIT_MISSED, EXIT_UNUSABLE = 0, 1, 2


@dataclass(frozen=True)
class Context:
    """The objects that a row needs to make its cases."""

    original: Original
    is_quick: bool


CaseFactory = Callable[[Context], Iterable[Case]]


def parse(argv: Sequence[str] | None, rows: Mapping[str, CaseFactory], about: str) -> argparse.Namespace:
    """Parse the options of one benchmark."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rows", default=",".join(rows), help="rows to measure, comma-separated (default %(default)s)")
    add("--quick", action="store_true", help="fewer and shorter samples, for trying things out")
    add("--goals", action="store_true", help="only the cases that have a goal")
    add("--repeats", type=int, help="number of rounds, at least 7")
    add("--allow-missing", action="store_true", help="leave out peers that are not installed")
    add("--original", metavar="PYTHON", help="interpreter of an environment with rlox 1.2.0")
    add("--install-original", action="store_true", help="make an environment with rlox 1.2.0")
    add("--gate", action="store_true", help="exit 1 if a goal is missed or a peer is faster")
    add("--out", type=Path, help="folder for the results")
    args = parser.parse_args(argv)
    args.rows = args.rows.split(",")
    unknown = [name for name in args.rows if name not in rows]
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(rows)}")
    if args.repeats is not None and args.repeats < QUICK.repeats:
        parser.error(f"--repeats {args.repeats}: a median with an interval needs at least 7")
    return args


def run(rows: Mapping[str, CaseFactory], name: str, about: str, argv: Sequence[str] | None = None) -> int:
    """Measure the chosen rows; write `name`.json, .md and plots; return the exit status."""
    args = parse(argv, rows, about)
    ensure_single_threaded()
    try:
        python = install() if args.install_original else find_python(args.original)
        with closing(Original(python)) as original:
            report = measure(args, rows, name, original)
    except (peers.MissingPeersError, OriginalError, ProgramError, DisagreementError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    is_complete = list(rows) == args.rows and not args.quick and not args.goals
    write(report, args.out or (RESULTS if is_complete else CACHE / "results"))
    missed_goals = failure_messages(report)
    for sentence in missed_goals:
        print(f"MISSED  {sentence}")
    return EXIT_MISSED if missed_goals and args.gate else EXIT_PASSED


def measure(
    args: argparse.Namespace, rows: Mapping[str, CaseFactory], name: str, original: Original
) -> Report:
    """Time every case of the chosen rows and print each when it is done."""
    import torch

    torch.set_num_threads(1)
    context = Context(original, args.quick)
    cases = [case for row in args.rows for case in rows[row](context)]
    if args.goals:
        cases = [case for case in cases if any(system.goals for system in case.ours)]
    absent = peers.missing_packages(
        cases, lambda p: original.python is not None if p == "original" else peers.is_importable(p)
    )
    if "rlox" in absent or (absent and not args.allow_missing):
        raise peers.MissingPeersError(peers.explain_missing(absent))
    protocol = QUICK if args.quick else FULL
    protocol = Protocol(args.repeats or protocol.repeats, protocol.min_seconds)
    date, host = machine.utc_now(), machine.describe_machine()
    records = []
    for number, case in enumerate(cases, 1):
        records.append(measure_case(case, protocol, absent))
        announce(f"[{number}/{len(cases)}]", records[-1])
    has_original = "original" not in absent and any(
        system.package == "original" for case in cases for system in case.systems
    )
    return Report(
        benchmark=name,
        date=date,
        quick=args.quick,
        commit=machine.describe_commit(),
        machine=host,
        versions=machine.installed_versions(original.ask(do="hello")["rlox"] if has_original else None),
        threads={**SINGLE_THREAD_ENV, "torch": "1"},
        protocol={**asdict(protocol), "resamples": RESAMPLES},
        cases=tuple(records),
    )


def announce(progress: str, record: CaseRecord) -> None:
    """Print a line for each of rlox's systems of a case."""
    names = [system.name for system in record.systems if not system.ours]
    for our_system in (system for system in record.systems if system.ours):
        size, system, time, *others, ratio, goal, outcome = row_cells(record, our_system, names)
        peer_times = ", ".join(f"{n} {t}" for n, t in zip(names, others, strict=True))
        goal_text = "" if goal == "-" else f", goal {goal}"
        print(f"{progress} {record.row} {record.work}, {size}: {system} {time}; {peer_times}")
        print(f"{'':{len(progress)}} {ratio}{goal_text} {outcome}", flush=True)


def write(report: Report, folder: Path) -> None:
    """Write the JSON, the table and the plots."""
    report.write(folder / f"{report.benchmark}.json")
    (folder / f"{report.benchmark}.md").write_text(render(report), encoding="utf-8")
    write_plots(report, folder / "plots")
    print(f"wrote {folder / report.benchmark}.json, .md and {folder / 'plots'}")
