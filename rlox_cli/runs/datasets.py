"""`rlox dataset`: make, show, check and convert datasets."""

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
from rlox.offline.checks import Finding, find_problems
from rlox.offline.description import describe_dataset
from rlox.offline.foreign.converting import ConversionOptions, convert_dataset
from rlox.offline.foreign.exporting import export_dataset
from rlox.offline.foreign.formats import detect_format
from rlox.sources.dataset_file import DATA_FILE, DOCUMENT_FILE, Dataset, other_files, read_dataset
from rlox.sources.file_columns import Column, iter_blocks
from rlox.sources.preparation import are_equal, complete_returns
from rlox_cli.commands.dataset import DatasetConfig
from rlox_cli.runs import summary

BINS, WIDTH = 10, 40  # of the histogram
SUFFIXES = {".npz": "npz", ".parquet": "parquet", ".hdf5": "d4rl", ".h5": "d4rl"}
MAX_COMPONENTS = 16  # most components of an observation or action that are shown


def run_dataset_command(config: DatasetConfig, env: str | None) -> int:
    """Run the requested action and return the number of errors in the dataset.

    `env`: the environment of a file that is converted, as given by the user.
    """
    assert config.path is not None
    folder = Path(config.path)
    if config.what == "make":
        _make_dataset(config, folder)
        return 0
    if config.what == "convert":
        _convert(config, folder, env)
        return 0
    with _open_dataset(folder, ConversionOptions(time_limit=config.time_limit)) as dataset:
        return _show_or_check(config, folder, dataset)


def _show_or_check(config: DatasetConfig, folder: Path, dataset: Dataset) -> int:
    if config.what == "show":
        output = (
            summary.replace_non_finite(_dataset_document(dataset))
            if config.json
            else _describe(folder, dataset)
        )
        print(json.dumps(output, indent=1) if config.json else output)
        return 0
    findings_list = list(find_problems(dataset.columns, dataset.about))
    if config.json:
        print(json.dumps([asdict(finding) for finding in findings_list], indent=1))
    else:
        print("\n".join(_finding_lines(folder, findings_list)))
    return sum(finding.severity == "error" for finding in findings_list)


def _make_dataset(config: DatasetConfig, folder: Path) -> None:
    """Write a dataset and print its description."""
    _require_writable_target(folder, config.overwrite, "path")
    from rlox.offline.collect import PlaySettings, make_random_dataset, make_run_dataset
    from rlox.runs.progress import make_reporter, progress_callback
    from rlox.runs.record import write_dataset

    with make_reporter() as report:
        play = PlaySettings(
            config.steps, config.seed, config.sampled, config.episodes,
            progress_callback(report, "env_steps", config.steps), _print_score,
        )  # fmt: skip
        if config.policy == "random":
            dataset = make_random_dataset(replace(config.env, n_envs=1), play)
        else:
            quality = config.quality or "expert"
            dataset = make_run_dataset(Path(config.policy), quality, play, config.trust)
    dataset = replace(dataset, about={**dataset.about, "rlox": rlox.__version__})
    with _translate_write_errors(folder):
        write_dataset(dataset, folder)
    print(_describe(folder, dataset))


def _print_score(checkpoint: str, score: float) -> None:
    print(f"scored {checkpoint}: {score:.1f}", flush=True)


@contextmanager
def _open_dataset(
    path: Path, conversion: ConversionOptions, scratch_parent: Path | None = None
) -> Iterator[Dataset]:
    """Open a dataset of any format, with its rows on disk.

    A dataset that needs conversion is copied to a temporary folder in `scratch_parent`, by default in the
    system's folder for temporary files ($TMPDIR).
    """
    if detect_format(path) == "rlox" and conversion == ConversionOptions():
        yield read_dataset(path, max_bytes=0)
        return
    with tempfile.TemporaryDirectory(prefix=".rlox-dataset-", dir=scratch_parent) as scratch:
        yield convert_dataset(path, Path(scratch), conversion)


def _convert(config: DatasetConfig, path: Path, env: str | None) -> None:
    """Read one format, write another and print the description."""
    target = Path(config.to or "")
    target_format = _format_of(target, config.format)
    if target.exists() and target.resolve() == path.resolve():
        raise ConfigError(f"to={target} is the dataset that is read; choose another name")
    conversion = ConversionOptions(env, config.time_limit)
    detect_format(path)  # raises before anything is written
    if target_format == "rlox":
        _require_writable_target(target, config.overwrite, "to")
        with _translate_write_errors(target):
            dataset = convert_dataset(path, target, conversion)
        print(_describe(target, dataset))
        return
    if target.exists() and not config.overwrite:
        raise ConfigError(f"to={target} is there already; choose another name or overwrite=true")
    with _translate_write_errors(target):
        scratch_parent = next(folder for folder in target.absolute().parents if folder.exists())
        with _open_dataset(path, conversion, scratch_parent) as dataset:
            export_dataset(dataset, target, target_format)
            print(_describe(target, dataset))


def _format_of(target: Path, requested_format: str | None) -> str:
    """Return the format to write, from `format=` or the suffix; raise `ConfigError` if they contradict."""
    suffix_format = SUFFIXES.get(target.suffix)
    if requested_format is not None and suffix_format not in (None, requested_format):
        raise ConfigError(
            f"to={target} with format={requested_format}: the suffix means {suffix_format}; change either"
        )
    if requested_format is None and suffix_format is None and target.suffix[1:].isalpha():
        known = ", ".join(SUFFIXES)
        raise ConfigError(f"to={target}: its suffix is none of {known}; name the format: format=...")
    return requested_format or suffix_format or "rlox"


@contextmanager
def _translate_write_errors(path: Path) -> Iterator[None]:
    """Raise `StorageError` if `path` cannot be written."""
    try:
        yield
    except RloxError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def _require_writable_target(folder: Path, overwrite: bool, key: str) -> None:
    """Check, before anything is played, that a dataset can be written to `folder` without data loss."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{key}={folder} is a file, expected a folder or a name that is free")
    existing_parent = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not (existing_parent.is_dir() and os.access(existing_parent, os.W_OK)):
        raise StorageError(f"{folder} cannot be written: {existing_parent} is not a writable folder")
    if folder.is_dir() and (others := other_files(folder)):
        raise ConfigError(
            f"{key}={folder} is a folder with other files ({min(others)}); choose another or an empty one"
        )
    if not overwrite and any((folder / name).exists() for name in (DATA_FILE, DOCUMENT_FILE)):
        raise ConfigError(f"{key}={folder} has a dataset already; choose another folder or overwrite=true")


def _dataset_document(dataset: Dataset) -> dict[str, Any]:
    """Return everything known about the dataset, as plain data."""
    about = {name: value for name, value in dataset.about.items() if name != "returns"}
    return {
        "about": about,
        "found": describe_dataset(dataset.columns),
        "coverage": {name: _column_statistics(dataset.columns[name]) for name in ("obs", "actions")},
    }


def _column_statistics(column: Column) -> list[dict[str, float]]:
    """Return minimum, mean, maximum and standard deviation of each component."""
    parts = [_moments(rows.reshape(len(rows), -1)[:, :MAX_COMPONENTS]) for _, (rows,) in iter_blocks(column)]
    counts, low, means, high, squares = (np.stack(each) for each in zip(*parts, strict=True))
    weights = counts / counts.sum(0)
    mean = (weights * means).sum(0)
    std = np.sqrt((weights * (squares + (means - mean) ** 2)).sum(0))
    statistics = {"min": low.min(0), "mean": mean, "max": high.max(0), "std": std}
    return [{name: float(values[i]) for name, values in statistics.items()} for i in range(len(mean))]


def _moments(rows: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
    """Return row count, minimum, mean, maximum and variance of each component."""
    x = rows.astype(np.float64)
    n = np.full(x.shape[1], len(x), np.float64)
    return n, x.min(0), x.mean(0), x.max(0), x.var(0)


def _describe(folder: Path, dataset: Dataset) -> str:
    return "\n".join([f"{folder}", *map(summary.replace_unprintable, _describe_lines(dataset))])


def _describe_lines(dataset: Dataset) -> Iterator[str]:
    about, description = dataset.about, describe_dataset(dataset.columns)
    yield f"  from         {_origin_text(about)}"
    episodes = f"{description['episodes']:,} episode{'s' * (description['episodes'] != 1)}"
    yield f"  transitions  {description['transitions']:,} in {episodes}" + (
        f", and {description['incomplete']:,} in an unfinished episode" if description["incomplete"] else ""
    )
    yield (
        f"  ends         {description['terminations']:,} terminations, "
        f"{description['time_limits']:,} time limits"
    )
    if (returns := description["returns"]) is not None:
        yield f"  returns      {_returns_text(returns)}"
    if scores := about.get("scores"):
        scores_text = ", ".join(f"{name} {summary.format_number(score)}" for name, score in scores.items())
        yield f"  scores       {scores_text}"
    for name in ("obs", "actions"):
        column = dataset.columns[name]
        numbers = int(np.prod(column.shape[1:], dtype=np.int64))
        yield f"  {name:<12} {column.dtype}, {numbers} number{'s' * (numbers != 1)} a row"
    yield f"  digest       {dataset.digest}"
    yield from _histogram(complete_returns(dataset.columns))


def _returns_text(returns: Mapping[str, Any]) -> str:
    """Return `12.30 mean (95% CI 11.90 to 12.70), 9.000 to 15.00`; for one episode only its return."""
    if returns["ci95"] is None:
        return summary.format_number(returns["mean"])
    mean, low, high, minimum, maximum = map(
        summary.format_number, (returns["mean"], *returns["ci95"], returns["min"], returns["max"])
    )
    return f"{mean} mean (95% CI {low} to {high}), {minimum} to {maximum}"


def _origin_text(about: Mapping[str, Any]) -> str:
    """Return environment, policy and checkpoint, as far as the dataset names them."""
    parts = [str(about.get("env", "unnamed environment"))]
    parts += [str(about[name]) for name in ("quality", "algo", "checkpoint") if name in about]
    return ", ".join(dict.fromkeys(parts))


def _histogram(returns: NDArray[np.float64]) -> Iterator[str]:
    """Yield the lines of a histogram of the returns; none if all returns are equal."""
    returns = returns[np.isfinite(returns)]
    if are_equal(returns):
        return
    counts, edges = np.histogram(returns, BINS)
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "#" * int(np.ceil(WIDTH * count / counts.max()))
        yield f"  {low:>12.1f} to {high:>10.1f}  {count:>6}  {bar}".rstrip()


def _finding_lines(folder: Path, findings_list: list[Finding]) -> Iterator[str]:
    for finding in findings_list:
        yield f"{finding.severity:<7}  {finding.code}"
        yield f"         {summary.replace_unprintable(finding.message)}"
    errors = sum(finding.severity == "error" for finding in findings_list)
    counts = (errors, "error"), (len(findings_list) - errors, "warning")
    counts_text = ", ".join(f"{n} {noun}{'s' * (n != 1)}" for n, noun in counts)
    yield f"{folder}: {counts_text if findings_list else 'nothing found'}"
