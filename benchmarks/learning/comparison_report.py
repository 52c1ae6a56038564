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
from suite_report import algo_and_env, report_metadata
from tables import CompleteLeg, final_scores, markdown, publish

TITLES = {"rlox": "rlox", "sb3": "SB3"}
TRAINING_RESULTS = ROOT / "benchmarks" / "results" / "training.json"
SPEED_HEAD = ("training", "steps", "rlox, steps/s", "SB3, steps/s", "ratio [95% CI]")


def write(campaign: Campaign) -> None:
    """Write expected.json, table.md and the figures of the complete legs."""
    legs = campaign.complete_legs()
    if not legs:
        return
    document = summarize(legs, len(campaign.legs))
    expected = json.dumps(report_metadata(legs) | document, indent=1)
    (campaign.folder / "expected.json").write_text(expected + "\n")
    publish(campaign.folder, render(document))
    tables.draw(campaign.folder / "learning_curves.png", legs, columns=3)
    speed = {speed_entry["algo"]: speed_entry["steps_per_second"] for speed_entry in document["speeds"]}
    bars = {algo: speed[algo] for algo in figures.COLORS if algo in speed}
    figures.draw_speeds(campaign.folder / "steps_per_second.png", bars)
    if "aggregates" in document:
        title = f"{len(legs)} pairs of algorithm and task"
        aggregates.draw(campaign.folder, {title: score_matrices(legs)})


def summarize(legs: Sequence[CompleteLeg], n_planned: int) -> dict[str, Any]:
    """Return each leg's scores, the aggregates once every leg is complete, and the speeds."""
    document: dict[str, Any] = {}
    for leg in legs:
        algo, env = algo_and_env(leg)
        document[leg.name] = {"algo": algo.lower(), "env": env, **tables.summarize(leg)}
    if len(legs) == n_planned:
        systems_summary = aggregates.summarize(score_matrices(legs))
        document["aggregates"] = {"all": {"tasks": [leg.task for leg in legs], "systems": systems_summary}}
    return document | {"speeds": read_speeds(TRAINING_RESULTS)}


def score_matrices(legs: Sequence[CompleteLeg]) -> aggregates.Systems:
    """Return the normalised scores `[seeds, legs]` of both systems."""
    return {
        title: np.stack(
            [SCALES[algo_and_env(leg)[1]](final_scores(leg.runs)[system]) for leg in legs], axis=1
        )
        for system, title in TITLES.items()
    }


def read_speeds(path: Path) -> list[dict[str, Any]]:
    """Read the speeds of whole training runs; of each algorithm, the first size in the record."""
    speed_entries: dict[str, dict[str, Any]] = {}
    for case in json.loads(path.read_text())["cases"]:
        algo, separator, part = case["work"].partition(" on ")
        if not separator or not part.endswith(": training") or algo in speed_entries:
            continue
        medians = {system["name"]: system["median"] for system in case["systems"]}
        (comparison,) = (c for c in case["comparisons"] if (c["ours"], c["peer"]) == ("rlox", "SB3"))
        speed_entries[algo] = {
            "algo": algo,
            "training": case["work"].removesuffix(": training"),
            "size": case["size"],
            "steps_per_second": {name: case["elements"] / medians[name] for name in TITLES.values()},
            "ratio": {key: comparison[key] for key in ("ratio", "low", "high")},
        }
    return list(speed_entries.values())


def render(document: Mapping[str, Any]) -> str:
    """Return the tables."""
    legs = [
        (f"{entry['algo'].upper()}, {entry['env']}", entry) for entry in document.values() if "algo" in entry
    ]
    texts = [tables.render(legs)]
    if "aggregates" in document:
        texts.append(aggregates.render(document["aggregates"]))
    rows: list[Sequence[str]] = [SPEED_HEAD]
    for entry in document["speeds"]:
        our_speed, peer_speed = (f"{speed:,.0f}" for speed in entry["steps_per_second"].values())
        ratio = "{ratio:.2f}x [{low:.2f}, {high:.2f}]".format(**entry["ratio"])
        rows.append([entry["training"], entry["size"], our_speed, peer_speed, ratio])
    return "\n".join([*texts, markdown(rows)])
