"""Measure the systems of one case and make its record."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from contextlib import ExitStack

from harness.agreement import check_agreement
from harness.case import Case, Runner, System
from harness.record import CaseRecord, Comparison, GoalVerdict, SystemRecord
from harness.timing import Protocol, Samples, interleave
from rlox_cli.bench.intervals import ratio_of_medians


def measure_case(case: Case, protocol: Protocol, absent: Collection[str] = ()) -> CaseRecord:
    """Prepare the systems whose package is not in `absent`, compare their results, and time them."""
    present = [system for system in case.systems if system.package not in absent]
    with ExitStack() as stack:
        runners: dict[str, Runner] = {}
        for system in present:
            runners[system.name] = system.prepare()
            stack.callback(runners[system.name].close)
        results = {s.name: runners[s.name].result() for s in present if s.is_compared}
        check_agreement(case.ours[0].name, results, case.tolerance, f"{case.row} {case.work}, {case.size}")
        samples = interleave(runners, protocol)
    system_records = tuple(describe(s, s in case.ours, samples.get(s.name)) for s in case.systems)
    return evaluate(case, system_records)


def describe(system: System, is_ours: bool, samples: Samples | None) -> SystemRecord:
    """Return a system's times, scaled to the whole case."""
    seconds = tuple(s * system.scale for s in samples.seconds) if samples else ()
    return SystemRecord(
        name=system.name,
        package=system.package,
        ours=is_ours,
        seconds=seconds,
        loops=samples.loops if samples else 0,
        scale=system.scale,
        median=statistics.median(seconds) if seconds else None,
        note=system.note,
    )


def evaluate(case: Case, system_records: tuple[SystemRecord, ...]) -> CaseRecord:
    """Return the ratios to every measured peer, and the verdicts on the goals."""
    times = {m.name: m.seconds for m in system_records if m.seconds}
    peers = [m for m in system_records if not m.ours and m.median is not None]
    bounds = {system.name for system in case.systems if system.is_bound}
    rivals = [m for m in peers if m.name not in bounds]
    fastest = min(rivals, key=lambda m: m.median or 0.0).name if rivals else None
    comparisons = []
    for our_system in case.ours:
        for peer in peers:
            ratio = ratio_of_medians(times[our_system.name], times[peer.name])
            comparisons.append(
                Comparison(
                    our_system.name,
                    peer.name,
                    ratio.value,
                    ratio.low,
                    ratio.high,
                    peer.name == fastest,
                )
            )
    return CaseRecord(
        row=case.row,
        work=case.work,
        size=case.size,
        elements=case.elements,
        systems=system_records,
        comparisons=tuple(comparisons),
        verdicts=tuple(v for our_system in case.ours for v in judge(our_system, comparisons)),
    )


def judge(our_system: System, comparisons: list[Comparison]) -> list[GoalVerdict]:
    """Return a verdict for each goal of a system, and one on whether a peer is faster.

    A peer is faster only with 95% confidence, so a tie passes.
    """
    ratios = {c.peer: c for c in comparisons if c.ours == our_system.name}
    fastest = next((c for c in ratios.values() if c.fastest), None)
    verdicts = []
    for goal in our_system.goals:
        comparison = fastest if goal.against is None else ratios.get(goal.against)
        if comparison is not None:
            is_met = comparison.ratio >= goal.minimum
            verdicts.append(
                GoalVerdict(
                    our_system.name,
                    comparison.peer,
                    goal.minimum,
                    comparison.ratio,
                    is_met,
                    goal=True,
                )
            )
    if our_system.is_gated and fastest is not None:
        is_met = fastest.high >= 1.0
        verdicts.append(GoalVerdict(our_system.name, fastest.peer, 1.0, fastest.ratio, is_met, goal=False))
    return verdicts
