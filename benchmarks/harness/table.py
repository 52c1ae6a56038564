"""Render a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from harness.record import CaseRecord, Comparison, GoalVerdict, Report, SystemRecord
from rlox_cli.bench.table import duration


def render(report: Report) -> str:
    """Render the whole page: the machine and versions, then one table for each kind of work."""
    works: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in report.cases:
        works.setdefault((case.row, case.work), []).append(case)
    parts = [heading(report)]
    parts += [section(row, work, cases) for (row, work), cases in works.items()]
    return "\n\n".join(parts) + "\n"


def heading(report: Report) -> str:
    """Return the machine, the versions and an explanation of the tables."""
    commit = report.commit.get("id") or "unknown commit"
    dirty_text = " with local changes" if report.commit.get("changed") else ""
    versions = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    threads = ", ".join(f"{name}={value}" for name, value in report.threads.items())
    min_seconds = report.protocol["min_seconds"]
    samples = f"samples of {duration(min_seconds)} or longer" if min_seconds else "each sample one run"
    cpu = ", ".join(str(report.machine[k]) for k in ("cpu", "blas") if k in report.machine)
    return "\n".join(
        [
            f"# Measured: {report.benchmark}{' (quick)' if report.quick else ''}",
            "",
            f"{report.date}, commit {commit[:12]}{dirty_text}; {cpu}, "
            f"{report.machine['cores']} cores, load {report.machine['load']} at the start.",
            f"Versions: {versions}.",
            f"Threads: {threads}.",
            "",
            f"Medians of {report.protocol['repeats']} rounds in which the systems took turns, {samples}. "
            "A ratio is the peer's median over ours, so more is better, with a 95% bootstrap interval over "
            "the rounds "
            f"({report.protocol['resamples']:,} resamples). `no`: the peer does not offer the work.",
        ]
    )


def section(row: str, work: str, cases: list[CaseRecord]) -> str:
    """Return one table with a line for each size and each of rlox's systems."""
    peers = list(dict.fromkeys(s.name for c in cases for s in c.systems if not s.ours))
    head = ["size", "system", "time", *peers, "ratio to the fastest peer", "goal", ""]
    lines = [f"## {row}: {work}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [
        "| " + " | ".join(row_cells(case, our_system, peers)) + " |"
        for case in cases
        for our_system in case.systems
        if our_system.ours
    ]
    notes = dict.fromkeys(f"- {s.name}: {s.note}" for c in cases for s in c.systems if s.note)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def row_cells(case: CaseRecord, our_system: SystemRecord, peers: list[str]) -> list[str]:
    """Return the cells of one of rlox's systems in one size."""
    by_name = {s.name: s for s in case.systems}
    fastest = next((c for c in case.comparisons if c.ours == our_system.name and c.fastest), None)
    verdicts = [v for v in case.verdicts if v.ours == our_system.name]
    goals = [v for v in verdicts if v.goal]
    return [
        case.size,
        our_system.name,
        time_cell(our_system),
        *(time_cell(by_name.get(peer)) for peer in peers),
        ratio_cell(fastest),
        "; ".join(goal_text(v) for v in goals) or "-",
        outcome(verdicts),
    ]


def time_cell(system_record: SystemRecord | None) -> str:
    """Return a median, or the reason why there is none."""
    if system_record is None:
        return "no"
    return "not installed" if system_record.median is None else duration(system_record.median)


def ratio_cell(comparison: Comparison | None) -> str:
    """Return the ratio, its interval and the peer."""
    if comparison is None:
        return "no peer"
    return f"{comparison.ratio:.2f}x [{comparison.low:.2f}, {comparison.high:.2f}] {comparison.peer}"


def goal_text(verdict: GoalVerdict) -> str:
    """Return a goal with the measured ratio."""
    return f"{verdict.minimum:g}x {verdict.against}: {verdict.ratio:.2f}x"


def outcome(verdicts: Iterable[GoalVerdict]) -> str:
    """Return `met`, `missed` or `slower`; an empty text if there is no goal."""
    verdicts = list(verdicts)
    if any(not v.met and not v.goal for v in verdicts):
        return "slower"
    if any(not v.met for v in verdicts):
        return "missed"
    return "met" if any(v.goal for v in verdicts) else ""
