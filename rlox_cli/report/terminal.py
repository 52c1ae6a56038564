"""Terminal output of `rlox report`: the scores, the runs that are not counted, and the paths of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rlox.statistics.comparison import Verdict
from rlox_cli.report import compare
from rlox_cli.report.records import safe_text
from rlox_cli.report.results import CellResult, Results
from rlox_cli.report.sections import count_text, notes, summary_line
from rlox_cli.report.study import Study

MAX_LINES = 20  # lines of one list
MAX_TEXT_LENGTH = 160  # characters of a reason, or of a lettered method's settings; the report has all


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
