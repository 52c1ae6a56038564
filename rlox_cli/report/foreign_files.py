"""Read files of other programs: TensorBoard events, CSV exports, SB3's evaluations and monitors."""

from __future__ import annotations

import csv
import json
import logging
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox_cli.report.records import finite_number

EVENT_FILE_PREFIX = "events.out.tfevents"
EVALUATION_COLUMNS = (
    "eval/return_mean", "eval/mean_reward", "eval/episodic_return", "evaluation/return", "test/reward",
)  # fmt: skip
EPISODE_COLUMNS = ("charts/episodic_return", "episodic_return", "episode_return")  # one value per episode
MEAN_COLUMNS = ("train/return_mean", "rollout/ep_rew_mean", "train/reward", "ep_rew_mean")
STEP_COLUMNS = (
    "env_steps", "time/total_timesteps", "total_timesteps", "timesteps", "global_step", "env_step",
    "steps", "step", "_step",
)  # fmt: skip
VALUE_COLUMNS = ("return", "score", "mean_reward", "reward", "value")
METADATA_COLUMNS = {
    "env": ("env", "env_id", "task", "environment"),
    "algo": ("algo", "algorithm", "method", "agent"),
    "seed": ("seed",),
    "run": ("run", "run_id", "run_name", "name"),
}
WINDOW = 100  # episodes in the mean of a training return, as in rlox's own logs
EVALUATION_PATTERN = re.compile(r"eval|test", re.IGNORECASE)


@dataclass(frozen=True)
class Series:
    """The log of one run: returns over steps, and the metadata that the file itself holds."""

    name: str
    path: Path
    source: str
    evaluations: Mapping[float, float] = field(default_factory=dict)
    training: Mapping[float, float] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    episodes: int = 0


def merge(series_list: Sequence[Series]) -> Series:
    """Merge what several files hold of one run; of each kind of data the first file that has it counts."""
    sources = dict.fromkeys(series.source for series in series_list)
    return replace(
        series_list[0],
        source=" + ".join(sources),
        evaluations=next((s.evaluations for s in series_list if s.evaluations), {}),
        training=next((s.training for s in series_list if s.training), {}),
        metadata={key: value for series in reversed(series_list) for key, value in series.metadata.items()},
        episodes=max(series.episodes for series in series_list),
    )


def read_events(folder: Path, name: str, tag: str, kind: str) -> Series:
    """Read the scalars from the TensorBoard event files of one folder."""
    try:
        events: Any = import_module("tensorboard.backend.event_processing.event_accumulator")
        tensors: Any = import_module("tensorboard.util.tensor_util")
    except ImportError as error:
        raise MissingExtraError(
            f"{folder} has TensorBoard events, and tensorboard is not installed: "
            f"{install_command('tensorboard')}"
        ) from error
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    size_guidance = {events.SCALARS: 0, events.TENSORS: 0, events.IMAGES: 1, events.AUDIO: 1}
    log = events.EventAccumulator(str(folder), size_guidance=size_guidance)
    log.Reload()
    tags_by_kind = log.Tags()

    def read_column(column: str) -> dict[float, float]:
        if column in tags_by_kind["scalars"]:
            return _points((e.step, e.value) for e in log.Scalars(column))
        arrays = ((e.step, tensors.make_ndarray(e.tensor_proto)) for e in log.Tensors(column))
        return _points((step, array.item()) for step, array in arrays if array.size == 1)

    tags = [*tags_by_kind["scalars"], *tags_by_kind["tensors"]]
    return _read_columns(Series(name, folder, "TensorBoard"), tags, read_column, tag, kind)


def read_evaluations(path: Path, name: str) -> Series:
    """Read Stable-Baselines3's `evaluations.npz`: the returns of each evaluation."""
    try:
        with np.load(path, allow_pickle=False) as data:
            steps, results = data["timesteps"].ravel(), np.asarray(data["results"], np.float64)
        means = results.reshape(len(steps), -1).mean(axis=1)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path}: expected arrays timesteps and results, as EvalCallback writes") from error
    points = _points(zip(steps.tolist(), means.tolist(), strict=True))
    episodes = results[0].size if len(results) else 0
    return Series(name, path.parent, "Stable-Baselines3", points, episodes=episodes)


def read_monitors(paths: Sequence[Path], name: str) -> Series:
    """Read Stable-Baselines3's `monitor.csv`, one for each environment: the return of each episode."""
    rows, env = [], ""
    for path in paths:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        with suppress(ValueError, AttributeError, IndexError, RecursionError):
            env = str(json.loads(lines[0].removeprefix("#")).get("env_id") or "")
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            values = [_float(row.get(key)) for key in ("t", "l", "r")]
            if None not in values:
                rows.append(values)
    rows.sort(key=lambda row: row[0] or 0.0)
    steps = np.cumsum([row[1] or 0.0 for row in rows]).tolist()
    returns = [row[2] or 0.0 for row in rows]
    metadata = {"env": env if env != "None" else ""}
    training = _moving_mean(dict(zip(steps, returns, strict=True)))
    return Series(name, paths[0].parent, "Stable-Baselines3", training=training, metadata=metadata)


def read_csv(path: Path, name: str, columns: Mapping[str, str], kind: str) -> Iterator[Series]:
    """Yield the runs in a CSV file: an export of W&B or TensorBoard, or a table with a row for each step."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            rows = list(csv.DictReader(file))
    except csv.Error as error:
        raise ConfigError(f"{path}: not a CSV file: {error}") from error
    columns_in_file = [key for key in rows[0] if isinstance(key, str)] if rows else []
    step = _find_column(columns_in_file, (columns["steps"],) if "steps" in columns else STEP_COLUMNS)
    if step is None:
        raise ConfigError(
            f"{path}: no column of steps among {', '.join(columns_in_file[:8]) or 'none'}; name it with "
            f"baseline.NAME={{path: {path}, steps: COLUMN, value: COLUMN}}"
        )
    if wandb := [c for c in columns_in_file if " - " in c and not c.endswith(("__MIN", "__MAX"))]:
        yield from _read_wandb(path, rows, step, wandb, columns.get("value", ""), kind)
        return
    field_columns = {key: _find_column(columns_in_file, names) for key, names in METADATA_COLUMNS.items()}
    rows_by_run: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        rows_by_run[tuple(str(row.get(c) or "") if c else "" for c in field_columns.values())].append(row)
    for values, run_rows in rows_by_run.items():
        metadata = dict(zip(field_columns, values, strict=True))
        series = Series(metadata["run"] or name, path, "CSV", metadata=metadata)
        yield _read_rows(series, run_rows, step, columns_in_file, columns.get("value", ""), kind)


def _read_wandb(
    path: Path, rows: list[dict[str, str]], step: str, columns: list[str], value_column: str, kind: str
) -> Iterator[Series]:
    """Yield the runs of a chart that W&B exported: each run has a column `NAME - METRIC`."""
    runs: dict[str, dict[str, str]] = defaultdict(dict)
    for column in columns:
        run, _, metric = column.rpartition(" - ")
        runs[run][metric] = column
    for run, metrics in runs.items():
        run_rows = [{m: row.get(c, "") for m, c in metrics.items()} | {step: row[step]} for row in rows]
        yield _read_rows(Series(run, path, "W&B"), run_rows, step, list(metrics), value_column, kind)


def _read_rows(
    series: Series, rows: list[dict[str, str]], step: str, columns: list[str], value_column: str, kind: str
) -> Series:
    def read_column(column: str) -> dict[float, float]:
        return _points((_float(row.get(step)), _float(row.get(column))) for row in rows)

    return _read_columns(series, columns, read_column, value_column, kind)


def _read_columns(
    series: Series, columns: list[str], read_column: Any, value_column: str, kind: str
) -> Series:
    """Return the series with the returns from its columns: `value_column` if given, else the known names."""
    if value_column and value_column not in columns:
        raise ConfigError(
            f"{series.path}: no column '{value_column}' in run '{series.name[:80]}', which has "
            f"{', '.join(columns[:8]) or 'nothing'}"
        )
    evaluation_column = None if value_column else _find_column(columns, EVALUATION_COLUMNS)
    training_column = value_column or _find_column(
        columns, (*MEAN_COLUMNS, *EPISODE_COLUMNS, *(() if evaluation_column else VALUE_COLUMNS))
    )
    if training_column is None and evaluation_column is None:
        raise ConfigError(
            f"{series.path}: no known column of returns among {', '.join(columns[:8]) or 'nothing'}; "
            f"name them with baseline.NAME={{path: {series.path}, value: COLUMN}}"
        )
    points = read_column(training_column) if training_column else {}
    if training_column in EPISODE_COLUMNS:
        points = _moving_mean(points)
    column_text = (
        f"{training_column} {series.path.name}" if training_column in VALUE_COLUMNS else str(training_column)
    )
    if evaluation_column is None and (
        kind == "evaluation" or (not kind and EVALUATION_PATTERN.search(column_text))
    ):
        return replace(series, evaluations=points)
    return replace(
        series, evaluations=read_column(evaluation_column) if evaluation_column else {}, training=points
    )


def _points(pairs: Any) -> dict[float, float]:
    pairs_or_none = ((finite_number(step), finite_number(value)) for step, value in pairs)
    return {step: value for step, value in pairs_or_none if step is not None and value is not None}


def _moving_mean(points: Mapping[float, float]) -> dict[float, float]:
    """Return the mean of the last 100 episodes, at the end of each episode."""
    steps = sorted(points)
    sums = np.cumsum([0.0, *(points[step] for step in steps)])
    end = np.arange(1, len(steps) + 1)
    start = np.maximum(0, end - WINDOW)
    return dict(zip(steps, ((sums[end] - sums[start]) / (end - start)).tolist(), strict=True))


def _float(value: Any) -> float | None:
    try:
        return finite_number(float(value))
    except (TypeError, ValueError):
        return None


def _find_column(head: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(head)}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)
