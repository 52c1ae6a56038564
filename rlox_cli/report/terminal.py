"""What `rlox report` says in the terminal: the scores, what is not counted, and where the files are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rlox.statistics.expected import Verdict
from rlox_cli.report import compare
from rlox_cli.report.records import text
from rlox_cli.report.results import CellResult, Results
from rlox_cli.report.sections import lead, many, notes
from rlox_cli.report.study import Study

MOST = 20  # lines of one kind
LONGEST = 160  # letters of a reason, or of what a letter stands for; the report has all


def lines(
    study: Study,
    results: Results,
    verdicts: Sequence[Verdict] | None,
    out: Path,
    formats: Sequence[str],
) -> Iterator[str]:
    """Line by line."""
    yield lead(study)
    if results.cells:
        yield "final evaluation, IQM [95% CI]"
    yield from _cut([f"  {_cell(result)}" for result in results.cells])
    if study.letters:
        yield "where settings differ"
    yield from _cut([f"  {name}: {text(said, LONGEST)}" for name, said in study.letters.items()])
    if results.overall:
        scale = ", scores from 0 to 1" if results.scaled else ""
        yield f"over all tasks, IQM [95% CI]{scale}"
        yield from _cut(
            [
                f"  {a.method}: {a.iqm} ({many(a.runs, 'run')}, {many(a.tasks, 'task')})"
                for a in results.overall
            ]
        )
    yield from _cut(
        [
            f"  {run.status}: {run.name}{f': {text(run.reason, LONGEST)}' if run.reason else ''}"
            for run in study.left_out
        ]
    )
    yield from (f"note: {note}" for note in notes(study, results))
    if verdicts is not None:
        yield compare.summed(verdicts)
        yield from _cut([f"  {compare.line(v)}" for v in verdicts if not v.agrees])
    yield f"page     {out / 'report.html'}"
    yield f"numbers  {out / 'report.json'}"
    yield f"figures  {out / 'figures'} ({', '.join(formats)})" if formats else "figures  none"
    yield f"tables   {out / 'tables'} (Markdown, LaTeX)"


def _cell(result: CellResult) -> str:
    cell, n = result.cell, result.n
    return f"{cell.method} on {cell.task}: {result.iqm} ({many(n, 'run')})"


def _cut(said: list[str]) -> Iterator[str]:
    yield from said[:MOST]
    if len(said) > MOST:
        yield f"  and {len(said) - MOST:,} more, in the report"
