"""Tests that intervals of few runs contain the truth as often as docs/statistics.md says.

Verdicts keep their level.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import statistics_coverage
from statistics_coverage import Capped, Normal, coverage, differing_share

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("runs", "covered"), [(3, 0.73), (5, 0.88), (10, 0.935)])
def test_an_interval_of_few_normal_runs_is_too_narrow_by_what_is_known(runs: int, covered: float) -> None:
    assert coverage(Normal(), runs, 1, 1500) == pytest.approx(covered, abs=0.03)


@pytest.mark.parametrize("kind", [Normal(), Capped()])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_verdicts_on_runs_of_the_same_thing_are_rarely_that_they_differ(
    kind: Normal | Capped, runs: int
) -> None:
    said, _ = differing_share(kind, runs, 0, 600)
    assert said <= 0.03  # the level is 1%; 600 verdicts may have a few more


def test_collapses_of_ten_runs_differ_nearly_always() -> None:
    for kind in (Normal(), Capped()):
        said, _ = differing_share(kind, 10, 3, 200)
        assert said > 0.85


def test_the_statistics_coverage_command_writes_the_tables_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(statistics_coverage, "RESAMPLES", 20)
    monkeypatch.setattr(sys, "argv", ["coverage", "--samples", "2", "--out", str(tmp_path / "new")])
    statistics_coverage.main()
    written = (tmp_path / "new" / "statistics_coverage.md").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    found = json.loads((tmp_path / "new" / "statistics_coverage.json").read_text(encoding="utf-8"))
    assert statistics_coverage.tables(found) == written
    assert {row["runs"] for row in found["coverage"]} == {3, 5, 10, 20}


def test_the_tables_of_the_page_are_the_committed_figures() -> None:
    results = ROOT / "benchmarks" / "results"
    found = json.loads((results / "statistics_coverage.json").read_text(encoding="utf-8"))
    shown = statistics_coverage.tables(found)
    assert (results / "statistics_coverage.md").read_text(encoding="utf-8") == shown
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    for table in shown.split("\n\n"):
        assert table.strip() in page
