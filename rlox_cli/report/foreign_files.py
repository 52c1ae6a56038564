"""Files of other programs: TensorBoard events, CSV exports, Stable-Baselines3's evaluations and monitors."""

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
from rlox.extras import install
from rlox_cli.report.records import number

EVENTS = "events.out.tfevents"
EVALUATIONS = (
    "eval/return_mean", "eval/mean_reward", "eval/episodic_return", "evaluation/return", "test/reward",
)  # fmt: skip
EPISODES = ("charts/episodic_return", "episodic_return", "episode_return")  # one value an episode
MEANS = ("train/return_mean", "rollout/ep_rew_mean", "train/reward", "ep_rew_mean")
STEPS = (
    "env_steps", "time/total_timesteps", "total_timesteps", "timesteps", "global_step", "env_step",
    "steps", "step", "_step",
)  # fmt: skip
VALUES = ("return", "score", "mean_reward", "reward", "value")
NAMES = {
    "env": ("env", "env_id", "task", "environment"),
    "algo": ("algo", "algorithm", "method", "agent"),
    "seed": ("seed",),
    "run": ("run", "run_id", "run_name", "name"),
}
WINDOW = 100  # episodes that a training return is the mean of, as in rlox's own logs
EVALUATED = re.compile(r"eval|test", re.IGNORECASE)


@dataclass(frozen=True)
class Series:
    """What one run logged: returns over steps, and what the file itself says of the run."""

    name: str
    place: Path
    source: str
    evaluations: Mapping[float, float] = field(default_factory=dict)
    training: Mapping[float, float] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    episodes: int = 0


def merged(found: Sequence[Series]) -> Series:
    """One run of what several files say of it; the first that has something is believed."""
    sources = dict.fromkeys(series.source for series in found)
    return replace(
        found[0],
        source=" + ".join(sources),
        evaluations=next((s.evaluations for s in found if s.evaluations), {}),
        training=next((s.training for s in found if s.training), {}),
        said={key: value for series in reversed(found) for key, value in series.said.items()},
        episodes=max(series.episodes for series in found),
    )


def read_events(folder: Path, name: str, tag: str, kind: str) -> Series:
    """The scalars in TensorBoard's event files of one folder."""
    try:
        events: Any = import_module("tensorboard.backend.event_processing.event_accumulator")
        tensors: Any = import_module("tensorboard.util.tensor_util")
    except ImportError as error:
        raise MissingExtraError(
            f"{folder} has TensorBoard events, and tensorboard is not installed: "
            f"{install('tensorboard')}"
        ) from error
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    kept = {events.SCALARS: 0, events.TENSORS: 0, events.IMAGES: 1, events.AUDIO: 1}
    log = events.EventAccumulator(str(folder), size_guidance=kept)
    log.Reload()
    there = log.Tags()

    def values(wanted: str) -> dict[float, float]:
        if wanted in there["scalars"]:
            return _points((e.step, e.value) for e in log.Scalars(wanted))
        arrays = ((e.step, tensors.make_ndarray(e.tensor_proto)) for e in log.Tensors(wanted))
        return _points((step, array.item()) for step, array in arrays if array.size == 1)

    tags = [*there["scalars"], *there["tensors"]]
    return _read_columns(Series(name, folder, "TensorBoard"), tags, values, tag, kind)


def read_evaluations(path: Path, name: str) -> Series:
    """Stable-Baselines3's `evaluations.npz`: the returns of each evaluation."""
    try:
        with np.load(path, allow_pickle=False) as data:
            steps, results = data["timesteps"].ravel(), np.asarray(data["results"], np.float64)
        means = results.reshape(len(steps), -1).mean(axis=1)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path}: expected arrays timesteps and results, as EvalCallback writes"
        ) from error
    points = _points(zip(steps.tolist(), means.tolist(), strict=True))
    episodes = results[0].size if len(results) else 0
    return Series(name, path.parent, "Stable-Baselines3", points, episodes=episodes)


def read_monitors(paths: Sequence[Path], name: str) -> Series:
    """Stable-Baselines3's `monitor.csv`, one for each environment: the return of each episode."""
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
    said = {"env": env if env != "None" else ""}
    training = _smooth(dict(zip(steps, returns, strict=True)))
    return Series(name, paths[0].parent, "Stable-Baselines3", training=training, said=said)


def read_csv(path: Path, name: str, columns: Mapping[str, str], kind: str) -> Iterator[Series]:
    """The runs in a CSV file: an export of W&B or TensorBoard, or a table with a row for each step."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            rows = list(csv.DictReader(file))
    except csv.Error as error:
        raise ConfigError(f"{path}: not a CSV file: {error}") from error
    head = [key for key in rows[0] if isinstance(key, str)] if rows else []
    step = _one_of(head, (columns["steps"],) if "steps" in columns else STEPS)
    if step is None:
        raise ConfigError(
            f"{path}: no column of steps among {', '.join(head[:8]) or 'none'}; name it with "
            f"baseline.NAME={{path: {path}, steps: COLUMN, value: COLUMN}}"
        )
    if wandb := [c for c in head if " - " in c and not c.endswith(("__MIN", "__MAX"))]:
        yield from _wandb(path, rows, step, wandb, columns.get("value", ""), kind)
        return
    of = {key: _one_of(head, names) for key, names in NAMES.items()}
    apart: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        apart[tuple(str(row.get(c) or "") if c else "" for c in of.values())].append(row)
    for values, own in apart.items():
        said = dict(zip(of, values, strict=True))
        series = Series(said["run"] or name, path, "CSV", said=said)
        yield _of_rows(series, own, step, head, columns.get("value", ""), kind)


def _wandb(
    path: Path, rows: list[dict[str, str]], step: str, columns: list[str], wanted: str, kind: str
) -> Iterator[Series]:
    """A column for each run, `NAME - METRIC`, as W&B exports a chart."""
    runs: dict[str, dict[str, str]] = defaultdict(dict)
    for column in columns:
        run, _, metric = column.rpartition(" - ")
        runs[run][metric] = column
    for run, metrics in runs.items():
        own = [{m: row.get(c, "") for m, c in metrics.items()} | {step: row[step]} for row in rows]
        yield _of_rows(Series(run, path, "W&B"), own, step, list(metrics), wanted, kind)


def _of_rows(
    series: Series, rows: list[dict[str, str]], step: str, head: list[str], wanted: str, kind: str
) -> Series:
    def values(column: str) -> dict[float, float]:
        return _points((_float(row.get(step)), _float(row.get(column))) for row in rows)

    return _read_columns(series, head, values, wanted, kind)


def _read_columns(series: Series, head: list[str], values: Any, wanted: str, kind: str) -> Series:
    """The series with the returns in its columns: those that are named, else those that are known."""
    if wanted and wanted not in head:
        raise ConfigError(
            f"{series.place}: no '{wanted}' in run '{series.name[:80]}', which has "
            f"{', '.join(head[:8]) or 'nothing'}"
        )
    evaluated = None if wanted else _one_of(head, EVALUATIONS)
    trained = wanted or _one_of(head, (*MEANS, *EPISODES, *(() if evaluated else VALUES)))
    if trained is None and evaluated is None:
        raise ConfigError(
            f"{series.place}: no returns that are known among {', '.join(head[:8]) or 'nothing'}; "
            f"name them with baseline.NAME={{path: {series.place}, value: COLUMN}}"
        )
    points = values(trained) if trained else {}
    if trained in EPISODES:
        points = _smooth(points)
    said = f"{trained} {series.place.name}" if trained in VALUES else str(trained)
    if evaluated is None and (kind == "evaluation" or (not kind and EVALUATED.search(said))):
        return replace(series, evaluations=points)
    return replace(series, evaluations=values(evaluated) if evaluated else {}, training=points)


def _points(pairs: Any) -> dict[float, float]:
    known = ((number(step), number(value)) for step, value in pairs)
    return {step: value for step, value in known if step is not None and value is not None}


def _smooth(points: Mapping[float, float]) -> dict[float, float]:
    """The mean of the last 100 episodes at the end of each."""
    steps = sorted(points)
    sums = np.cumsum([0.0, *(points[step] for step in steps)])
    end = np.arange(1, len(steps) + 1)
    start = np.maximum(0, end - WINDOW)
    return dict(zip(steps, ((sums[end] - sums[start]) / (end - start)).tolist(), strict=True))


def _float(value: Any) -> float | None:
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return None


def _one_of(head: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(head)}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)
