"""Read logs of other programs as plain records of runs: find the files and parse the runs' names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS, nearest
from rlox.errors import ConfigError
from rlox_cli.config.verbatim import expand_path
from rlox_cli.report.foreign_files import (
    EVENT_FILE_PREFIX,
    Series,
    merge,
    read_csv,
    read_evaluations,
    read_events,
    read_monitors,
)
from rlox_cli.report.records import LAST, MAX_REASON_LENGTH, TRAINING, Run, make_curve, safe_text

FIELDS = ("path", "env", "algo", "pattern", "steps", "value", "kind")
KINDS = ("evaluation", "training")
GROUPS = {"env", "algo", "seed"}
# CleanRL names runs `<env>__<name>__<seed>__<time>`.
CLEANRL_PATTERN = re.compile(r"(?:^|/)(?P<env>[^/]+?)__(?P<algo>[^/]+?)__(?P<seed>\d+)__\d+")
ENV_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9.]*(?:-[A-Za-z][A-Za-z0-9]*)*-v\d+")
SEED_PATTERN = re.compile(r"(?:^|[^A-Za-z])(?:seed|s)[_=-]?(\d+)(?!\d)", re.IGNORECASE)
LAST_NUMBER_PATTERN = re.compile(r"[_-](\d+)/?$")
OTHER_ALGOS = ("trpo", "qrdqn", "crossq", "ars", "reinforce", "c51", "redq", "impala", "dreamer")


@dataclass(frozen=True)
class LogSource:
    """The path of runs to compare with, and facts that their logs do not contain."""

    path: Path
    label: str = ""
    env: str = ""
    algo: str = ""
    pattern: str = ""  # a regular expression with groups env, algo, seed; searched in a run's name
    columns: Mapping[str, str] = field(default_factory=dict)  # names of the columns of steps and values
    kind: str = ""

    @property
    def option(self) -> str:
        """The beginning of the command-line option that adds facts about these runs."""
        return f"baseline.{self.label or 'NAME'}={{path: {self.path}"


def parse_baseline(label: str, setting: Any) -> LogSource:
    """Parse a baseline of the command line: a path, or a mapping with one."""
    data = {"path": setting} if isinstance(setting, str) else setting
    name = f"baseline.{label}"
    expected = f"{name}={setting}: expected a path, or {{path: PATH, env: ID, algo: NAME}}"
    if not isinstance(data, Mapping):
        raise ConfigError(expected)
    for key, value in data.items():
        if key not in FIELDS:
            hint = nearest(str(key), FIELDS) or f"; it takes {', '.join(FIELDS)}"
            raise ConfigError(f"unknown key '{name}.{key}'{hint}")
        if not isinstance(value, str):
            raise ConfigError(f"{name}.{key}={value}: expected text")
    if "path" not in data:
        raise ConfigError(expected)
    if data.get("kind", KINDS[0]) not in KINDS:
        raise ConfigError(f"{name}.kind={data['kind']}: expected one of {', '.join(KINDS)}")
    _require_pattern(name, data.get("pattern", ""))
    columns = {key: data[key] for key in ("steps", "value") if key in data}
    rest = {key: data[key] for key in ("env", "algo", "pattern", "kind") if key in data}
    return LogSource(expand_path(data["path"]), safe_text(label), columns=columns, **rest)


def read_foreign(source: LogSource) -> Iterator[Run]:
    """Yield the runs whose logs are at and below a path."""
    for position, series in enumerate(_read_series(source)):
        env, algo, seed = _identify(series, source)
        has_evaluations = bool(series.evaluations)
        score_curve = make_curve(series.evaluations if has_evaluations else series.training)
        yield Run(
            name=safe_text(series.name),
            path=safe_text(series.path, MAX_REASON_LENGTH),
            source=series.source,
            label=source.label,
            algo=safe_text(algo),
            env=safe_text(env),
            seed=position if seed is None else seed,
            reason="as logged",
            step=int(score_curve.steps[-1]) if len(score_curve) else 0,
            score=float(score_curve.values[-1]) if len(score_curve) else None,
            score_kind=LAST if has_evaluations else TRAINING,
            episodes=series.episodes,
            train_return=_last_value(series.training),
            evaluations=make_curve(series.evaluations),
            training=make_curve(series.training),
        )


def _read_series(source: LogSource) -> Iterator[Series]:
    if source.path.is_file():
        yield from read_csv(source.path, source.path.name, source.columns, source.kind)
        return
    for folder, folders, files in os.walk(source.path):
        folders.sort()
        yield from _read_folder(Path(folder), sorted(files), source)


def _read_folder(folder: Path, files: list[str], source: LogSource) -> Iterator[Series]:
    """Yield the runs in one folder; several files of one run are merged."""
    name = folder.relative_to(source.path).as_posix()
    name = folder.resolve().name if name == "." else name
    series_list = []
    if "evaluations.npz" in files:
        series_list.append(read_evaluations(folder / "evaluations.npz", name))
    if any(EVENT_FILE_PREFIX in file for file in files):
        series_list.append(read_events(folder, name, source.columns.get("value", ""), source.kind))
    monitors = [folder / file for file in files if file.endswith("monitor.csv")]
    if monitors:
        series_list.append(read_monitors(monitors, name))
    if "progress.csv" in files:
        series_list += read_csv(folder / "progress.csv", name, source.columns, source.kind)
    if series_list:
        yield merge(series_list)
    for file in files:
        if file.endswith(".csv") and file != "progress.csv" and folder / file not in monitors:
            run_name = file if folder == source.path else f"{name}/{file}"
            yield from read_csv(folder / file, run_name, source.columns, source.kind)


def _identify(series: Series, source: LogSource) -> tuple[str, str, int | None]:
    """Return environment, algorithm and seed: from the options, else the file, else the run's name."""
    name_fields = _match_pattern(series.name, source) if source.pattern else _guess_from_name(series.name)
    fields = name_fields | {key: value for key, value in series.metadata.items() if value}
    env = source.env or fields.get("env", "")
    if not env:
        raise ConfigError(
            f"{series.path}: the environment is not in the name of run '{safe_text(series.name, 80)}'; "
            f"give it: '{source.option}, env: CartPole-v1}}'"
        )
    algo = source.algo or fields.get("algo", "") or source.label or series.source
    seed = fields.get("seed", "")
    return env, algo, int(seed) if seed.isdigit() and len(seed) < 19 else None


def _match_pattern(name: str, source: LogSource) -> dict[str, str]:
    match = re.search(source.pattern, name)
    if match is None:
        raise ConfigError(
            f"baseline.{source.label}.pattern={source.pattern}: not found in the name of the run "
            f"'{safe_text(name, 80)}'"
        )
    return {key: value for key, value in match.groupdict().items() if value and key in GROUPS}


def _guess_from_name(name: str) -> dict[str, str]:
    if match := CLEANRL_PATTERN.search(name):
        return match.groupdict()
    known = (*ALGO_CONFIGS, *OTHER_ALGOS)
    tokens = re.split(r"[^a-z0-9]+", name.lower())
    fields = {"algo": next((token for token in tokens if token in known), "")}
    if env := ENV_PATTERN.search(name):
        head, _, rest = env[0].partition("-")
        fields["env"] = rest if head.lower() in known and ENV_PATTERN.fullmatch(rest) else env[0]
    if seed := SEED_PATTERN.search(name) or LAST_NUMBER_PATTERN.search(name.removesuffix(".csv")):
        fields["seed"] = seed[1]
    return fields


def _last_value(points: Mapping[float, float]) -> float | None:
    return points[max(points)] if points else None


def _require_pattern(name: str, pattern: str) -> None:
    try:
        groups = set(re.compile(pattern).groupindex)
    except re.error as error:
        raise ConfigError(
            f"{name}.pattern={pattern}: no regular expression ({error}); "
            "e.g. (?P<env>.+)_(?P<algo>.+)_(?P<seed>[0-9]+)"
        ) from error
    if pattern and not groups & GROUPS:
        raise ConfigError(f"{name}.pattern={pattern}: expected groups such as (?P<env>...)")
