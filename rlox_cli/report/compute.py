"""Compute results from runs, with the estimators of `rlox.statistics`."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlox import statistics
from rlox.configs import nearest
from rlox.errors import ConfigError
from rlox_cli.report.records import AXIS_LABELS, TIMED_PARTS, TRAINING, Array, Curve, Run
from rlox_cli.report.results import (
    Aggregate,
    Band,
    CellResult,
    Improvement,
    ProfileCurve,
    Results,
    TaskCurves,
    TimeBreakdown,
)
from rlox_cli.report.study import Cell, Study
from rlox_cli.report.tables import IntervalEstimate
from rlox_cli.runs.run_folder import slug
from rlox_cli.runs.summary import format_number

EVALUATION = "evaluations during training"
CURVE_POINTS = 100  # points of a curve over runs
PROFILE_POINTS = 101
MAX_SHOWN_METHODS = 12  # methods in the figures
SIMILAR_TOTAL_RATIO = 1.05  # totals that were rounded up to whole rollouts differ by less
MIN_POINTS = 2  # least points of a curve, and least runs and tasks for statistics over them
# Limit on the values drawn for the band of a curve: very many runs get fewer resamples.
MAX_DRAWN_VALUES, MIN_RESAMPLES = 50_000_000, 200


@dataclass(frozen=True)
class Scale:
    """The scores that become 0 and 1 on each task, and the name of the scale."""

    ranges: Mapping[str, tuple[float, float]]
    name: str
    is_normalized: bool  # False: returns stay as they are

    def contains(self, task: str) -> bool:
        """Return whether the task is on the scale; a task whose runs all score the same is not."""
        return task in self.ranges or not self.is_normalized

    def normalize(self, task: str, values: Array) -> Array:
        """Return values of a task on the scale."""
        if not self.is_normalized:
            return values
        low, high = self.ranges[task]
        return (values - low) / (high - low)


class Computer:
    """Computes the results of a study; each interval has its own random stream."""

    def __init__(
        self, study: Study, normalize: str, ranges: Mapping[str, Any], resamples: int, seed: int
    ) -> None:
        self.study = study
        self._resamples, self._seed = resamples, seed
        self.scale = _make_scale(study, normalize, ranges)
        self.scores_by_method = {m: study.scores_by_task(m) for m in study.methods}
        self.scores_by_method = {m: tasks for m, tasks in self.scores_by_method.items() if tasks}

    def results(self) -> Results:
        """Compute all results."""
        aggregates = [self._aggregate(method) for method in self.scores_by_method if self._on_scale(method)]
        has_several_runs = any(len(cell.counted_runs) >= MIN_POINTS for cell in self.study.cells)
        style_indices = shown_methods(self.study, aggregates)
        curves = list(self._curves(style_indices))
        efficiency, unit = self._efficiency(style_indices)
        return Results(
            scale=self.scale.name,
            is_normalized=self.scale.is_normalized,
            cells=[self._cell(cell) for cell in self.study.cells if cell.counted_runs],
            aggregates=aggregates,
            profile=list(self._profile(style_indices)) if has_several_runs else [],
            improvements=list(self._improvements(list(style_indices))) if has_several_runs else [],
            curves=curves,
            measures=list(self._measures(style_indices)),
            efficiency=efficiency,
            efficiency_unit=unit,
            times=list(_time_breakdowns(self.study.cells)),
        )

    def _cell(self, cell: Cell) -> CellResult:
        scores = cell.scores
        return CellResult(
            cell=cell,
            n=len(scores),
            iqm=self._interval(scores, statistics.iqm, "iqm", cell.method, cell.task),
            mean=self._interval(scores, statistics.mean, "mean", cell.method, cell.task),
            median=float(np.median(scores)),
            lowest=float(scores.min()),
            highest=float(scores.max()),
        )

    def _aggregate(self, method: str) -> Aggregate:
        scores = self._on_scale(method)
        gap = None
        if self.scale.is_normalized:
            gap = self._interval(scores, statistics.optimality_gap, "gap", method)
        return Aggregate(
            method=method,
            tasks=len(scores),
            runs=_count_runs(scores),
            iqm=self._interval(scores, statistics.iqm, "iqm", method),
            median=self._interval(scores, statistics.median, "median", method),
            mean=self._interval(scores, statistics.mean, "mean", method),
            optimality_gap=gap,
        )

    def _on_scale(self, method: str) -> dict[str, Array]:
        scores_by_method = self.scores_by_method[method].items()
        return {
            task: self.scale.normalize(task, scores)
            for task, scores in scores_by_method
            if self.scale.contains(task)
        }

    def _interval(self, scores: Any, statistic: Any, *seed_words: str) -> IntervalEstimate:
        interval = statistics.stratified_bootstrap(
            scores, statistic, rng=self._rng(*seed_words), resamples=self._resamples
        )
        return _estimate(interval)

    def _profile(self, style_indices: Mapping[str, int]) -> Iterator[ProfileCurve]:
        normalized_by_method = {
            method: self._on_scale(method) for method in style_indices if method in self.scores_by_method
        }
        normalized_by_method = {method: tasks for method, tasks in normalized_by_method.items() if tasks}
        if not normalized_by_method:
            return
        all_scores = np.concatenate(
            [scores for tasks in normalized_by_method.values() for scores in tasks.values()]
        )
        low, high = float(all_scores.min()), float(all_scores.max())
        margin = (high - low or 1.0) * 0.02
        thresholds = np.linspace(low - margin, high + margin, PROFILE_POINTS)
        for method, tasks in normalized_by_method.items():
            profile = statistics.performance_profile(
                tasks, thresholds, rng=self._rng("profile", method), resamples=self._resamples
            )
            edges = _finite_interval(profile.low, profile.high)
            yield ProfileCurve(method, len(tasks), _count_runs(tasks), thresholds, profile.fraction, *edges)

    def _improvements(self, methods: Sequence[str]) -> Iterator[Improvement]:
        for x, y in itertools.combinations([m for m in methods if m in self.scores_by_method], 2):
            shared_tasks = sorted(set(self.scores_by_method[x]) & set(self.scores_by_method[y]))
            if not shared_tasks:
                continue
            x_scores, y_scores = (
                {task: self.scores_by_method[m][task] for task in shared_tasks} for m in (x, y)
            )
            interval = statistics.probability_of_improvement(
                x_scores, y_scores, rng=self._rng("improvement", x, y), resamples=self._resamples
            )
            yield Improvement(
                x, y, len(shared_tasks), _count_runs(x_scores), _count_runs(y_scores), _estimate(interval)
            )

    def _rng(self, *seed_words: str) -> np.random.Generator:
        """Return the random stream of these words; a method that is added changes no other one's interval."""
        return np.random.default_rng(
            [self._seed, *(zlib.crc32(seed_word.encode()) for seed_word in seed_words)]
        )

    def _curves(self, style_indices: Mapping[str, int]) -> Iterator[TaskCurves]:
        for (task, unit), cells in sorted(_cells_by_panel(self.study, style_indices).items()):
            kind = EVALUATION if all(_has_evaluations(cell) for cell in cells) else TRAINING
            bands = []
            for cell in cells:
                curve_kind = kind if _plottable_curves(cell, kind) else EVALUATION
                runs = _plottable_curves(cell, curve_kind)
                if runs:
                    bands.append(self._band(cell.method, {task: runs}, curve_kind, task))
            if bands:
                yield TaskCurves(task, unit, kind, bands)

    def _measures(self, style_indices: Mapping[str, int]) -> Iterator[TaskCurves]:
        """Yield the IQM over runs of each loss and similar metric, without intervals."""
        for (task, unit), cells in sorted(_cells_by_panel(self.study, style_indices).items()):
            names = dict.fromkeys(n for cell in cells for run in _curve_runs(cell) for n in run.measures)
            for name in names:
                bands = []
                for cell in cells:
                    cell_curves = [run.measures[name] for run in _curve_runs(cell) if name in run.measures]
                    if plottable := [curve for curve in cell_curves if len(curve) >= MIN_POINTS]:
                        bands.append(_iqm_band(cell.method, plottable, name))
                if bands:
                    yield TaskCurves(task, unit, name, bands)

    def _band(self, method: str, tasks: Mapping[str, Sequence[Curve]], kind: str, seed_word: str) -> Band:
        """Compute the IQM over runs, with its interval, from curves by task."""
        steps = _common_steps([curve for runs in tasks.values() for curve in runs])
        runs = sum(map(len, tasks.values()))
        curve_interval = statistics.sample_efficiency(
            {task: [(steps, _interpolate(c, steps)) for c in curves] for task, curves in tasks.items()},
            rng=self._rng("curve", method, seed_word),
            steps=steps,
            resamples=max(MIN_RESAMPLES, min(self._resamples, MAX_DRAWN_VALUES // (runs * len(steps)))),
        )
        edges = _finite_interval(curve_interval.low, curve_interval.high)
        return Band(method, runs, len(tasks), kind, steps, curve_interval.estimate, *edges)

    def _efficiency(self, style_indices: Mapping[str, int]) -> tuple[list[Band], str]:
        """Compute the IQM over all tasks while learning, if there are several, and the unit of its steps."""
        scored_cells = [c for c in self.study.cells if c.counted_runs and self.scale.contains(c.task)]
        cells_by_method = {m: [c for c in scored_cells if c.method == m] for m in style_indices}
        cells_by_method = {method: cells for method, cells in cells_by_method.items() if cells}
        all_cells = [cell for cells in cells_by_method.values() for cell in cells]
        if len({cell.task for cell in all_cells}) < MIN_POINTS:
            return [], ""
        kind = EVALUATION if all(_has_evaluations(cell) for cell in all_cells) else TRAINING
        last_steps = {curve.steps[-1] for cell in all_cells for curve in _plottable_curves(cell, kind)}
        units = {run.unit for cell in all_cells for run in cell.counted_runs}
        is_common_unit = len(units) == 1 and max(last_steps, default=0.0) <= SIMILAR_TOTAL_RATIO * min(
            last_steps, default=0.0
        )
        bands = []
        for method, cells in cells_by_method.items():
            tasks = {
                cell.task: [
                    self._scale_curve(c, cell.task, is_common_unit) for c in _plottable_curves(cell, kind)
                ]
                for cell in cells
            }
            if all(tasks.values()):
                bands.append(self._band(method, tasks, kind, "all tasks"))
        return bands, AXIS_LABELS[units.pop()] if is_common_unit else "fraction of the run"

    def _scale_curve(self, curve: Curve, task: str, is_common_unit: bool) -> Curve:
        steps = curve.steps if is_common_unit else curve.steps / curve.steps[-1]
        return Curve(steps, self.scale.normalize(task, curve.values))


def _iqm_band(method: str, curves: Sequence[Curve], kind: str) -> Band:
    steps = _common_steps(curves)
    values = np.array([_interpolate(curve, steps) for curve in curves])
    iqms = np.array([statistics.iqm(at_step) for at_step in values.T])
    return Band(method, len(curves), 1, kind, steps, iqms, None, None)


def shown_methods(study: Study, aggregates: Sequence[Aggregate]) -> dict[str, int]:
    """Return the methods in the figures with their style indices: all, or the best if there are too many."""
    best = sorted(aggregates, key=lambda a: -a.iqm.value)[:MAX_SHOWN_METHODS]
    names = {a.method for a in best}
    if len(names) < MAX_SHOWN_METHODS:  # then also methods that have no score yet
        rest = [method for method in study.methods if method not in names]
        names |= set(rest[: MAX_SHOWN_METHODS - len(names)])
    return {m: style_index for style_index, m in enumerate(m for m in study.methods if m in names)}


def _estimate(interval: statistics.Interval) -> IntervalEstimate:
    """Convert an interval; it has no ends if a task has a single run."""
    has_interval = math.isfinite(interval.low) and math.isfinite(interval.high)
    return IntervalEstimate(
        interval.estimate, *((interval.low, interval.high) if has_interval else (None, None))
    )


def _finite_interval(low: Array, high: Array) -> tuple[Array, Array] | tuple[None, None]:
    return (low, high) if np.isfinite(low).all() and np.isfinite(high).all() else (None, None)


def _count_runs(scores: Mapping[str, Array]) -> int:
    return sum(map(len, scores.values()))


def _make_scale(study: Study, normalize: str, ranges: Mapping[str, Any]) -> Scale:
    given_ranges = {slug(task): (float(low), float(high)) for task, (low, high) in ranges.items()}
    tasks = sorted({cell.task for cell in study.cells if cell.counted_runs})
    for name in ranges:
        if slug(name) not in map(slug, tasks):
            raise ConfigError(f"ranges.{name}: no run has that task{nearest(name, tasks)}")
    ranges_by_task = {task: given_ranges[slug(task)] for task in tasks if slug(task) in given_ranges}
    if normalize == "none" and ranges_by_task and len(ranges_by_task) < len(tasks):
        missing_task = next(task for task in tasks if task not in ranges_by_task)
        raise ConfigError(f"normalize=none and ranges: give {missing_task} a range too, or none of the tasks")
    user_tasks = set(ranges_by_task)
    if not ranges_by_task and (len(tasks) < MIN_POINTS or normalize == "none"):
        return Scale({}, "returns as they are", False)
    for task in tasks:
        task_scores = np.concatenate([cell.scores for cell in study.cells if cell.task == task])
        ranges_by_task.setdefault(task, (float(task_scores.min()), float(task_scores.max())))
    usable_ranges = {task: (low, high) for task, (low, high) in ranges_by_task.items() if high > low}
    parts = [
        f"{task} {format_number(low)} to {format_number(high)}"
        + " by ranges=" * (0 < len(user_tasks) < len(tasks) and task in user_tasks)
        for task, (low, high) in usable_ranges.items()
    ]
    parts += [
        f"{task} is left out: its runs all score {format_number(low)}; ranges.{slug(task)} gives it a scale"
        for task, (low, _) in ranges_by_task.items()
        if task not in usable_ranges
    ]
    source_text = "by ranges=" if len(user_tasks) == len(tasks) else "each task's lowest and highest run"
    return Scale(usable_ranges, f"scores from 0 to 1 ({source_text}: {', '.join(parts)})", True)


def _cells_by_panel(study: Study, style_indices: Mapping[str, int]) -> dict[tuple[str, str], list[Cell]]:
    """Group the cells that share a pair of axes: those with the same task and unit."""
    panels: dict[tuple[str, str], list[Cell]] = {}
    for cell in study.cells:
        if cell.method in style_indices:
            panels.setdefault((cell.task, cell.runs[0].unit), []).append(cell)
    return panels


def _curve_runs(cell: Cell) -> Sequence[Run]:
    """Return the runs whose curves are drawn: those that are counted, or all if none is."""
    return cell.counted_runs or cell.runs


def _has_evaluations(cell: Cell) -> bool:
    return all(len(run.evaluations) >= MIN_POINTS for run in _curve_runs(cell))


def _plottable_curves(cell: Cell, kind: str) -> list[Curve]:
    """Return the curves of a cell that have more than one point."""
    curves = [r.evaluations if kind == EVALUATION else r.training for r in _curve_runs(cell)]
    return [curve for curve in curves if len(curve) >= MIN_POINTS]


def _common_steps(curves: Sequence[Curve]) -> Array:
    """Return the curves' own steps if these are equal and few, else evenly spaced ones."""
    first = curves[0].steps
    if len(first) <= CURVE_POINTS and all(np.array_equal(curve.steps, first) for curve in curves):
        return first
    low = max(float(curve.steps[0]) for curve in curves)
    high = max(float(curve.steps[-1]) for curve in curves)
    return np.linspace(min(low, high), high, CURVE_POINTS)


def _interpolate(curve: Curve, steps: Array) -> Array:
    """Interpolate the curve at other steps; after its end it keeps its last value."""
    return np.interp(steps, curve.steps, curve.values)


def _time_breakdowns(cells: Sequence[Cell]) -> Iterator[TimeBreakdown]:
    for cell in cells:
        timed_runs = [run for run in cell.counted_runs if run.seconds.get("total")]
        if not timed_runs:
            continue
        total = sum(run.seconds["total"] for run in timed_runs) / len(timed_runs)
        parts = {p: sum(run.seconds.get(p, 0.0) for run in timed_runs) / len(timed_runs) for p in TIMED_PARTS}
        parts["rest"] = max(0.0, total - sum(parts.values()))
        rates = [run.rate for run in timed_runs if run.rate is not None]
        rate = IntervalEstimate(sum(rates) / len(rates), min(rates), max(rates)) if rates else None
        if rate and len(rates) < MIN_POINTS:
            rate = IntervalEstimate(rate.value)
        yield TimeBreakdown(cell.method, cell.task, len(timed_runs), parts, total, rate, timed_runs[0].unit)
