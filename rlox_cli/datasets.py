"""What `rlox dataset` does."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlox
from rlox.errors import ConfigError, RloxError, StorageError
from rlox.offline.checked import Finding, findings
from rlox.offline.description import described
from rlox.offline.foreign.converting import Conversion, converted
from rlox.offline.foreign.exporting import exported
from rlox.offline.foreign.kinds import format_of
from rlox.sources.dataset_file import DATA, DOCUMENT, Dataset, read_dataset
from rlox.sources.dataset_folder import others_in
from rlox.sources.file_columns import Column, blocks
from rlox.sources.prepared import alike, complete_returns
from rlox_cli import summary
from rlox_cli.commands.dataset import DatasetConfig

BINS, WIDTH = 10, 40  # of a histogram
SUFFIXES = {".npz": "npz", ".parquet": "parquet", ".hdf5": "d4rl", ".h5": "d4rl"}
COLUMNS = 16  # numbers of an observation that are shown


def done(config: DatasetConfig, env: str | None) -> int:
    """Do what is asked for; the number of errors that a dataset has. `env`: what a file is said to be of."""
    assert config.path is not None
    folder = Path(config.path)
    if config.what == "make":
        _make(config, folder)
        return 0
    if config.what == "convert":
        _convert(config, folder, env)
        return 0
    with _opened(folder, Conversion(time_limit=config.time_limit)) as dataset:
        return _told(config, folder, dataset)


def _told(config: DatasetConfig, folder: Path, dataset: Dataset) -> int:
    if config.what == "show":
        shown = summary.finite(_shown(dataset)) if config.json else _text(folder, dataset)
        print(json.dumps(shown, indent=1) if config.json else shown)
        return 0
    found = list(findings(dataset.columns, dataset.about))
    if config.json:
        print(json.dumps([asdict(finding) for finding in found], indent=1))
    else:
        print("\n".join(_checked(folder, found)))
    return sum(finding.severity == "error" for finding in found)


def _make(config: DatasetConfig, folder: Path) -> None:
    """Write a dataset, and say what it is."""
    _require_free(folder, config.overwrite, "path")
    from rlox.offline.making import Play, of_random_actions, of_run
    from rlox.runs.progress import paced, reporter
    from rlox.runs.record import write_dataset

    with reporter() as report:
        how = Play(
            config.steps, config.seed, config.sampled, config.episodes,
            paced(report, "env_steps", config.steps), _score,
        )  # fmt: skip
        if config.policy == "random":
            dataset = of_random_actions(replace(config.env, n_envs=1), how)
        else:
            quality = config.quality or "expert"
            dataset = of_run(Path(config.policy), quality, how, config.trust)
    dataset = replace(dataset, about={**dataset.about, "rlox": rlox.__version__})
    with _storage(folder):
        write_dataset(dataset, folder)
    print(_text(folder, dataset))


def _score(checkpoint: str, score: float) -> None:
    print(f"scored {checkpoint}: {score:.1f}", flush=True)


@contextmanager
def _opened(path: Path, how: Conversion, near: Path | None = None) -> Iterator[Dataset]:
    """A dataset of any format, its rows on disk: for others than rlox's a copy in the folder `near`.

    Without one it is where the system has such files ($TMPDIR).
    """
    if format_of(path) == "rlox" and how == Conversion():
        yield read_dataset(path, most=0)
        return
    with tempfile.TemporaryDirectory(prefix=".rlox-dataset-", dir=near) as scratch:
        yield converted(path, Path(scratch), how)


def _convert(config: DatasetConfig, path: Path, env: str | None) -> None:
    """Read one format, write another, and say what it is."""
    to = Path(config.to or "")
    kind = _format_of(to, config.format)
    if to.exists() and to.resolve() == path.resolve():
        raise ConfigError(f"to={to} is what is read; choose another name")
    how = Conversion(env, config.time_limit)
    format_of(path)  # before anything is written
    if kind == "rlox":
        _require_free(to, config.overwrite, "to")
        with _storage(to):
            dataset = converted(path, to, how)
        print(_text(to, dataset))
        return
    if to.exists() and not config.overwrite:
        raise ConfigError(f"to={to} is there already; choose another name or overwrite=true")
    with _storage(to):
        near = next(folder for folder in to.absolute().parents if folder.exists())
        with _opened(path, how, near) as dataset:
            exported(dataset, to, kind)
            print(_text(to, dataset))


def _format_of(to: Path, given: str | None) -> str:
    """What is written: as the end of the name says, which may not be another one's."""
    said = SUFFIXES.get(to.suffix)
    if given is not None and said not in (None, given):
        raise ConfigError(f"to={to} with format={given}: the name says {said}; give one of them")
    if given is None and said is None and to.suffix[1:].isalpha():
        known = ", ".join(SUFFIXES)
        raise ConfigError(
            f"to={to}: its ending is none of {known}; say what is written: format=..."
        )
    return given or said or "rlox"


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    """`StorageError` where `path` cannot be written."""
    try:
        yield
    except RloxError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def _require_free(folder: Path, overwrite: bool, key: str) -> None:
    """Before anything is played: a place where a dataset can be written and none is lost."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{key}={folder} is a file, expected a folder or a name that is free")
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise StorageError(f"{folder} cannot be written: {above} is no folder that may be written")
    if folder.is_dir() and (others := others_in(folder)):
        raise ConfigError(
            f"{key}={folder} is a folder with other files ({min(others)}); choose another or an empty one"
        )
    if not overwrite and any((folder / name).exists() for name in (DATA, DOCUMENT)):
        raise ConfigError(
            f"{key}={folder} has a dataset already; choose another folder or overwrite=true"
        )


def _shown(dataset: Dataset) -> dict[str, Any]:
    """All that is known, as plain data."""
    about = {name: value for name, value in dataset.about.items() if name != "returns"}
    return {
        "about": about,
        "found": described(dataset.columns),
        "coverage": {name: _coverage(dataset.columns[name]) for name in ("obs", "actions")},
    }


def _coverage(column: Column) -> list[dict[str, float]]:
    """Least, mean, greatest and deviation of each number."""
    parts = [_moments(rows.reshape(len(rows), -1)[:, :COLUMNS]) for _, (rows,) in blocks(column)]
    counts, low, means, high, squares = (np.stack(each) for each in zip(*parts, strict=True))
    weights = counts / counts.sum(0)
    mean = (weights * means).sum(0)
    std = np.sqrt((weights * (squares + (means - mean) ** 2)).sum(0))
    found = {"min": low.min(0), "mean": mean, "max": high.max(0), "std": std}
    return [{name: float(values[i]) for name, values in found.items()} for i in range(len(mean))]


def _moments(rows: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
    """Rows, least, mean, greatest and variance of each number."""
    x = rows.astype(np.float64)
    n = np.full(x.shape[1], len(x), np.float64)
    return n, x.min(0), x.mean(0), x.max(0), x.var(0)


def _text(folder: Path, dataset: Dataset) -> str:
    return "\n".join([f"{folder}", *map(summary.printable, _lines(dataset))])


def _lines(dataset: Dataset) -> Iterator[str]:
    about, found = dataset.about, described(dataset.columns)
    yield f"  from         {_origin(about)}"
    episodes = f"{found['episodes']:,} episode{'s' * (found['episodes'] != 1)}"
    yield f"  transitions  {found['transitions']:,} in {episodes}" + (
        f", and {found['incomplete']:,} of one that does not end" if found["incomplete"] else ""
    )
    yield f"  ends         {found['terminations']:,} terminations, {found['time_limits']:,} time limits"
    if (paid := found["returns"]) is not None:
        yield f"  returns      {_returns(paid)}"
    if scores := about.get("scores"):
        told = ", ".join(f"{name} {summary.number(score)}" for name, score in scores.items())
        yield f"  scores       {told}"
    for name in ("obs", "actions"):
        column = dataset.columns[name]
        numbers = int(np.prod(column.shape[1:], dtype=np.int64))
        yield f"  {name:<12} {column.dtype}, {numbers} number{'s' * (numbers != 1)} a row"
    yield f"  digest       {dataset.digest}"
    yield from _histogram(complete_returns(dataset.columns))


def _returns(paid: Mapping[str, Any]) -> str:
    """`12.30 mean (95% CI 11.90 to 12.70), 9.000 to 15.00`; of one episode its return alone."""
    if paid["ci95"] is None:
        return summary.number(paid["mean"])
    mean, low, high, least, most = map(
        summary.number, (paid["mean"], *paid["ci95"], paid["min"], paid["max"])
    )
    return f"{mean} mean (95% CI {low} to {high}), {least} to {most}"


def _origin(about: Mapping[str, Any]) -> str:
    """Environment, policy and checkpoint, as far as the dataset says them."""
    told = [str(about.get("env", "an environment that is not named"))]
    told += [str(about[name]) for name in ("quality", "algo", "checkpoint") if name in about]
    return ", ".join(dict.fromkeys(told))


def _histogram(returns: NDArray[np.float64]) -> Iterator[str]:
    """How many episodes paid what, where they did not all pay the same."""
    returns = returns[np.isfinite(returns)]
    if alike(returns):
        return
    counts, edges = np.histogram(returns, BINS)
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "#" * int(np.ceil(WIDTH * count / counts.max()))
        yield f"  {low:>12.1f} to {high:>10.1f}  {count:>6}  {bar}".rstrip()


def _checked(folder: Path, found: list[Finding]) -> Iterator[str]:
    for finding in found:
        yield f"{finding.severity:<7}  {finding.code}"
        yield f"         {summary.printable(finding.message)}"
    errors = sum(finding.severity == "error" for finding in found)
    counts = (errors, "error"), (len(found) - errors, "warning")
    told = ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts)
    yield f"{folder}: {told if found else 'nothing found'}"
