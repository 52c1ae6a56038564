"""The tables and figures of rlox beside Stable-Baselines3 on all tasks together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aggregates
import figures
import numpy as np
import tables
from classic_control import ROOT, Campaign
from scales import SCALES
from suite_report import described, named
from tables import Whole, finals, markdown, publish

TITLES = {"rlox": "rlox", "sb3": "SB3"}
MEASURED = ROOT / "benchmarks" / "results" / "training.json"
SPEED_HEAD = ("training", "steps", "rlox, steps/s", "SB3, steps/s", "ratio [95% CI]")


def write(campaign: Campaign) -> None:
    """expected.json, table.md and the figures, of the legs that are complete."""
    legs = campaign.complete()
    if not legs:
        return
    document = summarize(legs, len(campaign.legs))
    expected = json.dumps(described(legs) | document, indent=1)
    (campaign.folder / "expected.json").write_text(expected + "\n")
    publish(campaign.folder, render(document))
    tables.draw(campaign.folder / "learning_curves.png", legs, across=3)
    speed = {of["algo"]: of["steps_per_second"] for of in document["speeds"]}
    bars = {algo: speed[algo] for algo in figures.COLORS if algo in speed}
    figures.speeds(campaign.folder / "steps_per_second.png", bars)
    if "aggregates" in document:
        title = f"{len(legs)} pairs of algorithm and task"
        aggregates.draw(campaign.folder, {title: matrices(legs)})


def summarize(legs: Sequence[Whole], planned: int) -> dict[str, Any]:
    """Each leg's scores, all together once every leg is there, and the speeds."""
    found: dict[str, Any] = {}
    for leg in legs:
        algo, env = named(leg)
        found[leg.name] = {"algo": algo.lower(), "env": env, **tables.summarize(leg)}
    if len(legs) == planned:
        of = aggregates.summarize(matrices(legs))
        found["aggregates"] = {"all": {"tasks": [leg.task for leg in legs], "systems": of}}
    return found | {"speeds": speeds(MEASURED)}


def matrices(legs: Sequence[Whole]) -> aggregates.Systems:
    """Normalised scores `[seeds, legs]` of both systems."""
    return {
        title: np.stack([SCALES[named(leg)[1]](finals(leg.runs)[system]) for leg in legs], axis=1)
        for system, title in TITLES.items()
    }


def speeds(path: Path) -> list[dict[str, Any]]:
    """Whole trainings as they were measured in turns: of each algorithm the first size in the record."""
    found: dict[str, dict[str, Any]] = {}
    for case in json.loads(path.read_text())["cases"]:
        algo, on, part = case["work"].partition(" on ")
        if not on or not part.endswith(": training") or algo in found:
            continue
        medians = {system["name"]: system["median"] for system in case["systems"]}
        (beside,) = (c for c in case["comparisons"] if (c["ours"], c["peer"]) == ("rlox", "SB3"))
        found[algo] = {
            "algo": algo,
            "training": case["work"].removesuffix(": training"),
            "size": case["size"],
            "steps_per_second": {
                name: case["elements"] / medians[name] for name in TITLES.values()
            },
            "ratio": {key: beside[key] for key in ("ratio", "low", "high")},
        }
    return list(found.values())


def render(document: Mapping[str, Any]) -> str:
    """The tables."""
    legs = [(f"{of['algo'].upper()}, {of['env']}", of) for of in document.values() if "algo" in of]
    texts = [tables.render(legs)]
    if "aggregates" in document:
        texts.append(aggregates.render(document["aggregates"]))
    rows: list[Sequence[str]] = [SPEED_HEAD]
    for of in document["speeds"]:
        ours, theirs = (f"{speed:,.0f}" for speed in of["steps_per_second"].values())
        ratio = "{ratio:.2f}x [{low:.2f}, {high:.2f}]".format(**of["ratio"])
        rows.append([of["training"], of["size"], ours, theirs, ratio])
    return "\n".join([*texts, markdown(rows)])
