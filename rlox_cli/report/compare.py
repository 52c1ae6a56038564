"""`report.json` with the estimates of a report, and their comparison with a file of expected ones."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError, RloxError
from rlox.statistics import Interval
from rlox.statistics.comparison import Verdict, compare
from rlox_cli.report.records import safe_text
from rlox_cli.report.results import CellResult, Results
from rlox_cli.report.tables import IntervalEstimate, Table, Value, format_value

SCHEMA_VERSION = 1
OWN_SYSTEM = "rlox"  # the name of rlox's own runs in an experiment's file
OVERALL_KEY, PAIRS_KEY = "all tasks", "improvement"  # keys of a report beside `tasks`
LEVEL = "99%"


def report_document(title: str, results: Results) -> dict[str, Any]:
    """Build the content of `report.json`: every estimate with which a repetition can be compared."""
    tasks: dict[str, dict[str, Any]] = {}
    for result in results.cells:
        tasks.setdefault(result.cell.task, {})[result.cell.method] = _cell_entry(result)
    data: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "title": title, "tasks": tasks}
    min_seeds = {
        method: min(r.n for r in results.cells if r.cell.method == method)
        for method in {r.cell.method for r in results.cells}
    }
    if len(tasks) > 1:
        aggregate_entries = {
            a.method: _entry("iqm", a.iqm) | {"runs": a.runs, "seeds": min_seeds[a.method]}
            for a in results.aggregates
        }
        data[OVERALL_KEY] = {"scale": results.scale, **aggregate_entries}
    data[PAIRS_KEY] = {
        f"{b.x} over {b.y}": _entry("estimate", b.estimate)
        | {"runs": min(b.runs, b.other_runs), "seeds": min(min_seeds[b.x], min_seeds[b.y])}
        for b in results.improvements
    }
    return data


def load_expected(path: Path) -> dict[str, Any]:
    """Load the expected estimates, under the names that a report uses."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"expected={path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"expected={path}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"expected={path}: expected a mapping, as a report writes report.json")
    expected = {"tasks": data["tasks"] if "tasks" in data else _tasks_from_experiment(data)}
    if not isinstance(expected["tasks"], dict) or not expected["tasks"]:
        raise ConfigError(
            f"expected={path}: no figures in it: expected tasks, as in report.json, or parts with algo, "
            "env and rlox"
        )
    if "tasks" in data:
        expected |= {part: data[part] for part in (OVERALL_KEY, PAIRS_KEY) if part in data}
    return expected | {"schema_version": data.get("schema_version", SCHEMA_VERSION)}


def verdicts(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[Verdict]:
    """Return a verdict for each expected estimate: whether the actual one agrees with it."""
    try:
        all_verdicts = compare(_comparable(expected), _comparable(actual))
    except (RloxError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"expected=: its figures cannot be compared: {error}") from error
    expected_verdicts = [verdict for verdict in all_verdicts if verdict.expected is not None]
    if _scale(expected) == _scale(actual):
        return expected_verdicts
    return [_mark_other_scale(v) if v.figure.startswith(f"{OVERALL_KEY}/") else v for v in expected_verdicts]


def _comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the estimates of a document; those without an interval, as of single runs, are included."""
    comparable = {"schema_version": data["schema_version"], "tasks": data["tasks"]}
    for part in (OVERALL_KEY, PAIRS_KEY):
        if isinstance(entries := data.get(part, {}), dict):
            comparable[part] = {
                name: {"ci95": [None, None], **entry}
                for name, entry in entries.items()
                if isinstance(entry, dict)
            }
    return comparable


def _scale(data: Mapping[str, Any]) -> Any:
    """Return the description of the scale on which the estimates over all tasks are."""
    overall = data.get(OVERALL_KEY)
    return overall.get("scale") if isinstance(overall, dict) else None


def _mark_other_scale(verdict: Verdict) -> Verdict:
    """Make a verdict unknown: on different scales, equal runs can differ and different runs can agree."""
    if verdict.actual is None:
        return verdict
    reason = "on another scale: give both reports the same ranges"
    return Verdict(verdict.figure, verdict.expected, verdict.actual, None, reason)


def has_failures(verdicts: Sequence[Verdict]) -> bool:
    """Return whether an expected estimate is missing or differs."""
    return any(v.agrees is False or v.actual is None for v in verdicts)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Build the table with a row for each expected estimate."""
    rows: list[list[Value]] = [
        [
            safe_text(v.figure.removeprefix("tasks/")),
            _interval_estimate(v.expected),
            _interval_estimate(v.actual),
            _interval_estimate(v.difference),
            v.label,
            safe_text(v.reason),
        ]
        for v in verdicts
    ]
    caption = (
        f"Found minus expected with its {LEVEL} interval, from the scores of both if the file has them. A "
        "figure differs if the interval does not contain 0. Of a hundred equal figures about one differs by "
        "chance."
    )
    columns = (
        "figure", "expected [95% CI]", "found [95% CI]", f"difference [{LEVEL} CI]", "verdict", "because",
    )  # fmt: skip
    return Table("expected", "Compared with what is expected", caption, columns, rows)


def verdict_counts_text(verdicts: Sequence[Verdict]) -> str:
    """Count the verdicts in words: `3 of 4 expected figures agree, 1 differs`."""
    counts = Counter(v.label for v in verdicts)
    text_parts = f"{counts['agrees']} of {len(verdicts)} expected figures agree"
    if count := counts["differs"]:
        text_parts += f", {count} differ{'s' * (count == 1)}"
    return text_parts + (f", {counts['unknown']} unknown" if counts["unknown"] else "")


def verdict_line(verdict: Verdict) -> str:
    """Return the terminal line of a verdict."""
    pair = (
        f"expected {format_value(_interval_estimate(verdict.expected))}, "
        f"found {format_value(_interval_estimate(verdict.actual))}"
    )
    reason_text = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.label}: {safe_text(verdict.figure.removeprefix('tasks/'))}: {pair}{reason_text}"


def _tasks_from_experiment(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an experiment's file, whose legs have one algorithm and one environment each, to `tasks`."""
    tasks: dict[str, dict[str, Any]] = {}
    for leg in data.values():
        if not isinstance(leg, Mapping) or not {"algo", "env"} <= set(leg):
            continue
        algo, env = str(leg["algo"]), str(leg["env"])
        for system, figure in leg.items():
            if isinstance(figure, Mapping) and "ci95" in figure and system != "difference":
                method = algo if system == OWN_SYSTEM else f"{system}: {algo}"
                tasks.setdefault(env, {})[method] = {**figure, **_total(leg.get("total_steps"))}
    return tasks


def _cell_entry(result: CellResult) -> dict[str, Any]:
    totals = {run.settings.get("total_steps") for run in result.cell.counted_runs}
    total = totals.pop() if len(totals) == 1 else None
    scores = [float(score) for score in result.cell.scores]
    figure = _entry("iqm", result.iqm)
    return figure | {"scores": scores, "seeds": result.n} | _total(total)


def _total(steps: Any) -> dict[str, int]:
    return {"total_steps": int(steps)} if isinstance(steps, int | float) else {}


def _entry(kind: str, estimate: IntervalEstimate) -> dict[str, Any]:
    has_interval = estimate.low is not None and estimate.high is not None
    return {kind: estimate.value} | ({"ci95": [estimate.low, estimate.high]} if has_interval else {})


def _interval_estimate(interval: Interval | None) -> IntervalEstimate | None:
    if interval is None or not math.isfinite(interval.estimate):
        return None
    has_interval = math.isfinite(interval.low) and math.isfinite(interval.high)
    return IntervalEstimate(
        interval.estimate, *((interval.low, interval.high) if has_interval else (None, None))
    )
