"""Report which systems solve a task: a row for each, with the difference to the first of its leg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tables import (
    LAST_EPISODES,
    CompleteLeg,
    cell,
    difference,
    estimate,
    final_scores,
    markdown,
    training_returns,
)

HEAD = (
    "task", "solved from", "system", "steps", "seeds", "final policy, IQM [95% CI]", "seeds that solve it",
    f"last {LAST_EPISODES} training episodes", "difference to the first [95% CI]", "of training",
)  # fmt: skip


def summarize(leg: CompleteLeg) -> dict[str, Any]:
    """Return each system's scores, the number of seeds that solve the task, and its difference to the first.

    The final policies decide; the last episodes of training are reported as well.
    """
    assert leg.solved is not None
    scores = final_scores(leg.runs)
    estimates, draws = estimate(scores)
    training, training_draws = estimate(training_returns(leg.runs))
    first, *others = scores
    for system, system_estimate in estimates.items():
        system_estimate["solving_seeds"] = int((scores[system] >= leg.solved).sum())
        system_estimate["training"] = training[system]
    for other in others:
        estimates[other]["difference"] = difference(estimates, draws, other, first)
        training_difference = difference(training, training_draws, other, first)
        estimates[other]["training"]["difference"] = training_difference
    seeds = len(scores[first])
    return {
        "total_steps": leg.steps, "seeds": seeds, "solved_from": leg.solved, "systems": estimates,
    }  # fmt: skip


def render(tables: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return a row for each system of each leg."""
    rows: list[Sequence[str]] = [HEAD]
    for task, table in tables:
        threshold = table["solved_from"]
        digits = 1 if abs(threshold) >= 100 else 2
        leg_cells = [task, f"{threshold:g}"]
        for system, system_estimate in table["systems"].items():
            difference_cells = [
                cell(score["difference"], digits) if "difference" in score else ""
                for score in (system_estimate, system_estimate["training"])
            ]
            solving = f"{system_estimate['solving_seeds']} of {table['seeds']}"
            system_cells = [
                system,
                f"{table['total_steps']:,}",
                str(table["seeds"]),
                cell(system_estimate, digits),
            ]
            rows.append(
                [
                    *leg_cells,
                    *system_cells,
                    solving,
                    cell(system_estimate["training"], digits),
                    *difference_cells,
                ]
            )
            leg_cells = ["", ""]
    return markdown(rows)
