"""`rlox report`: runs are read, results computed, and everything written into one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlox.errors import ConfigError, StorageError
from rlox_cli.commands.report import ReportConfig
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.report import compare, figures_mpl, page, sections, terminal
from rlox_cli.report.compute import Computer
from rlox_cli.report.foreign import Baseline, baseline, read_foreign
from rlox_cli.report.read import never_begun, read_run, run_folders, sweep_in
from rlox_cli.report.records import Run, text
from rlox_cli.report.study import study
from rlox_cli.report.tables import latex, markdown
from rlox_cli.run_folder import nearest_runs, write_json, write_text
from rlox_cli.verbatim import typed_path

FOLDERS = ("figures", "tables")
PLACE = "report"


def report(config: ReportConfig) -> int:
    """Write the report; the exit code."""
    out = _place(config)
    _require_place(out)
    expected = compare.load(typed_path(config.expected)) if config.expected else None
    every = study(_read_all(config))
    results = Computer(
        every, config.normalize, config.ranges, config.resamples, config.seed
    ).results()
    figures = compare.document(_title(config), results)
    verdicts = compare.verdicts(expected, figures) if expected is not None else None
    whole = sections.page(_title(config), every, results, verdicts)
    _make(out)
    write_text(out / "report.html", page.write(whole))
    write_json(out / "report.json", figures)
    for section in whole.sections:
        for table in section.tables:
            write_text(out / "tables" / f"{table.name}.md", markdown(table))
            write_text(out / "tables" / f"{table.name}.tex", latex(table))
        for figure in section.figures:
            figures_mpl.save(figure, out / "figures", config.formats)
    print("\n".join(terminal.lines(every, results, verdicts, out, config.formats)))
    return FAILED if config.strict and compare.fails(verdicts or []) else OK


def _read_all(config: ReportConfig) -> list[Run]:
    """Every run that is named, each once."""
    found: dict[tuple[object, ...], Run] = {}
    for given in config.runs:
        own = list(_read(Baseline(typed_path(given))))
        if not own:
            raise ConfigError(f"{given}: no runs there{nearest_runs(typed_path(given))}")
        found |= {("", *_which(run)): run for run in own}
    for label, said in config.baseline.items():
        other = baseline(label, said)
        own = list(_read(other))
        if not own:
            raise ConfigError(f"baseline.{label}={other.path}: no runs there, nor logs of others")
        found |= {(label, *_which(run)): run for run in own}
    return list(found.values())


def _which(run: Run) -> tuple[object, ...]:
    """What a run is known by, where a place is named twice."""
    return Path(run.place).resolve(), run.name, run.algo, run.env, run.seed


def _read(place: Baseline) -> Iterator[Run]:
    """The runs at and below a place, of rlox or else of others."""
    if not place.path.exists():
        raise ConfigError(f"{place.path}: no such folder or file{nearest_runs(place.path)}")
    folders = [] if place.path.is_file() else list(run_folders(place.path))
    if not folders and not (kind := sweep_in(place.path)):
        yield from read_foreign(place)
        return
    if not folders:
        yield from _unbegun(place.path, kind)
        return
    runs = [read_run(folder, place.label) for folder in folders]
    yield from runs
    # a summary of before names a job that had no folder without its identity: 1_seed-1 of 1_seed-1_ba7826
    names = {run.name for run in runs}
    yield from never_begun(place.path, names | {name.rpartition("_")[0] for name in names})


def _unbegun(place: Path, kind: str) -> Iterator[Run]:
    """The jobs of a sweep of which none left a run: there is nothing of others' in its folder."""
    jobs = list(never_begun(place, set()))
    if not jobs:
        raise ConfigError(
            f"{place}: the folder of a {kind} of which no run has begun; go on with it: the same rlox "
            f"sweep command with hydra.sweep.dir={place}"
        )
    yield from jobs


def _place(config: ReportConfig) -> Path:
    if config.out is not None:
        return typed_path(config.out)
    only = typed_path(config.runs[0]) if len(config.runs) == 1 else None
    if only is None or not only.is_dir():
        return Path(PLACE)
    for path in (only / PLACE, *(only / PLACE / name for name in FOLDERS)):
        if path.is_symlink():  # a stranger's folder must not say where files go
            raise ConfigError(
                f"{path} is a link to {path.readlink()}; remove it, or give out=FOLDER"
            )
    return only / PLACE


def _title(config: ReportConfig) -> str:
    if config.title is not None:
        return text(config.title)
    return text(", ".join(typed_path(given).resolve().name for given in config.runs[:3]))


def _require_place(out: Path) -> None:
    """`StorageError` before minutes of work whose result has no place."""
    for path in (out, *out.parents):
        if path.is_dir():
            return
        if path.exists() or path.is_symlink():
            raise StorageError(f"{out} cannot be written: {path} is no folder; give out=FOLDER")


def _make(out: Path) -> None:
    try:
        for folder in (out / name for name in FOLDERS):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{out} cannot be written: {error.strerror}; give another place with out=FOLDER"
        ) from error
