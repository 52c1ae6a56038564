"""The sections of the page, in reading order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rlox.statistics.comparison import Verdict
from rlox_cli.report import compare, content, trials
from rlox_cli.report.compute import shown_methods
from rlox_cli.report.figures import Figure
from rlox_cli.report.page import Page, Section
from rlox_cli.report.results import Results
from rlox_cli.report.study import Study


def make_page(title: str, study: Study, results: Results, verdicts: Sequence[Verdict] | None) -> Page:
    """Build the page of a study."""
    style_indices = shown_methods(study, results.aggregates)
    sections = [*_score_sections(study, results, style_indices), *_aggregate_sections(results, style_indices)]
    sections += [*trials.search_sections(study), *_other_sections(study, results, style_indices, verdicts)]
    return Page(
        title=title,
        subtitle=summary_line(study),
        notes=[*notes(study, results), *_omitted_methods_note(study, style_indices)],
        sections=sections,
        methods=list(style_indices),
        footer=(
            f"Made by rlox report on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC from the logs of the runs "
            "alone. Beside this page are its figures (figures/), its tables as Markdown and LaTeX (tables/) "
            "and its scores (report.json)."
        ),
    )


def summary_line(study: Study) -> str:
    """Summarise a study, such as `12 runs of 2 methods on 2 tasks: 11 done, 1 failed`."""
    states = Counter(run.status for run in study.runs)
    counts_text = ", ".join(f"{n} {state}" for state, n in states.most_common())
    sizes = (
        count_text(len(study.runs), "run"),
        count_text(len(study.methods), "method"),
        count_text(len(study.tasks), "task"),
    )
    return f"{sizes[0]} of {sizes[1]} on {sizes[2]}: {counts_text}."


def notes(study: Study, results: Results) -> Iterator[str]:
    """Yield caveats on the numbers, and the reason why learning curves are missing."""
    yield from study.notes()
    tasks_with_curves = {curves.task for curves in results.curves}
    tasks_without_curves = [task for task in study.tasks if task not in tasks_with_curves]
    if tasks_without_curves:
        tasks_text = (
            f" of {', '.join(tasks_without_curves[:3])}{' and more' * (len(tasks_without_curves) > 3)}"
            if tasks_with_curves
            else ""
        )
        yield (
            f"No learning curves{tasks_text}: no run logged two returns during training. Runs log the "
            "training return every log.every steps and play evaluations every eval.every."
        )


def _score_sections(study: Study, results: Results, style_indices: dict[str, int]) -> Iterator[Section]:
    if results.cells:
        figures = _non_empty(content.score_figure(results, style_indices))
        tables = [content.score_table(results)]
        yield Section("scores", "Final evaluation", figures=figures, tables=tables)
    if study.left_out:
        table = content.left_out_table(study)
        yield Section("left-out", table.title, tables=[table])
    if figures := _non_empty(content.curve_figure(results, style_indices)):
        yield Section("curves", "Learning curves", figures=figures)
    if figures := _non_empty(content.measure_figure(results, style_indices)):
        yield Section("measures", "Losses and entropy", figures=figures)


def _aggregate_sections(results: Results, style_indices: dict[str, int]) -> Iterator[Section]:
    if results.overall:
        table = content.aggregate_table(results)
        yield Section("aggregate", table.title, tables=[table])
    if results.profile:
        figures = _non_empty(content.profile_figure(results, style_indices))
        yield Section("profile", "Performance profile", figures=figures)
    if results.improvements:
        figures = _non_empty(content.improvement_figure(results, style_indices))
        tables = [content.improvement_table(results)]
        yield Section("improvement", tables[0].title, figures=figures, tables=tables)
    if results.efficiency:
        figures = _non_empty(content.efficiency_figure(results, style_indices))
        yield Section("efficiency", "Sample efficiency", figures=figures)


def _other_sections(
    study: Study, results: Results, style_indices: dict[str, int], verdicts: Sequence[Verdict] | None
) -> Iterator[Section]:
    if verdicts is not None:
        table = compare.verdict_table(verdicts)
        yield Section("expected", table.title, [compare.verdict_counts_text(verdicts)], tables=[table])
    if results.times:
        figures = _non_empty(content.time_figure(results, style_indices))
        tables = [content.time_table(results)]
        yield Section("time", "Where the time goes", figures=figures, tables=tables)
    if settings := content.settings_table(study):
        yield Section("settings", settings.title, tables=[settings])
    tables = [
        content.provenance_table(study, only_common=False),
        content.provenance_table(study, only_common=True),
    ]
    if tables := [table for table in tables if table.rows]:
        yield Section("provenance", "Where the runs come from", tables=tables)
    yield Section("runs", "Every run", tables=[content.run_table(study)])


def _omitted_methods_note(study: Study, style_indices: dict[str, int]) -> Iterator[str]:
    if len(study.methods) > len(style_indices):
        yield (
            f"Figures show {len(style_indices)} of {len(study.methods)} methods, those with the highest IQM; "
            "the tables have all."
        )


def _non_empty(figure: Figure) -> list[Figure]:
    return [figure] if figure.panels else []


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `1,000 runs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
