"""Decide whether a report lets a change pass."""

from __future__ import annotations

from harness.record import Report


def failure_messages(report: Report) -> list[str]:
    """Return a sentence for every missed goal and every size at which a peer is faster; ties do not count."""
    return [
        f"{case.row} {case.work}, {case.size}: {v.ours} is {v.ratio:.2f}x as fast as {v.against}, "
        + (f"the goal is {v.minimum:g}x" if v.goal else "a peer is faster")
        for case in report.cases
        for v in case.verdicts
        if not v.met
    ]
