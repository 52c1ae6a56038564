"""Tests of a report's section on a search: its history, and how the scores depend on the tried values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.reports import ReportPage, make_run

from rlox_cli.commands.report import ReportConfig
from rlox_cli.report.build import report
from rlox_cli.report.trials import rank_correlation


def searched(folder: Path, scores: dict[int, tuple[float | None, float]]) -> Path:
    """Write the folder of a search in which each trial has a score and a learning rate."""
    for number, (score, rate) in scores.items():
        status = {} if score is not None else {"status": "failed", "reason": "EnvError: no"}
        settings: dict[str, Any] = {"learning_rate": rate, "n_steps": 16}
        make_run(folder / f"{number}_seed-0_ab12cd", score, settings=settings, **status)
    (folder / "study.db").write_bytes(b"")
    return folder


def page_of(folder: Path) -> ReportPage:
    assert report(ReportConfig(runs=(str(folder),), formats=("png",), resamples=200)) == 0
    return ReportPage(folder / "report" / "report.html")


def test_a_search_is_shown_in_the_order_of_its_trials_with_the_best_so_far(tmp_path: Path) -> None:
    scores = {1: (10.0, 1e-4), 2: (30.0, 1e-3), 3: (None, 0.1), 10: (20.0, 5e-4), 11: (40.0, 0.05)}
    page = page_of(searched(tmp_path / "found", scores))
    history = page.data["panels"]["plot-search_history-0"]
    points, best = history["data"]
    assert (points["mode"], best["mode"]) == ("markers", "lines")
    assert (points["x"], points["y"]) == ([1, 2, 10, 11], [10, 30, 20, 40])
    assert best["y"] == [10, 30, 30, 40]
    (values,) = [k for k in page.data["panels"] if k.startswith("plot-search_values")]
    panel = page.data["panels"][values]
    assert panel["layout"]["xaxis"]["type"] == "log"
    assert panel["layout"]["xaxis"]["title"]["text"] == "algo.learning_rate"
    table = page.tables["table-search_values"]
    assert table.rows == [["algo.learning_rate", "1.000", "0.05"]]
    assert table.head[-1] == "value in the best trial (11)"
    names = {path.name for path in (tmp_path / "found" / "report" / "figures").iterdir()}
    assert {"search_history.png", "search_values.png"} <= names


def test_the_report_omits_the_search_section_without_a_study_or_with_two_trials(
    tmp_path: Path,
) -> None:
    scores: dict[int, tuple[float | None, float]] = {1: (1.0, 0.1), 2: (2.0, 0.2), 3: (3.0, 0.3)}
    plain = searched(tmp_path / "plain", scores)
    (plain / "study.db").unlink()
    short = searched(tmp_path / "short", {1: (1.0, 0.1), 2: (2.0, 0.2)})
    for folder in (plain, short):
        assert "The search" not in page_of(folder).text


def test_rank_correlation_gives_equal_values_their_mean_rank() -> None:
    squares = np.array([1.0, 4.0, 9.0, 16.0])
    assert rank_correlation(np.arange(4.0), squares) == pytest.approx(1.0)
    assert rank_correlation(np.arange(4.0), -squares) == pytest.approx(-1.0)
    # ranks 1.5, 1.5, 3 and 1, 2, 3: covariance 1.5 over the root of 1.5 times 2
    tied = rank_correlation(np.array([5.0, 5.0, 7.0]), np.array([1.0, 2.0, 3.0]))
    assert tied == pytest.approx(1.5 / (1.5 * 2) ** 0.5)
    assert rank_correlation(np.array([1.0, 1.0, 1.0]), np.arange(3.0)) is None
