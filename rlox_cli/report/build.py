"""`rlox report`: read runs, compute results, write everything into one folder, and print the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rlox.errors import ConfigError, StorageError
from rlox.statistics.comparison import Verdict
from rlox_cli.commands.report import ReportConfig
from rlox_cli.config.verbatim import expand_path
from rlox_cli.report import compare, figures_mpl, page, sections
from rlox_cli.report.compute import Computer
from rlox_cli.report.foreign import LogSource, parse_baseline, read_foreign
from rlox_cli.report.read import read_run, run_folders, sweep_kind, unstarted_jobs
from rlox_cli.report.records import Run, safe_text
from rlox_cli.report.results import CellResult, Results
from rlox_cli.report.sections import count_text, notes, summary_line
from rlox_cli.report.study import Study, group_runs
from rlox_cli.report.tables import to_latex, to_markdown
from rlox_cli.runs.run_folder import nearest_runs_hint, write_json, write_text
from rlox_cli.shell.exit_codes import FAILED, OK

MAX_LINES = 20  # lines of one list
MAX_TEXT_LENGTH = 160  # characters of a reason, or of a lettered method's settings; the report has all


SUBFOLDERS = ("figures", "tables")
DEFAULT_FOLDER = "report"


def report(config: ReportConfig) -> int:
    """Write the report; return the exit code."""
    out = _output_dir(config)
    _require_output_dir(out)
    expected = compare.load_expected(expand_path(config.expected)) if config.expected else None
    all_runs = group_runs(_read_all(config))
    results = Computer(all_runs, config.normalize, config.ranges, config.resamples, config.seed).results()
    document = compare.report_document(_title(config), results)
    verdicts = compare.verdicts(expected, document) if expected is not None else None
    report_page = sections.make_page(_title(config), all_runs, results, verdicts)
    _make_dirs(out)
    write_text(out / "report.html", page.render_page(report_page))
    write_json(out / "report.json", document)
    for section in report_page.sections:
        for table in section.tables:
            write_text(out / "tables" / f"{table.name}.md", to_markdown(table))
            write_text(out / "tables" / f"{table.name}.tex", to_latex(table))
        for figure in section.figures:
            figures_mpl.save_figure(figure, out / "figures", config.formats)
    print("\n".join(terminal_lines(all_runs, results, verdicts, out, config.formats)))
    return FAILED if config.strict and compare.has_failures(verdicts or []) else OK


def _read_all(config: ReportConfig) -> list[Run]:
    """Read every run under `runs` and `baseline`, each once."""
    runs: dict[tuple[object, ...], Run] = {}
    for path_text in config.runs:
        source_runs = list(_read(LogSource(expand_path(path_text))))
        if not source_runs:
            raise ConfigError(f"{path_text}: no runs there{nearest_runs_hint(expand_path(path_text))}")
        runs |= {("", *_run_key(run)): run for run in source_runs}
    for label, setting in config.baseline.items():
        source = parse_baseline(label, setting)
        source_runs = list(_read(source))
        if not source_runs:
            raise ConfigError(f"baseline.{label}={source.path}: no runs there, nor logs of other programs")
        runs |= {(label, *_run_key(run)): run for run in source_runs}
    return list(runs.values())


def _run_key(run: Run) -> tuple[object, ...]:
    """Return a key that stays the same if a run is read twice."""
    return Path(run.path).resolve(), run.name, run.algo, run.env, run.seed


def _read(source: LogSource) -> Iterator[Run]:
    """Yield the runs of rlox in a path, with the unstarted jobs of a sweep; else those of other programs."""
    if not source.path.exists():
        raise ConfigError(f"{source.path}: no such folder or file{nearest_runs_hint(source.path)}")
    folders = [] if source.path.is_file() else list(run_folders(source.path))
    if not folders and not (kind := sweep_kind(source.path)):
        yield from read_foreign(source)
        return
    if not folders:
        yield from _read_unstarted(source.path, kind)
        return
    runs = [read_run(folder, source.label) for folder in folders]
    yield from runs
    # in older summaries the name of an unstarted job lacks the identity: 1_seed-1 for 1_seed-1_ba7826
    names = {run.name for run in runs}
    yield from unstarted_jobs(source.path, names | {name.rpartition("_")[0] for name in names})


def _read_unstarted(sweep_dir: Path, kind: str) -> Iterator[Run]:
    """Yield the unstarted jobs of a sweep that has no runs yet; logs of other programs are not looked for."""
    jobs = list(unstarted_jobs(sweep_dir, set()))
    if not jobs:
        raise ConfigError(
            f"{sweep_dir}: no run of this {kind} has started; repeat its rlox sweep command with "
            f"hydra.sweep.dir={sweep_dir}"
        )
    yield from jobs


def _output_dir(config: ReportConfig) -> Path:
    if config.out is not None:
        return expand_path(config.out)
    only_path = expand_path(config.runs[0]) if len(config.runs) == 1 else None
    if only_path is None or not only_path.is_dir():
        return Path(DEFAULT_FOLDER)
    for path in (only_path / DEFAULT_FOLDER, *(only_path / DEFAULT_FOLDER / name for name in SUBFOLDERS)):
        if path.is_symlink():  # an untrusted folder must not redirect the output
            raise ConfigError(f"{path} is a link to {path.readlink()}; remove it, or give out=FOLDER")
    return only_path / DEFAULT_FOLDER


def _title(config: ReportConfig) -> str:
    if config.title is not None:
        return safe_text(config.title)
    return safe_text(", ".join(expand_path(path_text).resolve().name for path_text in config.runs[:3]))


def _require_output_dir(out: Path) -> None:
    """Raise `StorageError` if `out` cannot be a folder, before the long work begins."""
    for path in (out, *out.parents):
        if path.is_dir():
            return
        if path.exists() or path.is_symlink():
            raise StorageError(f"{out} cannot be written: {path} is not a folder; give out=FOLDER")


def _make_dirs(out: Path) -> None:
    try:
        for folder in (out / name for name in SUBFOLDERS):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{out} cannot be written: {error.strerror}; give another place with out=FOLDER"
        ) from error


def terminal_lines(
    study: Study,
    results: Results,
    verdicts: Sequence[Verdict] | None,
    out: Path,
    formats: Sequence[str],
) -> Iterator[str]:
    """Yield the terminal output line by line."""
    yield summary_line(study)
    if results.cells:
        yield "final evaluation, IQM [95% CI]"
    yield from _truncate([f"  {_cell_line(result)}" for result in results.cells])
    if study.letter_settings:
        yield "where settings differ"
    yield from _truncate(
        [
            f"  {name}: {safe_text(settings_text, MAX_TEXT_LENGTH)}"
            for name, settings_text in study.letter_settings.items()
        ]
    )
    if results.overall:
        scale = ", scores from 0 to 1" if results.is_normalized else ""
        yield f"over all tasks, IQM [95% CI]{scale}"
        yield from _truncate(
            [
                f"  {a.method}: {a.iqm} ({count_text(a.runs, 'run')}, {count_text(a.tasks, 'task')})"
                for a in results.overall
            ]
        )
    yield from _truncate(
        [
            f"  {run.status}: {run.name}{f': {safe_text(run.reason, MAX_TEXT_LENGTH)}' if run.reason else ''}"
            for run in study.left_out
        ]
    )
    yield from (f"note: {note}" for note in notes(study, results))
    if verdicts is not None:
        yield compare.verdict_counts_text(verdicts)
        yield from _truncate([f"  {compare.verdict_line(v)}" for v in verdicts if not v.agrees])
    yield f"page     {out / 'report.html'}"
    yield f"numbers  {out / 'report.json'}"
    yield f"figures  {out / 'figures'} ({', '.join(formats)})" if formats else "figures  none"
    yield f"tables   {out / 'tables'} (Markdown, LaTeX)"


def _cell_line(result: CellResult) -> str:
    cell, n = result.cell, result.n
    return f"{cell.method} on {cell.task}: {result.iqm} ({count_text(n, 'run')})"


def _truncate(lines: list[str]) -> Iterator[str]:
    yield from lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        yield f"  and {len(lines) - MAX_LINES:,} more, in the report"
