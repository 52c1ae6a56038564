"""`summary.csv` and `summary.md` of a sweep, rebuilt from the job folders."""

from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlox.configs import RunConfig, dotted_items
from rlox.configs.offline import NO_ENV
from rlox.statistics import iqm, stratified_bootstrap
from rlox_cli.runs.identity import job_folders, result_config, saved_identity, saved_run
from rlox_cli.runs.run_folder import DONE, FAILED, UNREADABLE, read_result, read_status, write_text
from rlox_cli.runs.summary import format_number
from rlox_cli.shell.help import value_text

NOT_STARTED = "not started"
PRUNED = "pruned"  # ended early on purpose: neither done nor failed
# `steps` count the job's `unit`; `env_steps` is empty where only another unit's count is known.
COLUMNS = (
    "job",
    "status",
    "algo",
    "env",
    "seed",
    "unit",
    "steps",
    "env_steps",
    "score",
    "score_ci95_low",  # ends of the interval of `score`, which is a mean
    "score_ci95_high",
    "score_iqm",
    "seconds",
    "reason",
)
GROUP_COLUMNS = (
    "algo",
    "env",
    "seeds",
    "iqm",
    "ci95_low",
    "ci95_high",
    "mean",
    "std",
    "lowest",
    "highest",
    "settings",
)
SETTINGS = "settings"  # a row's configuration without the seed, for grouping


def write_summary(
    folder: Path, outcomes: Sequence[Mapping[str, Any]], missing: Mapping[str, RunConfig]
) -> str:
    """Write both summaries and return the text for the terminal.

    `missing` are planned jobs that have neither a folder nor an outcome.
    """
    started_dirs = [path for path in job_folders(folder) if (path / "status.json").exists()]
    known_identities = set(map(saved_identity, started_dirs))
    rows = [_run_row(path) for path in started_dirs]
    without_folder = [outcome for outcome in outcomes if outcome["folder"] is None]
    rows += [
        _outcome_row(outcome) for outcome in without_folder if outcome["identity"] not in known_identities
    ]
    rows += [_config_row(config) | {"job": job, "status": NOT_STARTED} for job, config in missing.items()]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "summary.csv", buffer.getvalue())
    table = "\n".join(_table(COLUMNS, rows))
    groups = list(_group_rows(rows))
    group_table = "\n".join(_table(GROUP_COLUMNS, groups))
    write_text(folder / "summary.md", f"# {folder.name}\n\n{group_table}\n\n## Jobs\n\n{table}\n")
    return _closing_text(folder, rows, groups, outcomes)


def _group_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield groups of runs that differ only in their seed, with the settings of each group."""
    runs_by_task: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["status"] == DONE and row["score"] not in ("", None):
            runs_by_task[row["algo"], row["env"]].append(row)
    for (algo, env), members in sorted(runs_by_task.items()):
        scores: dict[str, list[float]] = defaultdict(list)
        varying_keys = _varying_keys([row[SETTINGS] for row in members])
        for row in members:
            settings_parts = [f"{k}={value_text(row[SETTINGS].get(k, 'unset'))}" for k in varying_keys]
            scores[", ".join(settings_parts)].append(row["score"])
        for settings, values in scores.items():
            yield {
                "algo": algo,
                "env": env,
                "seeds": len(values),
                **_seed_statistics(values),
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else "",
                "lowest": min(values),
                "highest": max(values),
                "settings": settings,
            }


def _seed_statistics(scores: Sequence[float]) -> dict[str, Any]:
    """Return the IQM of the scores and its interval over seeds; one seed alone has no interval."""
    values = np.array(scores)
    if len(values) < 2:
        return {"iqm": iqm(values), "ci95_low": "", "ci95_high": ""}
    interval = stratified_bootstrap(values, iqm, rng=np.random.default_rng(0))
    return {"iqm": interval.estimate, "ci95_low": interval.low, "ci95_high": interval.high}


def _varying_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys in which configurations differ."""
    keys = dict.fromkeys(key for setting_values in settings for key in setting_values)
    return [
        key
        for key in keys
        if any(setting_values.get(key) != settings[0].get(key) for setting_values in settings)
    ]


def _run_row(path: Path) -> dict[str, Any]:
    """Return the row of a run folder; a damaged file makes it unreadable and is named as the reason."""
    config = saved_run(path)
    row = _config_row(config) if config else dict.fromkeys(COLUMNS, "") | {SETTINGS: {}}
    row |= {"job": path.name}
    try:
        return row | _status_columns(path, row["unit"]) | _result_columns(path)
    except (OSError, ValueError) as error:
        reason = str(error)
    except (KeyError, TypeError) as error:
        reason = f"{path}: status.json or result.json is damaged: {error!r}"
    return row | {"status": UNREADABLE, "reason": reason}


def _status_columns(path: Path, unit: str) -> dict[str, Any]:
    status = read_status(path)
    columns = {name: status[name] for name in ("status", "reason")} | {"steps": status["step"]}
    is_env_step_count = unit == "env_steps" and read_result(path) is None
    return columns | ({"env_steps": status["step"]} if is_env_step_count else {})


def _result_columns(path: Path) -> dict[str, Any]:
    data = read_result(path)
    if data is None:
        return {}
    row = {k: data[k] for k in ("algo", "env", "seed", "env_steps", "score", "score_iqm")}
    row["unit"] = data.get("unit", "env_steps")
    row["steps"] = data[row["unit"]]
    if len(data["episodes"]) > 1:  # earlier versions gave one episode an interval, too
        row["score_ci95_low"], row["score_ci95_high"] = data["score_ci95"] or ("", "")
    row["seconds"] = data["seconds"]["total"]
    if row["score"] is None and read_status(path)["status"] == DONE:
        if no_score_reason := data.get("unscored"):
            row["reason"] = no_score_reason
        if data["episodes"]:  # an earlier version recorded such a run as done
            row |= {"status": FAILED, "reason": "its score is not finite"}
    return row


def _config_row(config: RunConfig) -> dict[str, Any]:
    """Return the row of a job, as far as its configuration tells."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= {"algo": config.algo.name, "env": config.env.id, "seed": config.seed}
    row |= {"unit": config.algo.unit}
    return row | {SETTINGS: {k: v for k, v in dotted_items(result_config(config)) if k != "seed"}}


def _outcome_row(outcome: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {SETTINGS: {}}
    reason = str(outcome["message"]).splitlines()[0] if outcome["message"] else ""
    return row | {"job": outcome["job"], "status": outcome["status"], "reason": reason}


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return lines + [f"| {' | '.join(_cell(row[c]) for c in columns)} |" for row in rows]


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _group_text(group: Mapping[str, Any]) -> str:
    if group["seeds"] == 1:
        return f"{format_number(group['mean'])} (1 run)"
    statistic_names = ("iqm", "ci95_low", "ci95_high", "mean", "std")
    iqm, low, high, mean, std = (format_number(group[name]) for name in statistic_names)
    return (
        f"IQM {iqm} (95% CI {low} to {high}), mean {mean}, standard deviation {std} ({group['seeds']} runs)"
    )


def _closing_text(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Mapping[str, Any]],
) -> str:
    unfinished = [row for row in rows if row["status"] not in (DONE, PRUNED)]
    n_pruned = sum(row["status"] == PRUNED for row in rows)
    n_done = len(rows) - len(unfinished) - n_pruned
    scoreless = [r for r in rows if r["status"] == DONE and r["env"] != NO_ENV and r["score"] is None]
    n_before = n_done - sum(outcome["status"] == DONE for outcome in outcomes)
    lines = [
        f"{n_done} of {len(rows)} jobs done"
        + f", {n_before} of them before" * (n_before > 0)
        + f", {n_pruned} pruned" * bool(n_pruned)
    ]
    for group in groups:
        name = ", ".join(filter(None, [f"{group['algo']} on {group['env']}", group["settings"]]))
        lines.append(f"  {name}: {_group_text(group)}")
    for row in [*scoreless, *unfinished]:
        status = f"{row['status']}, without a score" if row in scoreless else row["status"]
        lines.append(f"  {status}: {row['job']}: {row['reason']}".rstrip(": "))
    return "\n".join([*lines, f"summary  {folder / 'summary.md'}"])
