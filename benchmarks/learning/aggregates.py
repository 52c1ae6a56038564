"""Aggregates of the normalised scores `[seeds, tasks]` of several systems: numbers, a table and a figure.

Intervals are 95% percentile bootstrap; the seeds of each task are resampled separately.
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
MAX_NAMED_TASKS = 3  # a table names up to 3 tasks; of more it gives the number


def summarize(systems: Systems) -> dict[str, Any]:
    """Return the aggregates of each system, and the probability that the first system improves on it."""
    first, *_ = systems
    summaries: dict[str, Any] = {}
    for name, scores in systems.items():
        summaries[name] = {
            key: _interval_dict(stratified_bootstrap(scores, statistic, rng=_rng(), resamples=RESAMPLES))
            for key, statistic in METRICS.items()
        }
        if name != first:
            improvement = probability_of_improvement(systems[first], scores, rng=_rng(), resamples=RESAMPLES)
            summaries[name]["below_first"] = _interval_dict(improvement)
    return summaries


def render(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row for each system of each group of tasks, and a link to the figure of `draw`."""
    rows: list[Sequence[str]] = [HEAD]
    for group in groups.values():
        has_many_tasks = len(group["tasks"]) > MAX_NAMED_TASKS
        tasks = f"all {len(group['tasks'])}" if has_many_tasks else ", ".join(group["tasks"])
        for name, summary in group["systems"].items():
            below = f"{_interval(summary['below_first']):.2f}" if "below_first" in summary else ""
            rows.append([tasks, name, *(f"{_interval(summary[key]):.3f}" for key in METRICS), below])
            tasks = ""
    return f"{markdown(rows)}\n![Performance profiles]({FIGURE})\n"


def draw(folder: Path, panels: Mapping[str, Systems]) -> None:
    """Draw performance profiles, one panel for each group."""
    profiles_by_panel = {
        title: {name: profile(scores) for name, scores in systems.items()}
        for title, systems in panels.items()
    }
    figures.draw_profiles(folder / FIGURE, profiles_by_panel)


def profile(scores: NDArray[Any]) -> Profile:
    """Return the fraction of the runs above each threshold."""
    return performance_profile(scores, THRESHOLDS, rng=_rng())


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _interval_dict(interval: Interval) -> dict[str, Any]:
    return {"value": interval.estimate, "ci95": [interval.low, interval.high]}


def _interval(entry: Mapping[str, Any]) -> Interval:
    return Interval(entry["value"], *entry["ci95"])
