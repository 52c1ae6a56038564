"""The tables and figures of a report; captions say what the numbers are and from how many runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlox.runs.progress import unit_label
from rlox_cli.report.figures import Bar, Figure, Line, Panel, Row
from rlox_cli.report.records import AXIS_LABELS, TIMED_PARTS
from rlox_cli.report.results import Band, CellResult, Results, TimeBreakdown
from rlox_cli.report.study import Study, format_setting, varying_keys
from rlox_cli.report.tables import MISSING_TEXT, Table, Value

INTERVAL = "Intervals: 95%, stratified bootstrap over the n runs (seeds); none where a task has one run."
MAX_METHOD_COLUMNS = 8
MAX_PANELS = 24  # per figure


def score_table(results: Results) -> Table:
    """Build the table of scores: a row for each method on each task."""
    rows: list[list[Value]] = [
        [r.cell.method, r.cell.task, r.n, r.iqm, r.mean, r.median, r.lowest, r.highest, _training_return(r)]
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


def score_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of every run's score beside their IQM, a panel for each task."""
    panels = []
    for task in sorted({r.cell.task for r in results.cells}):
        task_results = [r for r in results.cells if r.cell.task == task and r.cell.method in style_indices]
        rows = [
            Row(
                f"{r.cell.method} (n = {r.n})",
                style_indices[r.cell.method],
                r.iqm,
                [(float(run.score or 0.0), f"seed {run.seed}") for run in r.cell.counted_runs],
            )
            for r in task_results
        ]
        panels.append(Panel(task, "return of the final evaluation", rows=rows))
    caption = (
        "Open marks: the score of each run. Filled marks: their IQM, with its interval as a bar where there "
        f"is more than one run. {INTERVAL}"
    )
    return Figure("scores", "Final evaluation", caption, [p for p in panels if p.rows])


def curve_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of learning curves, a panel for each task."""
    panels = [
        Panel(
            f"{curves.task}: {curves.kind}",
            AXIS_LABELS.get(curves.unit, curves.unit),
            "return",
            lines=[_band_line(band, style_indices, curves.kind) for band in curves.bands],
        )
        for curves in results.curves
    ]
    caption = (
        "Lines: the IQM over runs at each step; bands: its interval. An evaluation during training is played "
        "without exploration in environments of its own; a training return is the mean of the last 100 "
        "episodes while learning. A run that ended early keeps its last value. "
        f"{INTERVAL} {_band_counts_text(band for c in results.curves for band in c.bands)}"
    )
    return Figure("learning_curves", "Learning curves", caption, panels)


def measure_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of losses, entropy and similar metrics, a panel for each task and metric."""
    panels = [
        Panel(
            f"{curves.task}: {curves.kind}",
            AXIS_LABELS.get(curves.unit, curves.unit),
            curves.kind,
            lines=[_band_line(band, style_indices, curves.kind) for band in curves.bands],
        )
        for curves in results.measures
    ]
    caption = (
        "Lines: the IQM over runs of the metrics of updates, without intervals. Losses of different "
        f"algorithms cannot be compared. {_band_counts_text(b for c in results.measures for b in c.bands)}"
    )
    if len(panels) > MAX_PANELS:
        caption += f" The first {MAX_PANELS} of {len(panels)} are shown; metrics.jsonl has all."
    return Figure("measures", "Losses and entropy", caption, panels[:MAX_PANELS])


def aggregate_table(results: Results) -> Table:
    """Build the table of aggregates: a row for each method over its tasks."""
    gaps = any(a.optimality_gap for a in results.overall)
    rows: list[list[Value]] = []
    for a in results.overall:
        row: list[Value] = [a.method, a.tasks, a.runs, a.iqm, a.median, a.mean]
        rows.append([*row, a.optimality_gap] if gaps else row)
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


def profile_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of performance profiles."""
    lines = [
        Line(
            s.method, style_indices[s.method], s.thresholds, s.fraction, s.low, s.high,
            f"{s.runs} run{'s' * (s.runs != 1)} on {_tasks_text(s.tasks)}",
        )
        for s in results.profile
        if s.method in style_indices
    ]  # fmt: skip
    caption = (
        "The fraction of a method's runs that score above each threshold: higher is better, and a line "
        f"that is nowhere below another's is better throughout. Scale: {results.scale}. {INTERVAL} "
        + _run_counts_text((s.method, s.runs) for s in results.profile if s.method in style_indices)
    )
    panel = Panel(
        "Runs above a score",
        "score τ",
        "fraction of runs with score > τ",
        lines=lines,
        is_stepped=True,
    )
    return Figure("profile", "Performance profile", caption, [panel])


def improvement_table(results: Results) -> Table:
    """Build the table of probabilities of improvement: a row for each pair of methods."""
    rows: list[list[Value]] = [
        [b.x, b.y, b.tasks, b.runs, b.other_runs, b.estimate] for b in results.improvements
    ]
    caption = (
        "The probability that a run of X has a higher score than a run of Y on the same task (ties count "
        f"half), as a mean over the tasks that both have. 0.5 is even: if the interval contains it, neither "
        f"is shown to be better. {INTERVAL}"
    )
    return Table(
        "improvement",
        "Probability of improvement",
        caption,
        ("X", "Y", "tasks", "n of X", "n of Y", "P(X > Y) [95% CI]"),
        rows,
    )


def improvement_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of probabilities of improvement, with a line at an even chance."""
    rows = [
        Row(f"{b.x} over {b.y}", style_indices[b.x], b.estimate)
        for b in results.improvements
        if b.x in style_indices and b.y in style_indices
    ][:20]
    panel = Panel("X over Y", "P(X > Y)", rows=rows, reference_line=0.5, is_unit_range=True)
    caption = (
        "Bars: the 95% interval of each pair in the table below, where there is one. The dotted line is an "
        "even chance."
    )
    return Figure("improvement", "Probability of improvement", caption, [panel] if rows else [])


def efficiency_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of the IQM over all tasks while learning."""
    lines = [
        _band_line(b, style_indices, b.kind, _tasks_text(b.tasks))
        for b in results.efficiency
        if b.method in style_indices
    ]
    caption = (
        "The IQM over all runs of all tasks at each step, from the same returns as the learning curves. "
        f"Scale: {results.scale}; while learning, returns may be below 0. {INTERVAL} "
        f"{_band_counts_text(results.efficiency)}"
    )
    scaled = results.is_normalized
    y = "IQM, final scores from 0 to 1" if scaled else "IQM"
    panel = Panel(
        "All tasks", results.efficiency_unit, y, lines=lines, visible_y=(0.0, 1.0) if scaled else ()
    )
    return Figure("sample_efficiency", "Sample efficiency", caption, [panel])


def time_table(results: Results) -> Table:
    """Build the table of seconds: a row for each method on each task."""
    rows: list[list[Value]] = [
        [
            t.method,
            t.task,
            t.n,
            *map(t.parts.get, (*TIMED_PARTS, "rest")),
            t.total,
            t.rate,
            unit_label(t.unit),
        ]
        for t in results.times
    ]
    columns = (
        "method", "task", "n", *(f"{part} s" for part in (*TIMED_PARTS, "rest")), "total s",
        "per second [slowest, fastest]", "counting",
    )  # fmt: skip
    caption = (
        "Wall-clock seconds as means over n runs: collecting experience, updating, evaluating, the rest "
        "(logs, checkpoints). Steps per second are those of the whole run; in brackets the slowest and the "
        "fastest run, which is no confidence interval. Runs that shared a machine slowed one another."
    )
    return Table("time", "Where the time goes", caption, columns, rows)


def time_figure(results: Results, style_indices: dict[str, int]) -> Figure:
    """Build the figure of each method's seconds, a panel for each task."""
    panels = []
    for task in sorted({t.task for t in results.times}):
        task_times = [t for t in results.times if t.task == task and t.method in style_indices]
        bars = [Bar(f"{t.method} (n = {t.n}){_speed_text(t)}", t.parts) for t in task_times]
        panels.append(Panel(task, "seconds", bars=bars))
    caption = "Wall-clock seconds as means over n runs, as in the table below."
    return Figure("time", "Where the time goes", caption, [p for p in panels if p.bars])


def settings_table(study: Study) -> Table | None:
    """Build the table of keys that differ between configurations; `None` if no key does."""
    cells = [cell for cell in study.cells if any(run.settings for run in cell.runs)]
    keys = [
        key
        for key in varying_keys([run.settings for cell in cells for run in cell.runs if run.settings])
        if key not in ("env.id", "algo.name")
    ]
    methods = list(dict.fromkeys(cell.method for cell in cells))
    if not keys:
        return None
    values = {(key, m): _setting_text(study, key, m) for key in keys for m in methods}
    caption = (
        f"Only keys whose values are not the same in all runs; {MISSING_TEXT} where a method has no such "
        "key. Where a value depends on the task, the tasks are named."
    )
    rows: list[list[Value]]
    if len(methods) > MAX_METHOD_COLUMNS:
        columns = ["method", *keys]
        rows = [[m, *(values[key, m] for key in keys)] for m in methods]
    else:
        columns = ["key", *methods]
        rows = [[key, *(values[key, m] for m in methods)] for key in keys]
    return Table("settings", "What differs between configurations", caption, columns, rows)


def left_out_table(study: Study) -> Table:
    """Build the table of jobs whose scores are in no table, with the reasons."""
    rows: list[list[Value]] = [
        [
            run.name,
            run.algo,
            run.env,
            run.seed,
            run.status,
            run.step,
            run.reason or _missing_score_reason(run.score),
        ]
        for run in study.left_out
    ]
    columns = ("job", "algorithm", "task", "seed", "status", "step", "reason")
    caption = "Jobs that failed, were killed or pruned, or are still running. Their scores are in no table."
    return Table("left_out", "Jobs that are not counted", caption, columns, rows)


def run_table(study: Study) -> Table:
    """Build the table of all runs."""
    method = {id(run): cell.method for cell in study.cells for run in cell.runs}
    rows: list[list[Value]] = [
        [
            run.name, method[id(run)], run.env, run.seed, run.status, run.score,
            run.score_kind if run.score is not None else None, run.episodes or None, run.train_return,
            run.step, unit_label(run.unit), run.seconds.get("total"), run.source, run.path,
        ]
        for run in study.runs
    ]  # fmt: skip
    columns = (
        "run", "method", "task", "seed", "status", "score", "which is", "episodes", "training return",
        "steps", "counting", "seconds", "logged by", "where",
    )  # fmt: skip
    return Table("runs", "Every run", "A row for each run that was found.", columns, rows)


def provenance_table(study: Study, only_common: bool) -> Table:
    """Build the table of provenance that all runs have in common, or that differs among them."""
    provenances = [run.provenance for run in study.runs if run.provenance]
    keys = dict.fromkeys(key for provenance in provenances for key in provenance)
    rows: list[list[Value]] = []
    for key in keys:
        values = [provenance.get(key, MISSING_TEXT) for provenance in provenances]
        distinct = [_time_span(values)] if key == "started" else list(dict.fromkeys(values))
        if only_common == (len(distinct) == 1):
            counts_text = [f"{value} ({values.count(value)})" for value in distinct[:5]]
            omitted_text = [f"and {len(distinct) - 5} more"] if len(distinct) > 5 else []
            rows.append([key, distinct[0] if only_common else "; ".join([*counts_text, *omitted_text])])
    if only_common:
        caption = f"The same in all {len(provenances)} runs with provenance."
        caption = caption if len(provenances) > 1 else "The provenance of the run."
        return Table("provenance", "The same in all runs", caption, ("what", "value"), rows)
    caption = "In brackets: the number of runs with the value."
    return Table("provenance_differs", "What differs among runs", caption, ("what", "values"), rows)


def _band_line(band: Band, style_indices: dict[str, int], kind: str, suffix: str = "") -> Line:
    kind_text = f", {band.kind}" if band.kind != kind else ""
    hover_text = f"n = {band.runs}{kind_text}" + (f", {suffix}" if suffix else "")
    return Line(
        band.method, style_indices[band.method], band.steps, band.estimate, band.low, band.high, hover_text
    )


def _training_return(result: CellResult) -> float | None:
    returns = [r.train_return for r in result.cell.counted_runs if r.train_return is not None]
    return sum(returns) / len(returns) if returns else None


def _setting_text(study: Study, key: str, method: str) -> str | None:
    """Return a method's value of a key: `0.001`, or `8 (CartPole-v1); 16 (Acrobot-v1)`."""
    tasks_by_value: dict[str, list[str]] = {}
    for cell in study.cells:
        for run in cell.runs if cell.method == method else ():
            if key in run.settings:
                tasks = tasks_by_value.setdefault(format_setting(key, run.settings[key]), [])
                tasks += [cell.task] if cell.task not in tasks else []
    if len(tasks_by_value) < 2:
        return next(iter(tasks_by_value), None)
    return "; ".join(f"{value} ({', '.join(tasks)})" for value, tasks in tasks_by_value.items())


def _band_counts_text(bands: Iterator[Band] | Sequence[Band]) -> str:
    return _run_counts_text((band.method, band.runs) for band in bands)


def _run_counts_text(pairs: Iterator[tuple[str, int]]) -> str:
    """Return the numbers of runs by method, such as `n: a2c 3, ppo 2 to 3`."""
    runs_by_method: dict[str, set[int]] = {}
    for method, runs in pairs:
        runs_by_method.setdefault(method, set()).add(runs)
    parts = [
        f"{method} {min(n)}" + (f" to {max(n)}" if len(n) > 1 else "") for method, n in runs_by_method.items()
    ]
    return f"n: {', '.join(parts)}." if parts else ""


def _time_span(times: Sequence[str]) -> str:
    first, last = min(times), max(times)
    return first if first == last else f"{first} to {last}"


def _tasks_text(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _speed_text(times: TimeBreakdown) -> str:
    return f", {times.rate.value:,.0f} {unit_label(times.unit)}/s" if times.rate else ""


def _missing_score_reason(score: float | None) -> str:
    return "it has no score" if score is None else ""
