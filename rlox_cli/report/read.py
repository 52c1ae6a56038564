"""Read rlox's run folders as plain records; they may be untrusted, damaged, or still being written."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS, dotted_items, make_run
from rlox.disk import read_file
from rlox.errors import ConfigError
from rlox_cli.report.records import (
    FINAL,
    LOSS_PREFIX,
    MAX_REASON_LENGTH,
    MEASURES,
    TRAINING,
    Curve,
    Run,
    finite_number,
    make_curve,
    safe_text,
)
from rlox_cli.runs.identity import result_config
from rlox_cli.runs.run_folder import DONE, RUNNING, UNREADABLE, is_locked, read_config
from rlox_cli.search.settings import SEARCH_FILES
from rlox_cli.sweeps.summary import COLUMNS

# Keys that tell no methods apart: the seed, and how a run is logged, saved and spread over a machine.
NON_SETTING_KEYS = ("seed", "logger", "log", "checkpoint", "run", "run_root", "dry_run", "threads")
EVAL_EVERY_KEY = "eval.every"
RUN_FILES = {"metrics.jsonl", "status.json", "result.json"}
JSON_FILES = ("status.json", "result.json", "provenance.json")
DIED = "died"
NUMBER_PATTERN = re.compile(r"([0-9]{1,18})")
EXCLUDED_PROVENANCE_KEYS = ("schema_version", "seeds.run", "resume_grade")
SOURCE = "rlox"


def run_folders(path: Path) -> Iterator[Path]:
    """Yield the run folders at and below a path, without attempts that a sweep set aside."""
    for folder, folders, files in os.walk(path):
        if RUN_FILES & set(files):
            folders.clear()
            yield Path(folder)
        subfolders = [name for name in folders if name[0] != "." and ".attempt" not in name]
        folders[:] = sorted(subfolders, key=_natural_sort_key)


def sweep_kind(folder: Path) -> str:
    """Return `search` or `sweep` by the files beside the runs of a folder; empty for other folders."""
    if any((folder / name).exists() for name in SEARCH_FILES):
        return "search"
    with suppress(OSError, ValueError), (folder / "summary.csv").open(encoding="utf-8") as file:
        return "sweep" if set(file.readline().strip().split(",")) == set(COLUMNS) else ""
    return ""


def unstarted_jobs(sweep: Path, started_names: set[str]) -> Iterator[Run]:
    """Yield the unfinished jobs that a sweep's summary lists and that have no folder."""
    with suppress(OSError, ValueError, csv.Error):
        with (sweep / "summary.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row.get("status") and row.get("job") not in started_names and row["status"] != DONE:
                yield Run(
                    name=safe_text(row.get("job")),
                    path=safe_text(sweep),
                    source=SOURCE,
                    algo=safe_text(row.get("algo")) or "?",
                    env=safe_text(row.get("env")) or "?",
                    seed=int(row["seed"]) if (row.get("seed") or "").isdigit() else None,
                    status=safe_text(row["status"]),
                    reason=safe_text(row.get("reason"), MAX_REASON_LENGTH),
                )


def read_run(folder: Path, label: str = "") -> Run:
    """Read one run folder; leave out missing and damaged data."""
    result, status = _read_mapping(folder / "result.json"), _read_mapping(folder / "status.json")
    settings, config = _settings(folder)
    unit = safe_text(result.get("unit") or _unit(config)) or "env_steps"
    rows, unreadable_lines = _read_rows(folder / "metrics.jsonl")
    state, score = _state(folder, status), finite_number(result.get("score"))
    has_no_evaluation = not result.get("episodes") and result.get("score") is None
    final_step = finite_number(result.get(unit))
    step = final_step if final_step is not None else finite_number(status.get("step"))
    evaluations = _points(rows, unit, "eval/return_mean")
    if final_step is not None and score is not None:
        evaluations = {s: v for s, v in evaluations.items() if s < final_step} | {final_step: score}
    training = finite_number(result.get("train_return_last100"))
    seconds = {k: v for k, v in _numbers(result.get("seconds")).items() if v is not None}
    run = config.get("run")
    return Run(
        name=safe_text(folder.name or folder.resolve().name),
        path=safe_text(folder, MAX_REASON_LENGTH),
        source=SOURCE,
        label=label,
        user_name=safe_text(run.get("name")) if isinstance(run, Mapping) else "",
        algo=safe_text(result.get("algo") or settings.get("algo.name")) or "?",
        env=safe_text(result.get("env") or settings.get("env.id")) or "?",
        seed=_int_or_none(result.get("seed", config.get("seed"))),
        unit=unit,
        status=state,
        reason=safe_text(
            _flaw(folder, state, result) or status.get("reason") or result.get("reason"), MAX_REASON_LENGTH
        ),
        step=int(step or 0),
        score=training if state == DONE and has_no_evaluation else score,
        score_kind=FINAL if score is not None else TRAINING,
        episodes=len(result["episodes"]) if isinstance(result.get("episodes"), list) else 0,
        train_return=training,
        seconds=seconds,
        rate=_numbers(result.get("steps_per_second")).get("total"),
        evaluations=make_curve(evaluations),
        training=make_curve(_points(rows, unit, "train/return_mean")),
        measures=_measures(rows, unit),
        settings={k: v for k, v in settings.items() if _is_setting(k)},
        provenance=_provenance(_read_mapping(folder / "provenance.json")),
        unreadable_lines=unreadable_lines,
        damaged_files=tuple(_damaged_files(folder, config)),
    )


def _natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Return the sort key that puts `2_x` before `10_x`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in NUMBER_PATTERN.split(name)]


def _state(folder: Path, status: Mapping[str, Any]) -> str:
    """Return the state of the run; its lock decides whether it is running, as in `rlox list runs`."""
    locked = is_locked(folder)
    if locked:
        return RUNNING
    state = safe_text(status.get("status")) or UNREADABLE
    return DIED if state == RUNNING and locked is False else state


def _flaw(folder: Path, state: str, result: Mapping[str, Any]) -> str:
    """Describe the damaged or missing file without which a run does not count; empty if there is none."""
    name = {UNREADABLE: "status.json", DONE: "result.json"}.get(state)
    if name is None:
        return ""
    score = result.get("score")
    if state == DONE and result:
        has_invalid_score = score is not None and finite_number(score) is None
        return (
            f"{name} is damaged: its score is {safe_text(score)!r}, not a number" if has_invalid_score else ""
        )
    problem = "damaged" if (folder / name).exists() else "missing"
    return f"{name} is {problem}; rlox resume goes on without it, and writes it again"


def _settings(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every leaf of the configuration as validated today, and the configuration as written."""
    try:
        config = read_config(folder)
    except (ConfigError, OSError):
        return {}, {}
    try:
        return dict(dotted_items(result_config(make_run(config)))), config
    except ConfigError:  # written by another version
        return dict(dotted_items(config)), config


def _is_setting(key: str) -> bool:
    return key.split(".")[0] not in NON_SETTING_KEYS and key != EVAL_EVERY_KEY


def _unit(config: Mapping[str, Any]) -> str:
    algo = config.get("algo")
    name = algo.get("name") if isinstance(algo, Mapping) else None
    return ALGO_CONFIGS[name].unit if isinstance(name, str) and name in ALGO_CONFIGS else ""


def _damaged_files(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files of a run that exist and cannot be read."""
    data_by_name = {name: _read_mapping(folder / name) for name in JSON_FILES} | {"config.yaml": config}
    yield from (name for name, data in data_by_name.items() if not data and (folder / name).exists())


def _read_mapping(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        data = json.loads(read_file(path))
        if isinstance(data, dict):
            return data
    return {}


def _read_rows(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the whole rows of a JSON-lines file, and the number of damaged lines."""
    rows, unreadable_lines = [], 0
    try:
        lines = read_file(path).split(b"\n")
    except OSError:
        return [], 0
    for line in lines[:-1]:  # text after the last newline is still being written
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            unreadable_lines += 1
    return rows, unreadable_lines


def _points(rows: list[dict[str, Any]], unit: str, name: str) -> dict[float, float]:
    """Return the last value of a column at each step."""
    pairs = ((finite_number(row.get(unit)), finite_number(row.get(name))) for row in rows if name in row)
    return {step: value for step, value in pairs if step is not None and value is not None}


def _measures(rows: list[dict[str, Any]], unit: str) -> dict[str, Curve]:
    """Return the curves of losses, entropy and similar metrics, by name."""
    names = dict.fromkeys(k for row in rows for k in row if k.startswith(LOSS_PREFIX) or k in MEASURES)
    return {safe_text(name): make_curve(_points(rows, unit, name)) for name in names}


def _numbers(data: Any) -> dict[str, float | None]:
    return {str(k): finite_number(v) for k, v in data.items()} if isinstance(data, Mapping) else {}


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _provenance(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance of a run, one line of text for each key."""
    try:
        flat = dict(dotted_items(data))
    except RecursionError:
        return {}
    git = data.get("git")
    if isinstance(git, Mapping):
        dirty_text = " with changes" if git.get("dirty") else ""
        flat = {k: v for k, v in flat.items() if not k.startswith("git.")}
        flat = {"git": f"{safe_text(git.get('sha'))[:12] or 'no commit'}{dirty_text}"} | flat
    kept_values = {k: v for k, v in flat.items() if v is not None and k not in EXCLUDED_PROVENANCE_KEYS}
    return {safe_text(k): safe_text(v, MAX_REASON_LENGTH) for k, v in kept_values.items()}
