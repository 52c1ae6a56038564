"""What is on the page, in the order in which it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rlox.statistics.expected import Verdict
from rlox_cli.report import compare, content, trials
from rlox_cli.report.compute import chosen
from rlox_cli.report.figures import Figure
from rlox_cli.report.page import Page, Section
from rlox_cli.report.results import Results
from rlox_cli.report.study import Study


def page(title: str, study: Study, results: Results, verdicts: Sequence[Verdict] | None) -> Page:
    """The page of a study."""
    places = chosen(study, results.aggregates)
    found = [*_scores(study, results, places), *_over_tasks(results, places)]
    found += [*trials.sections(study), *_rest(study, results, places, verdicts)]
    return Page(
        title=title,
        lead=lead(study),
        notes=[*notes(study, results), *_cut(study, places)],
        sections=found,
        methods=list(places),
        footer=(
            f"Made by rlox report on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC from the logs of the runs "
            "alone. Beside this page are its figures (figures/), its tables as Markdown and LaTeX (tables/) "
            "and its scores (report.json)."
        ),
    )


def lead(study: Study) -> str:
    """`12 runs of 2 methods on 2 tasks: 11 done, 1 failed.`"""
    states = Counter(run.status for run in study.runs)
    counted = ", ".join(f"{n} {state}" for state, n in states.most_common())
    sizes = (
        many(len(study.runs), "run"), many(len(study.methods), "method"), many(len(study.tasks), "task"),
    )  # fmt: skip
    return f"{sizes[0]} of {sizes[1]} on {sizes[2]}: {counted}."


def notes(study: Study, results: Results) -> Iterator[str]:
    """What a reader has to know before believing a number, and what is not there and why."""
    yield from study.notes()
    drawn = {curves.task for curves in results.curves}
    without = [task for task in study.tasks if task not in drawn]
    if without:
        where = f" of {', '.join(without[:3])}{' and more' * (len(without) > 3)}" if drawn else ""
        yield (
            f"No learning curves{where}: no run logged two returns during training. Runs log the training "
            "return every log.every steps and play evaluations every eval.every."
        )


def _scores(study: Study, results: Results, places: dict[str, int]) -> Iterator[Section]:
    if results.cells:
        figures = _some(content.score_figure(results, places))
        tables = [content.score_table(results)]
        yield Section("scores", "Final evaluation", figures=figures, tables=tables)
    if study.left_out:
        table = content.left_out_table(study)
        yield Section("left-out", table.title, tables=[table])
    if figures := _some(content.curve_figure(results, places)):
        yield Section("curves", "Learning curves", figures=figures)
    if figures := _some(content.measure_figure(results, places)):
        yield Section("measures", "Losses and entropy", figures=figures)


def _over_tasks(results: Results, places: dict[str, int]) -> Iterator[Section]:
    if results.overall:
        table = content.aggregate_table(results)
        yield Section("aggregate", table.title, tables=[table])
    if results.profile:
        figures = _some(content.profile_figure(results, places))
        yield Section("profile", "Performance profile", figures=figures)
    if results.better:
        figures = _some(content.better_figure(results, places))
        tables = [content.better_table(results)]
        yield Section("improvement", tables[0].title, figures=figures, tables=tables)
    if results.efficiency:
        figures = _some(content.efficiency_figure(results, places))
        yield Section("efficiency", "Sample efficiency", figures=figures)


def _rest(
    study: Study, results: Results, places: dict[str, int], verdicts: Sequence[Verdict] | None
) -> Iterator[Section]:
    if verdicts is not None:
        table = compare.table(verdicts)
        yield Section("expected", table.title, [compare.summed(verdicts)], tables=[table])
    if results.times:
        figures = _some(content.time_figure(results, places))
        tables = [content.time_table(results)]
        yield Section("time", "Where the time goes", figures=figures, tables=tables)
    if settings := content.settings_table(study):
        yield Section("settings", settings.title, tables=[settings])
    tables = [
        content.provenance_table(study, same=False),
        content.provenance_table(study, same=True),
    ]
    if tables := [table for table in tables if table.rows]:
        yield Section("provenance", "Where the runs come from", tables=tables)
    yield Section("runs", "Every run", tables=[content.run_table(study)])


def _cut(study: Study, places: dict[str, int]) -> Iterator[str]:
    if len(study.methods) > len(places):
        yield (
            f"Figures show {len(places)} of {len(study.methods)} methods, those with the highest IQM; the "
            "tables have all."
        )


def _some(figure: Figure) -> list[Figure]:
    return [figure] if figure.panels else []


def many(count: int, what: str) -> str:
    """`1 run`, `1,000 runs`."""
    return f"{count:,} {what}{'s' * (count != 1)}"
