"""Tests the way from systems to verdicts: agreement, medians, the fastest peer, goals."""

from __future__ import annotations

from typing import Any

import pytest
from harness.agreement import DisagreementError
from harness.case import Goal
from harness.measure import judge, measure_case
from harness.record import Comparison
from helpers.benchmarks import PROTOCOL, case, fake

HALVES = (0.010, 0.020, 0.030)  # median 0.020


def test_measure_case_reports_the_median_of_the_measured_rounds():
    # calibration takes one sample, so the cycle begins with the second one
    measured = measure_case(case(fake("rlox", *HALVES), fake("peer", 0.05)), PROTOCOL).systems[0]
    assert measured.seconds == (0.020, 0.030, 0.010, 0.020, 0.030, 0.010, 0.020)
    assert measured.median == 0.020


def test_the_fastest_peer_is_the_one_with_the_smallest_median():
    record = measure_case(case(fake("rlox", 0.01), fake("a", 0.03), fake("b", 0.02)), PROTOCOL)
    assert [(c.peer, round(c.ratio, 9), c.fastest) for c in record.comparisons] == [
        ("a", 3.0, False),
        ("b", 2.0, True),
    ]


def test_a_goal_is_held_against_the_fastest_peer_or_the_one_it_names():
    ours = fake("rlox", 0.01, goals=(Goal(2.5), Goal(2.5, "a")))
    record = measure_case(case(ours, fake("a", 0.03), fake("b", 0.02)), PROTOCOL)
    assert [(v.against, v.met) for v in record.verdicts if v.goal] == [("b", False), ("a", True)]


def test_a_peer_that_is_faster_is_noticed_without_any_goal():
    record = measure_case(case(fake("rlox", 0.03), fake("a", 0.02)), PROTOCOL)
    assert [(v.goal, v.met) for v in record.verdicts] == [(False, False)]


@pytest.mark.parametrize(("high", "met"), [(1.02, True), (0.99, False)])
def test_a_peer_whose_interval_reaches_ours_is_not_faster(high, met):
    tie = Comparison("rlox", "a", ratio=0.97, low=0.9, high=high, fastest=True)
    assert [v.met for v in judge(fake("rlox", 0.01), [tie])] == [met]


def test_a_system_that_is_not_gated_gets_no_verdict():
    beside = fake("rlox too", 0.03, is_gated=False)
    record = measure_case(case((fake("rlox", 0.01), beside), fake("a", 0.02)), PROTOCOL)
    assert {v.ours for v in record.verdicts} == {"rlox"}
    assert {c.ours for c in record.comparisons} == {"rlox", "rlox too"}


def test_time_for_a_part_of_the_work_is_scaled_to_all_of_it():
    record = measure_case(case(fake("rlox", 0.01), fake("a", 0.02, scale=32)), PROTOCOL)
    assert record.systems[1].median == pytest.approx(0.64)
    assert record.comparisons[0].ratio == pytest.approx(64)


def test_an_absent_peer_is_named_and_takes_no_part():
    peers = (fake("a", 0.02), fake("gone", 0.001, package="envpool"))
    record = measure_case(case(fake("rlox", 0.01), *peers), PROTOCOL, absent=["envpool"])
    assert record.systems[2].median is None
    assert [c.peer for c in record.comparisons] == ["a"]


def test_systems_with_different_results_are_not_timed():
    journal: list[Any] = []
    wrong = fake("a", 0.02, result=1.1, journal=journal)
    with pytest.raises(DisagreementError, match=r"answer of a differs from rlox's"):
        measure_case(case(fake("rlox", 0.01), wrong), PROTOCOL)
    assert journal == [("a", "closed")]


def test_a_system_declared_to_compute_something_else_is_timed():
    other = fake("a", 0.02, result=7.0, is_compared=False, note="adds 6")
    record = measure_case(case(fake("rlox", 0.01), other), PROTOCOL)
    assert record.systems[1].note == "adds 6"
    assert record.comparisons[0].ratio == pytest.approx(2)


def test_measure_case_closes_every_system_after_measuring():
    journal: list[Any] = []
    systems = [fake(name, 0.01, journal=journal) for name in ("rlox", "a")]
    measure_case(case(*systems), PROTOCOL)
    assert [entry for entry in journal if entry[1] == "closed"] == [
        ("a", "closed"),
        ("rlox", "closed"),
    ]


def test_a_bound_is_compared_by_name_and_is_never_the_fastest_peer():
    ours = fake("rlox", 0.01, package="rlox", goals=(Goal(0.1, "copy"),))
    record = measure_case(case(ours, fake("slow", 0.02), fake("copy", 0.002, is_bound=True)), PROTOCOL)
    assert [c.peer for c in record.comparisons if c.fastest] == ["slow"]
    assert [(v.against, v.met) for v in record.verdicts] == [("copy", True), ("slow", True)]
