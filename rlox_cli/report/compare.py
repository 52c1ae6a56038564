"""`report.json`, which has the figures of a report, and `expected.json`, which has those it should have."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError, RloxError
from rlox.statistics import Interval
from rlox.statistics.expected import Verdict, compare
from rlox_cli.report.records import text
from rlox_cli.report.results import CellResult, Results
from rlox_cli.report.tables import Estimate, Table, Value, shown

SCHEMA_VERSION = 1
OWN = "rlox"  # what an experiment's file calls the runs that are not a baseline's
OVERALL, PAIRS = "all tasks", "improvement"  # the parts of a report beside `tasks`
LEVEL = "99%"


def document(title: str, results: Results) -> dict[str, Any]:
    """The content of `report.json`: every figure that another run of the same can be held against."""
    tasks: dict[str, dict[str, Any]] = {}
    for result in results.cells:
        tasks.setdefault(result.cell.task, {})[result.cell.method] = _cell(result)
    data: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "title": title, "tasks": tasks}
    fewest = {
        method: min(r.n for r in results.cells if r.cell.method == method)
        for method in {r.cell.method for r in results.cells}
    }
    if len(tasks) > 1:
        over = {
            a.method: _entry("iqm", a.iqm) | {"runs": a.runs, "seeds": fewest[a.method]}
            for a in results.aggregates
        }
        data[OVERALL] = {"scale": results.scale, **over}
    data[PAIRS] = {
        f"{b.x} over {b.y}": _entry("estimate", b.estimate)
        | {"runs": min(b.runs, b.others), "seeds": min(fewest[b.x], fewest[b.y])}
        for b in results.better
    }
    return data


def load(path: Path) -> dict[str, Any]:
    """The figures that are expected, named as a report names them."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"expected={path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"expected={path}: no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"expected={path}: expected a mapping, as a report writes report.json")
    wanted = {"tasks": data["tasks"] if "tasks" in data else _legs(data)}
    if not isinstance(wanted["tasks"], dict) or not wanted["tasks"]:
        raise ConfigError(
            f"expected={path}: no figures in it: expected tasks, as in report.json, or parts with algo, "
            "env and rlox"
        )
    if "tasks" in data:
        wanted |= {part: data[part] for part in (OVERALL, PAIRS) if part in data}
    return wanted | {"schema_version": data.get("schema_version", SCHEMA_VERSION)}


def verdicts(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[Verdict]:
    """Which of the expected figures agree with those found."""
    try:
        every = compare(_comparable(expected), _comparable(found))
    except (RloxError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"expected=: its figures cannot be compared: {error}") from error
    known = [verdict for verdict in every if verdict.expected is not None]
    if _scale(expected) == _scale(found):
        return known
    return [_on_another_scale(v) if v.figure.startswith(f"{OVERALL}/") else v for v in known]


def _comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a document; one that has no interval, as of single runs, is a figure too."""
    kept = {"schema_version": data["schema_version"], "tasks": data["tasks"]}
    for part in (OVERALL, PAIRS):
        if isinstance(entries := data.get(part, {}), dict):
            kept[part] = {
                name: {"ci95": [None, None], **entry}
                for name, entry in entries.items()
                if isinstance(entry, dict)
            }
    return kept


def _scale(data: Mapping[str, Any]) -> Any:
    """What is 0 and what is 1 in the figures over all tasks, in words."""
    overall = data.get(OVERALL)
    return overall.get("scale") if isinstance(overall, dict) else None


def _on_another_scale(verdict: Verdict) -> Verdict:
    """Scores on another scale may differ where no run does, and agree where all do."""
    if verdict.found is None:
        return verdict
    because = "on another scale: give both reports the same ranges"
    return Verdict(verdict.figure, verdict.expected, verdict.found, None, because)


def fails(verdicts: Sequence[Verdict]) -> bool:
    """Whether something that is expected is not there, or is another thing."""
    return any(v.agrees is False or v.found is None for v in verdicts)


def table(verdicts: Sequence[Verdict]) -> Table:
    """A row for each expected figure."""
    rows: list[list[Value]] = [
        [
            text(v.figure.removeprefix("tasks/")), _estimate(v.expected), _estimate(v.found),
            _estimate(v.difference), v.word, text(v.because),
        ]
        for v in verdicts
    ]  # fmt: skip
    caption = (
        f"Found minus expected with its {LEVEL} interval, from the scores of both where the file has "
        "them: a figure differs where the interval does not hold 0. Of a hundred figures that are the "
        "same about one is said to differ."
    )
    columns = (
        "figure", "expected [95% CI]", "found [95% CI]", f"difference [{LEVEL} CI]", "verdict", "because",
    )  # fmt: skip
    return Table("expected", "Compared with what is expected", caption, columns, rows)


def summed(verdicts: Sequence[Verdict]) -> str:
    """`3 of 4 expected figures agree, 1 differs`."""
    words = Counter(v.word for v in verdicts)
    said = f"{words['agrees']} of {len(verdicts)} expected figures agree"
    if count := words["differs"]:
        said += f", {count} differ{'s' * (count == 1)}"
    return said + (f", of {words['unknown']} nothing can be said" if words["unknown"] else "")


def line(verdict: Verdict) -> str:
    """What is said of a figure in the terminal."""
    pair = f"expected {shown(_estimate(verdict.expected))}, found {shown(_estimate(verdict.found))}"
    because = f" ({verdict.because})" if verdict.because else ""
    return f"{verdict.word}: {text(verdict.figure.removeprefix('tasks/'))}: {pair}{because}"


def _legs(data: Mapping[str, Any]) -> dict[str, Any]:
    """The legs of an experiment, each of one algorithm and one environment, as a report names them."""
    tasks: dict[str, dict[str, Any]] = {}
    for leg in data.values():
        if not isinstance(leg, Mapping) or not {"algo", "env"} <= set(leg):
            continue
        algo, env = str(leg["algo"]), str(leg["env"])
        for system, figure in leg.items():
            if isinstance(figure, Mapping) and "ci95" in figure and system != "difference":
                method = algo if system == OWN else f"{system}: {algo}"
                tasks.setdefault(env, {})[method] = {**figure, **_total(leg.get("total_steps"))}
    return tasks


def _cell(result: CellResult) -> dict[str, Any]:
    totals = {run.settings.get("total_steps") for run in result.cell.counted}
    total = totals.pop() if len(totals) == 1 else None
    scores = [float(score) for score in result.cell.scores]
    figure = _entry("iqm", result.iqm)
    return figure | {"scores": scores, "seeds": result.n} | _total(total)


def _total(steps: Any) -> dict[str, int]:
    return {"total_steps": int(steps)} if isinstance(steps, int | float) else {}


def _entry(kind: str, estimate: Estimate) -> dict[str, Any]:
    known = estimate.low is not None and estimate.high is not None
    return {kind: estimate.value} | ({"ci95": [estimate.low, estimate.high]} if known else {})


def _estimate(interval: Interval | None) -> Estimate | None:
    if interval is None or not math.isfinite(interval.estimate):
        return None
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return Estimate(interval.estimate, *((interval.low, interval.high) if known else (None, None)))
