"""What normalised scores `[seeds, tasks]` of several systems come to, in numbers, a table and a figure.

Intervals are 95% percentile bootstrap in which the seeds of each task are resampled apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import figures
import numpy as np
from numpy.typing import NDArray
from tables import RESAMPLES, markdown

from rlox.statistics import (
    Interval,
    Profile,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)

Systems = dict[str, NDArray[Any]]
METRICS = {"iqm": iqm, "median": median, "mean": mean, "optimality_gap": optimality_gap}
HEAD = (
    "tasks", "system", "IQM [95% CI]", "median [95% CI]", "mean [95% CI]", "optimality gap [95% CI]",
    "P(the first scores more) [95% CI]",
)  # fmt: skip
THRESHOLDS = np.linspace(0.0, 1.2, 121)
FIGURE = "performance_profile.png"
NAMED = 3  # tasks that a table names; of more it has the number


def summarize(systems: Systems) -> dict[str, Any]:
    """Aggregates of each system, and how probably a run of the first scores more than one of each other."""
    first, *_ = systems
    found: dict[str, Any] = {}
    for name, scores in systems.items():
        found[name] = {
            key: _plain(stratified_bootstrap(scores, of, rng=_rng(), resamples=RESAMPLES))
            for key, of in METRICS.items()
        }
        if name != first:
            more = probability_of_improvement(
                systems[first], scores, rng=_rng(), resamples=RESAMPLES
            )
            found[name]["below_first"] = _plain(more)
    return found


def render(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """A line for each system of each group of tasks, and the figure of `draw` beside it."""
    rows: list[Sequence[str]] = [HEAD]
    for group in groups.values():
        several = len(group["tasks"]) > NAMED
        tasks = f"all {len(group['tasks'])}" if several else ", ".join(group["tasks"])
        for name, of in group["systems"].items():
            below = f"{_interval(of['below_first']):.2f}" if "below_first" in of else ""
            rows.append([tasks, name, *(f"{_interval(of[key]):.3f}" for key in METRICS), below])
            tasks = ""
    return f"{markdown(rows)}\n![Performance profiles]({FIGURE})\n"


def draw(folder: Path, panels: Mapping[str, Systems]) -> None:
    """Performance profiles, a panel for each group."""
    shown = {
        title: {name: profile(scores) for name, scores in systems.items()}
        for title, systems in panels.items()
    }
    figures.profiles(folder / FIGURE, shown)


def profile(scores: NDArray[Any]) -> Profile:
    """The part of runs above each threshold."""
    return performance_profile(scores, THRESHOLDS, rng=_rng())


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _plain(of: Interval) -> dict[str, Any]:
    return {"value": of.estimate, "ci95": [of.low, of.high]}


def _interval(of: Mapping[str, Any]) -> Interval:
    return Interval(of["value"], *of["ci95"])
