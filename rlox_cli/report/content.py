"""The tables and figures of a report, each with what its numbers are and how many runs they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlox.runs.progress import word
from rlox_cli.report.figures import Bar, Figure, Line, Panel, Row
from rlox_cli.report.records import AXIS, PARTS
from rlox_cli.report.results import Band, CellResult, Results, Times
from rlox_cli.report.study import Study, shown, varied
from rlox_cli.report.tables import NOTHING, Table, Value

INTERVAL = (
    "Intervals: 95%, stratified bootstrap over the n runs (seeds); none where a task has one run."
)
MANY_METHODS = 8
MOST_PANELS = 24  # of one figure


def score_table(results: Results) -> Table:
    """A row for each method on each task."""
    rows: list[list[Value]] = [
        [r.cell.method, r.cell.task, r.n, r.iqm, r.mean, r.median, r.lowest, r.highest, _train(r)]
        for r in results.cells
    ]
    columns = (
        "method", "task", "n", "IQM [95% CI]", "mean [95% CI]", "median", "lowest", "highest",
        "training return",
    )  # fmt: skip
    caption = (
        "Scores: the mean return of a run's final evaluation, played after training in environments of its "
        "own; over the n runs their interquartile mean (IQM), mean, median, lowest and highest. Training "
        "return: the mean of the last 100 episodes while learning, with exploration, as a mean over runs. "
        f"{INTERVAL}"
    )
    return Table("scores", "Final evaluation", caption, columns, rows)


def score_figure(results: Results, places: dict[str, int]) -> Figure:
    """Every run's score beside their IQM, a panel for each task."""
    panels = []
    for task in sorted({r.cell.task for r in results.cells}):
        own = [r for r in results.cells if r.cell.task == task and r.cell.method in places]
        rows = [
            Row(
                f"{r.cell.method} (n = {r.n})",
                places[r.cell.method],
                r.iqm,
                [(float(run.score or 0.0), f"seed {run.seed}") for run in r.cell.counted],
            )
            for r in own
        ]
        panels.append(Panel(task, "return of the final evaluation", rows=rows))
    caption = (
        "Open marks: the score of each run. Filled marks: their IQM, with its interval as a bar where there "
        f"is more than one run. {INTERVAL}"
    )
    return Figure("scores", "Final evaluation", caption, [p for p in panels if p.rows])


def curve_figure(results: Results, places: dict[str, int]) -> Figure:
    """Learning curves, a panel for each task."""
    panels = [
        Panel(
            f"{curves.task}: {curves.kind}",
            AXIS.get(curves.unit, curves.unit),
            "return",
            lines=[_line(band, places, curves.kind) for band in curves.bands],
        )
        for curves in results.curves
    ]
    caption = (
        "Lines: the IQM over runs at each step; bands: its interval. An evaluation on the way is played "
        "without exploration in environments of its own; a training return is the mean of the last 100 "
        "episodes while learning. A run that ended early keeps its last value. "
        f"{INTERVAL} {_counts(band for c in results.curves for band in c.bands)}"
    )
    return Figure("learning_curves", "Learning curves", caption, panels)


def measure_figure(results: Results, places: dict[str, int]) -> Figure:
    """Losses, entropy and the like, a panel for each task and measure."""
    panels = [
        Panel(
            f"{curves.task}: {curves.kind}",
            AXIS.get(curves.unit, curves.unit),
            curves.kind,
            lines=[_line(band, places, curves.kind) for band in curves.bands],
        )
        for curves in results.measures
    ]
    caption = (
        "Lines: the IQM over runs of what updates logged, without intervals. Losses of different algorithms "
        f"are different things. {_counts(b for c in results.measures for b in c.bands)}"
    )
    if len(panels) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {len(panels)} are shown; metrics.jsonl has all."
    return Figure("measures", "Losses and entropy", caption, panels[:MOST_PANELS])


def aggregate_table(results: Results) -> Table:
    """A row for each method over its tasks."""
    gaps = any(a.gap for a in results.overall)
    rows: list[list[Value]] = []
    for a in results.overall:
        row: list[Value] = [a.method, a.tasks, a.runs, a.iqm, a.median, a.mean]
        rows.append([*row, a.gap] if gaps else row)
    columns = ["method", "tasks", "n", "IQM [95% CI]", "median [95% CI]", "mean [95% CI]"]
    caption = (
        f"All tasks of a method together. Scale: {results.scale}. IQM: the mean of the middle half of all "
        f"runs of all tasks; median: of the means of the tasks. {INTERVAL}"
    )
    if gaps:
        caption += " Optimality gap: how far runs stay below 1 on average; less is better."
    return Table(
        "aggregate",
        "Over all tasks",
        caption,
        [*columns, "optimality gap"] if gaps else columns,
        rows,
    )


def profile_figure(results: Results, places: dict[str, int]) -> Figure:
    """Performance profiles."""
    lines = [
        Line(
            s.method, places[s.method], s.thresholds, s.fraction, s.low, s.high,
            f"{s.runs} run{'s' * (s.runs != 1)} on {_tasks(s.tasks)}",
        )
        for s in results.profile
        if s.method in places
    ]  # fmt: skip
    caption = (
        "How large a part of the runs of a method scores above each threshold: higher is better, and a line "
        f"that is nowhere below another's is better throughout. Scale: {results.scale}. {INTERVAL} "
        + _said((s.method, s.runs) for s in results.profile if s.method in places)
    )
    panel = Panel(
        "Runs above a score",
        "score τ",
        "fraction of runs with score > τ",
        lines=lines,
        stepped=True,
    )
    return Figure("profile", "Performance profile", caption, [panel])


def better_table(results: Results) -> Table:
    """A row for each pair of methods."""
    rows: list[list[Value]] = [
        [b.x, b.y, b.tasks, b.runs, b.others, b.estimate] for b in results.better
    ]
    caption = (
        "How likely a run of X has a higher score than a run of Y on the same task, ties counted half, as a "
        f"mean over the tasks that both have. 0.5 is even: where the interval has it, neither is shown to be "
        f"better. {INTERVAL}"
    )
    return Table(
        "improvement",
        "Probability of improvement",
        caption,
        ("X", "Y", "tasks", "n of X", "n of Y", "P(X > Y) [95% CI]"),
        rows,
    )


def better_figure(results: Results, places: dict[str, int]) -> Figure:
    """Pairs of methods beside the even chance."""
    rows = [
        Row(f"{b.x} over {b.y}", places[b.x], b.estimate)
        for b in results.better
        if b.x in places and b.y in places
    ][:20]
    panel = Panel("X over Y", "P(X > Y)", rows=rows, mark=0.5, whole=True)
    caption = (
        "Bars: the 95% interval of each pair in the table below, where there is one. The dotted line is an "
        "even chance."
    )
    return Figure("improvement", "Probability of improvement", caption, [panel] if rows else [])


def efficiency_figure(results: Results, places: dict[str, int]) -> Figure:
    """The IQM over all tasks while learning."""
    lines = [
        _line(b, places, b.kind, _tasks(b.tasks)) for b in results.efficiency if b.method in places
    ]
    caption = (
        "The IQM over all runs of all tasks at each step, from the same returns as the learning curves. "
        f"Scale: {results.scale}; while learning, returns may be below 0. {INTERVAL} "
        f"{_counts(results.efficiency)}"
    )
    scaled = results.scaled
    y = "IQM, final scores from 0 to 1" if scaled else "IQM"
    panel = Panel(
        "All tasks", results.efficiency_unit, y, lines=lines, holds=(0.0, 1.0) if scaled else ()
    )
    return Figure("sample_efficiency", "Sample efficiency", caption, [panel])


def time_table(results: Results) -> Table:
    """A row for each method on each task."""
    rows: list[list[Value]] = [
        [t.method, t.task, t.n, *map(t.parts.get, (*PARTS, "rest")), t.total, t.rate, word(t.unit)]
        for t in results.times
    ]
    columns = (
        "method", "task", "n", *(f"{part} s" for part in (*PARTS, "rest")), "total s",
        "per second [slowest, fastest]", "counting",
    )  # fmt: skip
    caption = (
        "Seconds of the clock as means over n runs: collecting experience, updating, evaluating, the rest "
        "(logs, checkpoints). Steps per second are those of the whole run; in brackets the slowest and the "
        "fastest run, which is no confidence interval. Runs that shared a machine slowed one another."
    )
    return Table("time", "Where the time goes", caption, columns, rows)


def time_figure(results: Results, places: dict[str, int]) -> Figure:
    """The seconds of each method, a panel for each task."""
    panels = []
    for task in sorted({t.task for t in results.times}):
        own = [t for t in results.times if t.task == task and t.method in places]
        bars = [Bar(f"{t.method} (n = {t.n}){_speed(t)}", t.parts) for t in own]
        panels.append(Panel(task, "seconds", bars=bars))
    caption = "Seconds of the clock as means over n runs, as in the table below."
    return Figure("time", "Where the time goes", caption, [p for p in panels if p.bars])


def settings_table(study: Study) -> Table | None:
    """What differs between the configurations of methods and tasks."""
    cells = [cell for cell in study.cells if any(run.settings for run in cell.runs)]
    keys = [
        key
        for key in varied([run.settings for cell in cells for run in cell.runs if run.settings])
        if key not in ("env.id", "algo.name")
    ]
    methods = list(dict.fromkeys(cell.method for cell in cells))
    if not keys:
        return None
    values = {(key, m): _setting(study, key, m) for key in keys for m in methods}
    caption = (
        f"Only keys whose values are not the same in all runs; {NOTHING} where a method has no such key. "
        "Where a value depends on the task, the tasks are named."
    )
    rows: list[list[Value]]
    if len(methods) > MANY_METHODS:
        columns = ["method", *keys]
        rows = [[m, *(values[key, m] for key in keys)] for m in methods]
    else:
        columns = ["key", *methods]
        rows = [[key, *(values[key, m] for m in methods)] for key in keys]
    return Table("settings", "What differs between configurations", caption, columns, rows)


def left_out_table(study: Study) -> Table:
    """Every job whose score is in no table, and why."""
    rows: list[list[Value]] = [
        [run.name, run.algo, run.env, run.seed, run.status, run.step, run.reason or _why(run.score)]
        for run in study.left_out
    ]
    columns = ("job", "algorithm", "task", "seed", "status", "step", "reason")
    caption = (
        "Jobs that failed, were killed or pruned, or are going on. Their scores are in no table."
    )
    return Table("left_out", "Jobs that are not counted", caption, columns, rows)


def run_table(study: Study) -> Table:
    """Every run."""
    method = {id(run): cell.method for cell in study.cells for run in cell.runs}
    rows: list[list[Value]] = [
        [
            run.name, method[id(run)], run.env, run.seed, run.status, run.score,
            run.score_kind if run.score is not None else None, run.episodes or None, run.train_return,
            run.step, word(run.unit), run.seconds.get("total"), run.source, run.place,
        ]
        for run in study.runs
    ]  # fmt: skip
    columns = (
        "run", "method", "task", "seed", "status", "score", "which is", "episodes", "training return",
        "steps", "counting", "seconds", "logged by", "where",
    )  # fmt: skip
    return Table("runs", "Every run", "A row for each run that was found.", columns, rows)


def provenance_table(study: Study, same: bool) -> Table:
    """What all runs have in common, or what differs among them."""
    known = [run.provenance for run in study.runs if run.provenance]
    keys = dict.fromkeys(key for one in known for key in one)
    rows: list[list[Value]] = []
    for key in keys:
        values = [one.get(key, NOTHING) for one in known]
        apart = [_span(values)] if key == "started" else list(dict.fromkeys(values))
        if same == (len(apart) == 1):
            counted = [f"{value} ({values.count(value)})" for value in apart[:5]]
            more = [f"and {len(apart) - 5} more"] if len(apart) > 5 else []
            rows.append([key, apart[0] if same else "; ".join([*counted, *more])])
    if same:
        caption = f"The same in all {len(known)} runs that say where they come from."
        caption = caption if len(known) > 1 else "As the run says it."
        return Table("provenance", "The same in all runs", caption, ("what", "value"), rows)
    caption = "In brackets how many runs have the value."
    return Table("provenance_differs", "What differs among runs", caption, ("what", "values"), rows)


def _line(band: Band, places: dict[str, int], kind: str, more: str = "") -> Line:
    other = f", {band.kind}" if band.kind != kind else ""
    said = f"n = {band.runs}{other}" + (f", {more}" if more else "")
    return Line(
        band.method, places[band.method], band.steps, band.estimate, band.low, band.high, said
    )


def _train(result: CellResult) -> float | None:
    known = [r.train_return for r in result.cell.counted if r.train_return is not None]
    return sum(known) / len(known) if known else None


def _setting(study: Study, key: str, method: str) -> str | None:
    """`0.001`, or `8 (CartPole-v1); 16 (Acrobot-v1)`."""
    of: dict[str, list[str]] = {}
    for cell in study.cells:
        for run in cell.runs if cell.method == method else ():
            if key in run.settings:
                tasks = of.setdefault(shown(key, run.settings[key]), [])
                tasks += [cell.task] if cell.task not in tasks else []
    if len(of) < 2:
        return next(iter(of), None)
    return "; ".join(f"{value} ({', '.join(tasks)})" for value, tasks in of.items())


def _counts(bands: Iterator[Band] | Sequence[Band]) -> str:
    return _said((band.method, band.runs) for band in bands)


def _said(pairs: Iterator[tuple[str, int]]) -> str:
    """`n: a2c 3, ppo 2 to 3.`"""
    of: dict[str, set[int]] = {}
    for method, runs in pairs:
        of.setdefault(method, set()).add(runs)
    parts = [
        f"{method} {min(n)}" + (f" to {max(n)}" if len(n) > 1 else "") for method, n in of.items()
    ]
    return f"n: {', '.join(parts)}." if parts else ""


def _span(times: Sequence[str]) -> str:
    first, last = min(times), max(times)
    return first if first == last else f"{first} to {last}"


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _speed(times: Times) -> str:
    return f", {times.rate.value:,.0f} {word(times.unit)}/s" if times.rate else ""


def _why(score: float | None) -> str:
    return "it has no score" if score is None else ""
