"""Tests the campaign of outages: its figures from pairs of runs, and broken promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults.outage import Pair, RunTimings, SyncedRows
from reliability.logger_outage import broken_promises, figures, parse, table


def pair(plain: float, logged: float, exit_seconds: float = 4.0) -> Pair:
    return Pair(Path("run"), RunTimings(plain, 1.0, 0.5, ""), RunTimings(logged, 0.995, exit_seconds, ""))


def counts(**others: Any) -> dict[str, Any]:
    sent = [SyncedRows(0, 21, 0, 0), SyncedRows(0, 21, 0, 0)]
    return {**figures([pair(1000, 990), pair(500, 505, 4.5)], sent), **others}


def test_a_ratio_is_of_the_two_runs_of_a_pair() -> None:
    found = counts()
    by_clock = found["by clock"]
    assert by_clock["pairs"] == [0.99, 1.01]
    assert by_clock["ratio"] == pytest.approx((0.99 * 1.01) ** 0.5, abs=1e-4)
    assert by_clock["ci95"] == [0.99, 1.01]  # the interval of two pairs spans both
    assert found["by cpu"] == {"ratio": 0.995, "ci95": [0.995, 0.995], "pairs": [0.995, 0.995]}
    assert (found["longest_exit_s"], found["longest_exit_without_s"]) == (4.5, 0.5)
    assert (found["pairs"], found["synced"], found["rows"]) == (2, 2, 42)
    assert broken_promises(found) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"by clock": {"ci95": [0.9, 0.979]}}, "the ratio by clock is at most 0.979"),
        ({"by cpu": {"ci95": [0.9, 0.979]}}, "the ratio by cpu is at most 0.979"),
        ({"longest_exit_s": 5.1}, "an exit took 5.1 s"),
        ({"synced": 1}, "a sync is not complete"),
        ({"rows missing": 1}, "a row is missing"),
        ({"rows twice": 1}, "a row is there twice"),
    ],
)
def test_the_outage_campaign_names_each_promise_that_a_run_breaks(wrong: dict[str, Any], told: str) -> None:
    assert broken_promises(counts(**wrong)) == [told]


def test_the_table_has_a_line_for_each_outage() -> None:
    lines = table({"refuses": counts(), "no such name": counts()}).splitlines()
    ratios = "0.995 [0.995, 0.995] | 1.000 [0.990, 1.010]"
    assert lines[2] == f"| refuses | 2 | {ratios} | 4.5 s (0.5 s) | 42 | 0 | 0 |"
    assert [line.count("|") for line in lines] == [9, 9, 9, 9]


def test_the_outage_campaign_refuses_an_unknown_outage_mode(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parse(["--modes", "500,no such name"]).modes == ["500", "no such name"]
    with pytest.raises(SystemExit):
        parse(["--modes", "500,sulks"])
    assert "--modes sulks: expected of refuses, 500" in capsys.readouterr().err
