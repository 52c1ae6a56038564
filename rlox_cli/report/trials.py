"""Sections on a search: scores in the order of its trials, and their correlation with the values tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlox_cli.report.figures import Figure, Line, Panel
from rlox_cli.report.page import Section
from rlox_cli.report.read import sweep_kind
from rlox_cli.report.records import Array, Run
from rlox_cli.report.study import Study, format_setting, varying_keys
from rlox_cli.report.tables import Table, Value

MIN_TRIALS = 3  # a search with fewer trials has no section
LOG_SCALE_RATIO = 10.0  # ratio of highest to lowest value from which an axis is logarithmic


@dataclass(frozen=True)
class Trial:
    """One trial with its score, the mean over its seeds."""

    number: int
    score: float
    settings: Mapping[str, Any]


def search_sections(study: Study) -> Iterator[Section]:
    """Yield a section for each search in the study that has at least `MIN_TRIALS` complete trials."""
    runs_by_folder: dict[Path, list[Run]] = defaultdict(list)
    for run in study.runs:
        runs_by_folder[Path(run.path).parent].append(run)
    searches = [folder for folder in runs_by_folder if sweep_kind(folder) == "search"]
    for number, folder in enumerate(searches, 1):
        trials = _complete_trials(runs_by_folder[folder])
        if len(trials) < MIN_TRIALS:
            continue
        key = "search" if len(searches) == 1 else f"search_{number}"
        title = "The search" if len(searches) == 1 else f"The search {folder.name}"
        keys = varying_keys([trial.settings for trial in trials])
        figures = [_history_figure(key, title, trials), _values_figure(key, title, trials, keys)]
        table = _values_table(key, title, trials, keys)
        yield Section(key, title, figures=[f for f in figures if f.panels], tables=[table])


def rank_correlation(x: Array, y: Array) -> float | None:
    """Return Spearman's rank correlation of two columns; None if one of them is constant."""
    x_ranks, y_ranks = _ranks(x), _ranks(y)
    if np.ptp(x_ranks) == 0 or np.ptp(y_ranks) == 0:
        return None
    return float(np.corrcoef(x_ranks, y_ranks)[0, 1])


def _ranks(values: Array) -> Array:
    """Return the rank of each value; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Array = (ends - (counts - 1) / 2)[inverse]
    return ranks


def _complete_trials(runs: Sequence[Run]) -> list[Trial]:
    """Return the trials whose runs are all counted, in order; a run's name begins with its trial's number."""
    runs_by_trial: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        number = run.name.partition("_")[0]
        if number.isdecimal():
            runs_by_trial[int(number)].append(run)
    return [
        Trial(
            number,
            float(np.mean([run.score for run in trial_runs if run.score is not None])),
            trial_runs[0].settings,
        )
        for number, trial_runs in sorted(runs_by_trial.items())
        if all(run.is_counted for run in trial_runs)
    ]


def _history_figure(key: str, title: str, trials: Sequence[Trial]) -> Figure:
    numbers = np.array([trial.number for trial in trials], float)
    scores = np.array([trial.score for trial in trials])
    lines = [
        Line("score of a trial", 0, numbers, scores, is_joined=False),
        Line("best so far", 1, numbers, np.maximum.accumulate(scores)),
    ]
    panel = Panel("Scores of the trials", "trial", "score", lines=lines, is_stepped=True)
    caption = (
        f"Points: the score of each of the {len(trials)} complete trials. Line: the best so far. A trial's "
        "score is the mean over its seeds."
    )
    return Figure(f"{key}_history", title, caption, [panel], is_by_method=False)


def _values_figure(key: str, title: str, trials: Sequence[Trial], keys: Sequence[str]) -> Figure:
    scores = np.array([trial.score for trial in trials])
    panels = []
    for name in keys:
        if (values := _numbers(trials, name)) is not None:
            low, high = float(values.min()), float(values.max())
            line = Line(name, 0, values, scores, is_joined=False)
            is_wide = low > 0 and high >= LOG_SCALE_RATIO * low
            panels.append(Panel(name, name, "score", lines=[line], is_log=is_wide))
    caption = "Points: trials. The sampler tries good values more often, so points are not spread evenly."
    return Figure(f"{key}_values", title, caption, panels, is_by_method=False)


def _values_table(key: str, title: str, trials: Sequence[Trial], keys: Sequence[str]) -> Table:
    scores = np.array([trial.score for trial in trials])
    best = max(trials, key=lambda trial: trial.score)  # the first of equal ones
    rows: list[list[Value]] = []
    for name in keys:
        values = _numbers(trials, name)
        correlation = None if values is None else rank_correlation(values, scores)
        rows.append([name, correlation, format_setting(name, best.settings.get(name))])
    rows.sort(key=lambda row: -abs(row[1]) if isinstance(row[1], float) else 1.0)
    caption = (
        f"Rank correlation (Spearman) of a key's value with the score over {len(trials)} trials: 1 or -1 "
        "where the score only rises or only falls with the value, near 0 where it does neither; none for "
        "keys that are not numbers. It cannot show a best value in the middle: look at the figures."
    )
    columns = ("key", "rank correlation with the score", f"value in the best trial ({best.number})")
    return Table(f"{key}_values", title, caption, columns, rows)


def _numbers(trials: Sequence[Trial], key: str) -> Array | None:
    """Return the values of a key; None if one is not a number."""
    values = [trial.settings.get(key) for trial in trials]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return None
    return np.array(values, np.float64)
