"""Runs that other programs logged, as plain records: which file is whose, and what a run's name says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlox.configs import ALGO_CONFIGS, nearest
from rlox.errors import ConfigError
from rlox_cli.report.foreign_files import (
    EVENTS,
    Series,
    merged,
    read_csv,
    read_evaluations,
    read_events,
    read_monitors,
)
from rlox_cli.report.records import LAST, MAX_REASON, TRAINING, Run, curve, text
from rlox_cli.verbatim import typed_path

FIELDS = ("path", "env", "algo", "pattern", "steps", "value", "kind")
KINDS = ("evaluation", "training")
GROUPS = {"env", "algo", "seed"}
# `<env>__<name>__<seed>__<time>`, as CleanRL names runs.
CLEANRL = re.compile(r"(?:^|/)(?P<env>[^/]+?)__(?P<algo>[^/]+?)__(?P<seed>\d+)__\d+")
ENV = re.compile(r"[A-Za-z][A-Za-z0-9.]*(?:-[A-Za-z][A-Za-z0-9]*)*-v\d+")
SEED = re.compile(r"(?:^|[^A-Za-z])(?:seed|s)[_=-]?(\d+)(?!\d)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"[_-](\d+)/?$")
OTHERS = ("trpo", "qrdqn", "tqc", "crossq", "ars", "reinforce", "c51", "redq", "impala", "dreamer")


@dataclass(frozen=True)
class Baseline:
    """Where runs to compare with are, and what their logs do not say themselves."""

    path: Path
    label: str = ""
    env: str = ""
    algo: str = ""
    pattern: str = ""  # a regular expression with groups env, algo, seed, found in a run's name
    columns: Mapping[str, str] = field(default_factory=dict)  # of steps and values
    kind: str = ""

    @property
    def option(self) -> str:
        """How more is said of it on the command line."""
        return f"baseline.{self.label or 'NAME'}={{path: {self.path}"


def baseline(label: str, given: Any) -> Baseline:
    """A baseline from what the command line says: a path, or a mapping with one."""
    data = {"path": given} if isinstance(given, str) else given
    name = f"baseline.{label}"
    expected = f"{name}={given}: expected a path, or {{path: PATH, env: ID, algo: NAME}}"
    if not isinstance(data, Mapping):
        raise ConfigError(expected)
    for key, value in data.items():
        if key not in FIELDS:
            near = nearest(str(key), FIELDS) or f"; it takes {', '.join(FIELDS)}"
            raise ConfigError(f"unknown key '{name}.{key}'{near}")
        if not isinstance(value, str):
            raise ConfigError(f"{name}.{key}={value}: expected text")
    if "path" not in data:
        raise ConfigError(expected)
    if data.get("kind", KINDS[0]) not in KINDS:
        raise ConfigError(f"{name}.kind={data['kind']}: expected one of {', '.join(KINDS)}")
    _require_pattern(name, data.get("pattern", ""))
    columns = {key: data[key] for key in ("steps", "value") if key in data}
    rest = {key: data[key] for key in ("env", "algo", "pattern", "kind") if key in data}
    return Baseline(typed_path(data["path"]), text(label), columns=columns, **rest)


def read_foreign(of: Baseline) -> Iterator[Run]:
    """The runs whose logs are at and below a place."""
    for position, series in enumerate(_series(of)):
        env, algo, seed = _named(series, of)
        evaluated = bool(series.evaluations)
        shown = curve(series.evaluations if evaluated else series.training)
        yield Run(
            name=text(series.name),
            place=text(series.place, MAX_REASON),
            source=series.source,
            label=of.label,
            algo=text(algo),
            env=text(env),
            seed=position if seed is None else seed,
            reason="as logged",
            step=int(shown.steps[-1]) if len(shown) else 0,
            score=float(shown.values[-1]) if len(shown) else None,
            score_kind=LAST if evaluated else TRAINING,
            episodes=series.episodes,
            train_return=_last(series.training),
            evaluations=curve(series.evaluations),
            training=curve(series.training),
        )


def _series(of: Baseline) -> Iterator[Series]:
    if of.path.is_file():
        yield from read_csv(of.path, of.path.name, of.columns, of.kind)
        return
    for folder, folders, files in os.walk(of.path):
        folders.sort()
        yield from _of_folder(Path(folder), sorted(files), of)


def _of_folder(folder: Path, files: list[str], of: Baseline) -> Iterator[Series]:
    """The runs in one folder: what several files say of one run is put together."""
    name = folder.relative_to(of.path).as_posix()
    name = folder.resolve().name if name == "." else name
    found = []
    if "evaluations.npz" in files:
        found.append(read_evaluations(folder / "evaluations.npz", name))
    if any(EVENTS in file for file in files):
        found.append(read_events(folder, name, of.columns.get("value", ""), of.kind))
    monitors = [folder / file for file in files if file.endswith("monitor.csv")]
    if monitors:
        found.append(read_monitors(monitors, name))
    if "progress.csv" in files:
        found += read_csv(folder / "progress.csv", name, of.columns, of.kind)
    if found:
        yield merged(found)
    for file in files:
        if file.endswith(".csv") and file != "progress.csv" and folder / file not in monitors:
            inner = file if folder == of.path else f"{name}/{file}"
            yield from read_csv(folder / file, inner, of.columns, of.kind)


def _named(series: Series, of: Baseline) -> tuple[str, str, int | None]:
    """Environment, algorithm and seed: as they are given, as the file says, as the name has them."""
    by_name = _by_pattern(series.name, of) if of.pattern else _guessed(series.name)
    said = by_name | {key: value for key, value in series.said.items() if value}
    env = of.env or said.get("env", "")
    if not env:
        raise ConfigError(
            f"{series.place}: the environment is not in the name of run '{text(series.name, 80)}'; "
            f"give it: '{of.option}, env: CartPole-v1}}'"
        )
    algo = of.algo or said.get("algo", "") or of.label or series.source
    seed = said.get("seed", "")
    return env, algo, int(seed) if seed.isdigit() and len(seed) < 19 else None


def _by_pattern(name: str, of: Baseline) -> dict[str, str]:
    found = re.search(of.pattern, name)
    if found is None:
        raise ConfigError(
            f"baseline.{of.label}.pattern={of.pattern}: not found in the name of the run "
            f"'{text(name, 80)}'"
        )
    return {key: value for key, value in found.groupdict().items() if value and key in GROUPS}


def _guessed(name: str) -> dict[str, str]:
    if found := CLEANRL.search(name):
        return found.groupdict()
    known = (*ALGO_CONFIGS, *OTHERS)
    tokens = re.split(r"[^a-z0-9]+", name.lower())
    said = {"algo": next((token for token in tokens if token in known), "")}
    if env := ENV.search(name):
        head, _, rest = env[0].partition("-")
        said["env"] = rest if head.lower() in known and ENV.fullmatch(rest) else env[0]
    if seed := SEED.search(name) or LAST_NUMBER.search(name.removesuffix(".csv")):
        said["seed"] = seed[1]
    return said


def _last(points: Mapping[float, float]) -> float | None:
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
