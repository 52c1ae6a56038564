"""From runs to results. The statistics are those of `rlox.statistics`; here is what they are asked."""

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
from rlox_cli.report.records import AXIS, PARTS, TRAINING, Array, Curve, Run
from rlox_cli.report.results import (
    Aggregate,
    Band,
    Better,
    CellResult,
    Results,
    Share,
    TaskCurves,
    Times,
)
from rlox_cli.report.study import Cell, Study
from rlox_cli.report.tables import Estimate
from rlox_cli.run_folder import slug
from rlox_cli.summary import number

EVALUATION = "evaluations on the way"
GRID = 100  # points of a curve over runs
PROFILE_POINTS = 101
MANY_SHOWN = 12  # methods in the figures
NEARLY = 1.05  # how far apart totals are that were rounded up to whole rollouts
SHORT = 2  # points that a curve has at least
# Values that are drawn for the band of a curve: of very many runs there are fewer resamples.
DRAWN, FEWEST = 50_000_000, 200


@dataclass(frozen=True)
class Scale:
    """What is 0 and what is 1 on each task, and what that is called."""

    ends: Mapping[str, tuple[float, float]]
    name: str
    whole: bool  # whether 1 means something

    def has(self, task: str) -> bool:
        """Whether the task has a place on the scale: one whose runs all score the same has none."""
        return task in self.ends or not self.whole

    def of(self, task: str, values: Array) -> Array:
        """Values of a task on the scale."""
        if not self.whole:
            return values
        low, high = self.ends[task]
        return (values - low) / (high - low)


class Computer:
    """Computes the results of a study; each interval has a stream of random numbers of its own."""

    def __init__(
        self, study: Study, normalize: str, ranges: Mapping[str, Any], resamples: int, seed: int
    ) -> None:
        self.study = study
        self._resamples, self._seed = resamples, seed
        self.scale = _scale(study, normalize, ranges)
        self.scored = {m: study.scored(m) for m in study.methods}
        self.scored = {m: tasks for m, tasks in self.scored.items() if tasks}

    def results(self) -> Results:
        """All of them."""
        aggregates = [self._aggregate(method) for method in self.scored if self._on_scale(method)]
        several = any(len(cell.counted) >= SHORT for cell in self.study.cells)
        shown = chosen(self.study, aggregates)
        curves = list(self._curves(shown))
        efficiency, unit = self._efficiency(shown)
        return Results(
            scale=self.scale.name,
            scaled=self.scale.whole,
            cells=[self._cell(cell) for cell in self.study.cells if cell.counted],
            aggregates=aggregates,
            profile=list(self._profile(shown)) if several else [],
            better=list(self._better(list(shown))) if several else [],
            curves=curves,
            measures=list(self._measures(shown)),
            efficiency=efficiency,
            efficiency_unit=unit,
            times=list(_times(self.study.cells)),
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
        if self.scale.whole:
            gap = self._interval(scores, statistics.optimality_gap, "gap", method)
        return Aggregate(
            method=method,
            tasks=len(scores),
            runs=_runs(scores),
            iqm=self._interval(scores, statistics.iqm, "iqm", method),
            median=self._interval(scores, statistics.median, "median", method),
            mean=self._interval(scores, statistics.mean, "mean", method),
            gap=gap,
        )

    def _on_scale(self, method: str) -> dict[str, Array]:
        scored = self.scored[method].items()
        return {task: self.scale.of(task, own) for task, own in scored if self.scale.has(task)}

    def _interval(self, scores: Any, statistic: Any, *words: str) -> Estimate:
        found = statistics.stratified_bootstrap(
            scores, statistic, rng=self._rng(*words), resamples=self._resamples
        )
        return _estimate(found)

    def _profile(self, shown: Mapping[str, int]) -> Iterator[Share]:
        own = {method: self._on_scale(method) for method in shown if method in self.scored}
        own = {method: tasks for method, tasks in own.items() if tasks}
        if not own:
            return
        every = np.concatenate([scores for tasks in own.values() for scores in tasks.values()])
        low, high = float(every.min()), float(every.max())
        room = (high - low or 1.0) * 0.02
        thresholds = np.linspace(low - room, high + room, PROFILE_POINTS)
        for method, tasks in own.items():
            found = statistics.performance_profile(
                tasks, thresholds, rng=self._rng("profile", method), resamples=self._resamples
            )
            edges = _edges(found.low, found.high)
            yield Share(method, len(tasks), _runs(tasks), thresholds, found.fraction, *edges)

    def _better(self, methods: Sequence[str]) -> Iterator[Better]:
        for x, y in itertools.combinations([m for m in methods if m in self.scored], 2):
            both = sorted(set(self.scored[x]) & set(self.scored[y]))
            if not both:
                continue
            one, other = ({task: self.scored[m][task] for task in both} for m in (x, y))
            found = statistics.probability_of_improvement(
                one, other, rng=self._rng("improvement", x, y), resamples=self._resamples
            )
            yield Better(x, y, len(both), _runs(one), _runs(other), _estimate(found))

    def _rng(self, *words: str) -> np.random.Generator:
        """A stream of its own for what the words name, so that one more method moves no other's digits."""
        return np.random.default_rng([self._seed, *(zlib.crc32(word.encode()) for word in words)])

    def _curves(self, shown: Mapping[str, int]) -> Iterator[TaskCurves]:
        for (task, unit), cells in sorted(_by_panel(self.study, shown).items()):
            kind = EVALUATION if all(_evaluated(cell) for cell in cells) else TRAINING
            bands = []
            for cell in cells:
                own = kind if _long(cell, kind) else EVALUATION
                runs = _long(cell, own)
                if runs:
                    bands.append(self._band(cell.method, {task: runs}, own, task))
            if bands:
                yield TaskCurves(task, unit, kind, bands)

    def _measures(self, shown: Mapping[str, int]) -> Iterator[TaskCurves]:
        """The IQM over runs of each loss and the like, without intervals."""
        for (task, unit), cells in sorted(_by_panel(self.study, shown).items()):
            names = dict.fromkeys(n for cell in cells for run in _used(cell) for n in run.measures)
            for name in names:
                bands = []
                for cell in cells:
                    every = [run.measures[name] for run in _used(cell) if name in run.measures]
                    if own := [curve for curve in every if len(curve) >= SHORT]:
                        bands.append(_middle(cell.method, own, name))
                if bands:
                    yield TaskCurves(task, unit, name, bands)

    def _band(
        self, method: str, tasks: Mapping[str, Sequence[Curve]], kind: str, word: str
    ) -> Band:
        """The IQM over runs, and its interval, of curves by task."""
        steps = _grid([curve for runs in tasks.values() for curve in runs])
        runs = sum(map(len, tasks.values()))
        found = statistics.sample_efficiency(
            {task: [(steps, _at(c, steps)) for c in own] for task, own in tasks.items()},
            rng=self._rng("curve", method, word),
            steps=steps,
            resamples=max(FEWEST, min(self._resamples, DRAWN // (runs * len(steps)))),
        )
        edges = _edges(found.low, found.high)
        return Band(method, runs, len(tasks), kind, steps, found.estimate, *edges)

    def _efficiency(self, shown: Mapping[str, int]) -> tuple[list[Band], str]:
        """The IQM over all tasks while learning, where there are several."""
        cells_of = [c for c in self.study.cells if c.counted and self.scale.has(c.task)]
        own = {m: [c for c in cells_of if c.method == m] for m in shown}
        own = {method: cells for method, cells in own.items() if cells}
        every = [cell for cells in own.values() for cell in cells]
        if len({cell.task for cell in every}) < SHORT:
            return [], ""
        kind = EVALUATION if all(_evaluated(cell) for cell in every) else TRAINING
        ends = {curve.steps[-1] for cell in every for curve in _long(cell, kind)}
        units = {run.unit for cell in every for run in cell.counted}
        same = len(units) == 1 and max(ends, default=0.0) <= NEARLY * min(ends, default=0.0)
        bands = []
        for method, cells in own.items():
            tasks = {
                cell.task: [self._scaled(c, cell.task, same) for c in _long(cell, kind)]
                for cell in cells
            }
            if all(tasks.values()):
                bands.append(self._band(method, tasks, kind, "all tasks"))
        return bands, AXIS[units.pop()] if same else "fraction of the run"

    def _scaled(self, curve: Curve, task: str, same: bool) -> Curve:
        steps = curve.steps if same else curve.steps / curve.steps[-1]
        return Curve(steps, self.scale.of(task, curve.values))


def _middle(method: str, curves: Sequence[Curve], kind: str) -> Band:
    steps = _grid(curves)
    values = np.array([_at(curve, steps) for curve in curves])
    middle = np.array([statistics.iqm(at_step) for at_step in values.T])
    return Band(method, len(curves), 1, kind, steps, middle, None, None)


def chosen(study: Study, aggregates: Sequence[Aggregate]) -> dict[str, int]:
    """The methods in the figures and the place of each: all, or the best where there are too many."""
    best = sorted(aggregates, key=lambda a: -a.iqm.value)[:MANY_SHOWN]
    kept = {a.method for a in best}
    if len(kept) < MANY_SHOWN:  # also those that have no score yet
        rest = [method for method in study.methods if method not in kept]
        kept |= set(rest[: MANY_SHOWN - len(kept)])
    return {m: place for place, m in enumerate(m for m in study.methods if m in kept)}


def _estimate(found: statistics.Interval) -> Estimate:
    """An estimate, without the ends where a task has a single run."""
    known = math.isfinite(found.low) and math.isfinite(found.high)
    return Estimate(found.estimate, *((found.low, found.high) if known else (None, None)))


def _edges(low: Array, high: Array) -> tuple[Array, Array] | tuple[None, None]:
    return (low, high) if np.isfinite(low).all() and np.isfinite(high).all() else (None, None)


def _runs(scores: Mapping[str, Array]) -> int:
    return sum(map(len, scores.values()))


def _scale(study: Study, normalize: str, ranges: Mapping[str, Any]) -> Scale:
    given = {slug(task): (float(low), float(high)) for task, (low, high) in ranges.items()}
    tasks = sorted({cell.task for cell in study.cells if cell.counted})
    for name in ranges:
        if slug(name) not in map(slug, tasks):
            raise ConfigError(f"ranges.{name}: no run is of that task{nearest(name, tasks)}")
    known = {task: given[slug(task)] for task in tasks if slug(task) in given}
    if normalize == "none" and known and len(known) < len(tasks):
        left = next(task for task in tasks if task not in known)
        raise ConfigError(
            f"normalize=none and ranges: give {left} a range too, or none of the tasks"
        )
    chosen = set(known)
    if not known and (len(tasks) < SHORT or normalize == "none"):
        return Scale({}, "returns as they are", False)
    for task in tasks:
        own = np.concatenate([cell.scores for cell in study.cells if cell.task == task])
        known.setdefault(task, (float(own.min()), float(own.max())))
    ends = {task: (low, high) for task, (low, high) in known.items() if high > low}
    said = [
        f"{task} {number(low)} to {number(high)}"
        + " by ranges=" * (0 < len(chosen) < len(tasks) and task in chosen)
        for task, (low, high) in ends.items()
    ]
    said += [
        f"{task} is left out, its runs all score {number(low)}: ranges.{slug(task)} gives it a scale"
        for task, (low, _) in known.items()
        if task not in ends
    ]
    by = "by ranges=" if len(chosen) == len(tasks) else "each task's lowest and highest run"
    return Scale(ends, f"scores from 0 to 1 ({by}: {', '.join(said)})", True)


def _by_panel(study: Study, shown: Mapping[str, int]) -> dict[tuple[str, str], list[Cell]]:
    """The cells that share a pair of axes: the task and the unit that is counted."""
    panels: dict[tuple[str, str], list[Cell]] = {}
    for cell in study.cells:
        if cell.method in shown:
            panels.setdefault((cell.task, cell.runs[0].unit), []).append(cell)
    return panels


def _used(cell: Cell) -> Sequence[Run]:
    """The runs whose curves are drawn: those that are counted, or all where none is."""
    return cell.counted or cell.runs


def _evaluated(cell: Cell) -> bool:
    return all(len(run.evaluations) >= SHORT for run in _used(cell))


def _long(cell: Cell, kind: str) -> list[Curve]:
    """The curves of a cell that are more than a point."""
    curves = [r.evaluations if kind == EVALUATION else r.training for r in _used(cell)]
    return [curve for curve in curves if len(curve) >= SHORT]


def _grid(curves: Sequence[Curve]) -> Array:
    """The steps of all curves where they are the same and few, else as many as a figure needs."""
    first = curves[0].steps
    if len(first) <= GRID and all(np.array_equal(curve.steps, first) for curve in curves):
        return first
    low = max(float(curve.steps[0]) for curve in curves)
    high = max(float(curve.steps[-1]) for curve in curves)
    return np.linspace(min(low, high), high, GRID)


def _at(curve: Curve, steps: Array) -> Array:
    """The curve at other steps; after its end its last value."""
    return np.interp(steps, curve.steps, curve.values)


def _times(cells: Sequence[Cell]) -> Iterator[Times]:
    for cell in cells:
        known = [run for run in cell.counted if run.seconds.get("total")]
        if not known:
            continue
        total = sum(run.seconds["total"] for run in known) / len(known)
        parts = {p: sum(run.seconds.get(p, 0.0) for run in known) / len(known) for p in PARTS}
        parts["rest"] = max(0.0, total - sum(parts.values()))
        rates = [run.rate for run in known if run.rate is not None]
        rate = Estimate(sum(rates) / len(rates), min(rates), max(rates)) if rates else None
        if rate and len(rates) < SHORT:
            rate = Estimate(rate.value)
        yield Times(cell.method, cell.task, len(known), parts, total, rate, known[0].unit)
