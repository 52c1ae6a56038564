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
from tables import LAST, Runs, Whole, cell, estimate, finals, markdown, publish, trained, versions

HEAD = (
    "env", "algorithm", "steps", "seeds", "final policy, IQM [95% CI]",
    f"last {LAST} training episodes", "final policy, normalised",
)  # fmt: skip
# Algorithms can be held against one another where all of them have been: actions are choices, or vectors.
GROUPS = {
    "choices": (("CartPole-v1", "Acrobot-v1"), ("PPO", "A2C", "DQN")),
    "vectors": (("Pendulum-v1",), ("PPO", "SAC", "TD3")),
}
Table = dict[str, Any]


def write(campaign: Campaign) -> None:
    """expected.json, table.md and the figures, of the legs that are complete."""
    legs = campaign.complete()
    if not legs:
        return
    document = summarize(legs)
    expected = json.dumps(described(legs) | document, indent=1)
    (campaign.folder / "expected.json").write_text(expected + "\n")
    publish(campaign.folder, render(document))
    lines: dict[str, dict[str, figures.Line]] = {}
    for leg in legs:
        algo, env = named(leg)
        lines.setdefault(env, {})[algo] = figures.Line(leg.steps, leg.runs["rlox"])
    figures.curves(campaign.folder / "learning_curves.png", lines)
    groups = {" and ".join(tasks): of for tasks, of in grouped(legs).values()}
    if groups:
        aggregates.draw(campaign.folder, groups)


def described(legs: Sequence[Whole]) -> dict[str, Any]:
    """What the runs were made with, and what normalises their scores."""
    scales = {
        env: {"random": of.random, "reference": of.reference, "source": of.source}
        for env, of in SCALES.items()
    }
    return {"schema_version": 1, **versions(legs), "normalisation": scales}


def summarize(legs: Sequence[Whole]) -> dict[str, Any]:
    """Each leg's scores, and what each group of tasks comes to."""
    found = {leg.name: of_leg(leg) for leg in legs}
    groups = {
        name: {"tasks": list(tasks), "systems": aggregates.summarize(of)}
        for name, (tasks, of) in grouped(legs).items()
    }
    return {**found, "aggregates": groups}


def of_leg(leg: Whole) -> Table:
    """Scores of the final policies, of the end of training, and the first on the common scale."""
    algo, env = named(leg)
    scores = finals(leg.runs)
    normal = {system: SCALES[env](of) for system, of in scores.items()}
    return {
        "algo": algo.lower(),
        "env": env,
        "total_steps": leg.steps,
        "seeds": len(scores["rlox"]),
        **estimate(scores)[0],
        "training": estimate(trained(leg.runs))[0],
        "normalised": estimate(normal)[0],
    }


def grouped(legs: Sequence[Whole]) -> dict[str, tuple[tuple[str, ...], aggregates.Systems]]:
    """Normalised scores `[seeds, tasks]` by algorithm, of the groups that are complete."""
    runs: dict[tuple[str, str], Runs] = {named(leg): leg.runs for leg in legs}
    found = {}
    for name, (tasks, algos) in GROUPS.items():
        if all((algo, env) in runs for algo in algos for env in tasks):
            found[name] = tasks, {algo: _matrix(runs, algo, tasks) for algo in algos}
    return found


def _matrix(runs: Mapping[tuple[str, str], Runs], algo: str, tasks: Sequence[str]) -> NDArray[Any]:
    return np.stack([SCALES[env](finals(runs[algo, env])["rlox"]) for env in tasks], axis=1)


def named(leg: Whole) -> tuple[str, str]:
    """Algorithm and environment of a leg of the suite."""
    algo, _, env = leg.name.partition("_")
    return algo, env


def render(document: Mapping[str, Any]) -> str:
    """Both tables."""
    tables = [markdown([HEAD, *_rows(document)])]
    if document["aggregates"]:
        tables.append(aggregates.render(document["aggregates"]))
    return "\n".join(tables)


def _rows(document: Mapping[str, Table]) -> Iterator[Sequence[str]]:
    last = ""
    for of in (of for of in document.values() if "algo" in of):
        env = of["env"]
        about = ["" if env == last else env, of["algo"].upper(), f"{of['total_steps']:,}"]
        beside = [cell(of["training"]["rlox"]), cell(of["normalised"]["rlox"], 3)]
        yield [*about, str(of["seeds"]), cell(of["rlox"]), *beside]
        last = env
