"""The tables and figures of several algorithms on their tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aggregates
import figures
import numpy as np
from classic_control import Campaign
from numpy.typing import NDArray
from scales import SCALES
from tables import (
    LAST_EPISODES,
    CompleteLeg,
    Runs,
    cell,
    estimate,
    final_scores,
    markdown,
    publish,
    training_returns,
    versions,
)

HEAD = (
    "env", "algorithm", "steps", "seeds", "final policy, IQM [95% CI]",
    f"last {LAST_EPISODES} training episodes", "final policy, normalised",
)  # fmt: skip
# Algorithms are compared on tasks that all of them have run: with choices, or with vectors as actions.
TASK_GROUPS = {
    "choices": (("CartPole-v1", "Acrobot-v1"), ("PPO", "A2C", "DQN")),
    "vectors": (("Pendulum-v1",), ("PPO", "SAC", "TD3")),
}
Table = dict[str, Any]


def write(campaign: Campaign) -> None:
    """Write expected.json, table.md and the figures of the complete legs."""
    legs = campaign.complete_legs()
    if not legs:
        return
    document = summarize(legs)
    expected = json.dumps(report_metadata(legs) | document, indent=1)
    (campaign.folder / "expected.json").write_text(expected + "\n")
    publish(campaign.folder, render(document))
    lines: dict[str, dict[str, figures.Line]] = {}
    for leg in legs:
        algo, env = algo_and_env(leg)
        lines.setdefault(env, {})[algo] = figures.Line(leg.steps, leg.runs["rlox"])
    figures.draw_curves(campaign.folder / "learning_curves.png", lines)
    groups = {" and ".join(tasks): systems for tasks, systems in score_groups(legs).values()}
    if groups:
        aggregates.draw(campaign.folder, groups)


def report_metadata(legs: Sequence[CompleteLeg]) -> dict[str, Any]:
    """Return the versions that made the runs, and the scales that normalise their scores."""
    scales = {
        env: {"random": scale.random, "reference": scale.reference, "source": scale.source}
        for env, scale in SCALES.items()
    }
    return {"schema_version": 1, **versions(legs), "normalisation": scales}


def summarize(legs: Sequence[CompleteLeg]) -> dict[str, Any]:
    """Return each leg's scores, and the aggregates of each group of tasks."""
    leg_tables = {leg.name: leg_table(leg) for leg in legs}
    groups = {
        name: {"tasks": list(tasks), "systems": aggregates.summarize(systems)}
        for name, (tasks, systems) in score_groups(legs).items()
    }
    return {**leg_tables, "aggregates": groups}


def leg_table(leg: CompleteLeg) -> Table:
    """Return the scores of the final policies and of the end of training, and normalised final scores."""
    algo, env = algo_and_env(leg)
    scores = final_scores(leg.runs)
    normalized = {system: SCALES[env](system_scores) for system, system_scores in scores.items()}
    return {
        "algo": algo.lower(),
        "env": env,
        "total_steps": leg.steps,
        "seeds": len(scores["rlox"]),
        **estimate(scores)[0],
        "training": estimate(training_returns(leg.runs))[0],
        "normalised": estimate(normalized)[0],
    }


def score_groups(
    legs: Sequence[CompleteLeg],
) -> dict[str, tuple[tuple[str, ...], aggregates.Systems]]:
    """Return the normalised scores `[seeds, tasks]` by algorithm, of the complete groups."""
    runs: dict[tuple[str, str], Runs] = {algo_and_env(leg): leg.runs for leg in legs}
    groups = {}
    for name, (tasks, algos) in TASK_GROUPS.items():
        if all((algo, env) in runs for algo in algos for env in tasks):
            groups[name] = tasks, {algo: _score_matrix(runs, algo, tasks) for algo in algos}
    return groups


def _score_matrix(runs: Mapping[tuple[str, str], Runs], algo: str, tasks: Sequence[str]) -> NDArray[Any]:
    return np.stack([SCALES[env](final_scores(runs[algo, env])["rlox"]) for env in tasks], axis=1)


def algo_and_env(leg: CompleteLeg) -> tuple[str, str]:
    """Return the algorithm and the environment of a leg of the suite."""
    algo, _, env = leg.name.partition("_")
    return algo, env


def render(document: Mapping[str, Any]) -> str:
    """Return both tables."""
    tables = [markdown([HEAD, *_rows(document)])]
    if document["aggregates"]:
        tables.append(aggregates.render(document["aggregates"]))
    return "\n".join(tables)


def _rows(document: Mapping[str, Table]) -> Iterator[Sequence[str]]:
    last = ""
    for table in (table for table in document.values() if "algo" in table):
        env = table["env"]
        leg_cells = ["" if env == last else env, table["algo"].upper(), f"{table['total_steps']:,}"]
        extra_cells = [cell(table["training"]["rlox"]), cell(table["normalised"]["rlox"], 3)]
        yield [*leg_cells, str(table["seeds"]), cell(table["rlox"]), *extra_cells]
        last = env
