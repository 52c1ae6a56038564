"""Which systems solve a task: a line of the table for each, beside the first of its leg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tables import LAST, Whole, cell, difference, estimate, finals, markdown, trained

HEAD = (
    "task", "solved from", "system", "steps", "seeds", "final policy, IQM [95% CI]", "seeds that solve it",
    f"last {LAST} training episodes", "difference to the first [95% CI]", "of training",
)  # fmt: skip


def summarize(leg: Whole) -> dict[str, Any]:
    """Each system's scores, how many seeds reach what solves the task, and its difference to the first.

    The final policies decide; the last episodes of training stand beside them.
    """
    assert leg.solved is not None
    scores = finals(leg.runs)
    found, draws = estimate(scores)
    training, of_training = estimate(trained(leg.runs))
    first, *others = scores
    for system, of in found.items():
        of["solving_seeds"] = int((scores[system] >= leg.solved).sum())
        of["training"] = training[system]
    for other in others:
        found[other]["difference"] = difference(found, draws, other, first)
        apart = difference(training, of_training, other, first)
        found[other]["training"]["difference"] = apart
    seeds = len(scores[first])
    return {
        "total_steps": leg.steps, "seeds": seeds, "solved_from": leg.solved, "systems": found,
    }  # fmt: skip


def render(tables: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """A line for each system of each leg."""
    rows: list[Sequence[str]] = [HEAD]
    for task, table in tables:
        threshold = table["solved_from"]
        digits = 1 if abs(threshold) >= 100 else 2
        leg = [task, f"{threshold:g}"]
        for system, of in table["systems"].items():
            beside = [
                cell(score["difference"], digits) if "difference" in score else ""
                for score in (of, of["training"])
            ]
            solving = f"{of['solving_seeds']} of {table['seeds']}"
            about = [system, f"{table['total_steps']:,}", str(table["seeds"]), cell(of, digits)]
            rows.append([*leg, *about, solving, cell(of["training"], digits), *beside])
            leg = ["", ""]
    return markdown(rows)
