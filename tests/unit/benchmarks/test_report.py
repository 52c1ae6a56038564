"""Tests the results of a benchmark run: JSON of one version, a table of all systems, plots, a gate."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from harness.gate import failure_messages
from harness.machine import describe_machine
from harness.plots import write_plots
from harness.record import SchemaError, read_report
from harness.table import duration, render
from helpers.benchmarks import record, report


def test_a_report_reads_back_as_it_was_written(tmp_path):
    written = report(record())
    written.write(tmp_path / "a" / "test.json")
    assert read_report(tmp_path / "a" / "test.json") == written


def test_a_benchmark_report_has_the_fields_of_schema_version_1(tmp_path):
    report(record()).write(tmp_path / "test.json")
    tree = json.loads((tmp_path / "test.json").read_text())
    assert tree["schema_version"] == 1
    assert " ".join(sorted(tree)) == (
        "benchmark cases commit date machine protocol quick schema_version threads versions"
    )
    assert " ".join(tree["cases"][0]) == ("row work size elements systems comparisons verdicts")
    assert " ".join(tree["cases"][0]["systems"][0]) == ("name package ours seconds loops scale median note")
    assert " ".join(tree["cases"][0]["comparisons"][0]) == "ours peer ratio low high fastest"
    assert " ".join(tree["cases"][0]["verdicts"][0]) == "ours against minimum ratio met goal"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version is 2, expected 1"),
        ({"machines": {}}, "machines"),
        ({"cases": [{"row": "P1"}]}, "systems"),
    ],
)
def test_read_report_refuses_reports_of_another_schema(change, message, tmp_path):
    path = tmp_path / "test.json"
    report(record()).write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(SchemaError, match=message):
        read_report(path)


def test_the_table_names_the_blas_library_of_the_run():
    machine = {"cpu": "a processor", "blas": "MKL, AVX2", "cores": 2, "load": 0.5}
    assert "; a processor, MKL, AVX2, 2 cores, load 0.5 at" in render(
        replace(report(record()), machine=machine)
    )
    assert describe_machine()["blas"].split(", ")[1] == torch.backends.cpu.get_cpu_capability()


def test_the_table_names_ours_every_peer_the_ratio_the_goal_and_the_outcome():
    page = render(report(record(), record(absent=("envpool",))))
    assert "2026-01-02T03:04:05+00:00, commit 0123456789ab; a processor, 2 cores" in page
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert table == [
        "| size | system | time | slow | gone | ratio to the fastest peer | goal |  |",
        "|---|---|---|---|---|---|---|---|",
        "| 10 | rlox | 10.0 ms | 20.0 ms | 500 ms | 2.00x [2.00, 2.00] slow | 1.5x slow: 2.00x | met |",
        "| 10 | rlox | 10.0 ms | 20.0 ms | not installed | 2.00x [2.00, 2.00] slow | "
        "1.5x slow: 2.00x | met |",
    ]
    assert page.endswith("\n- gone: only a test\n")


@pytest.mark.parametrize(
    ("own", "goal", "outcome"), [(0.01, 1.5, "met"), (0.01, 2.5, "missed"), (0.03, 1.5, "slower")]
)
def test_the_benchmark_table_ends_each_row_with_the_outcome_of_its_goal(own, goal, outcome):
    page = render(report(record(own_seconds=own, peer=0.02, goal=goal)))
    assert page.splitlines()[-3].endswith(f"| {outcome} |")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.0, "2.00 s"),
        (0.0123, "12.3 ms"),
        (0.000456, "456 us"),
        (1e-6, "1.00 us"),
        (7.3e-8, "73.0 ns"),
        (5e-10, "0.50 ns"),
    ],
)
def test_a_duration_has_three_digits_and_a_unit(seconds, text):
    assert duration(seconds) == text


def test_the_gate_says_which_goal_was_missed_and_where_a_peer_is_faster():
    assert failure_messages(report(record())) == []
    assert failure_messages(report(record(goal=2.5))) == [
        "P0 counting, 10: rlox is 2.00x as fast as slow, the goal is 2.5x"
    ]
    assert failure_messages(report(record(own_seconds=0.04))) == [
        "P0 counting, 10: rlox is 0.50x as fast as slow, the goal is 1.5x",
        "P0 counting, 10: rlox is 0.50x as fast as slow, a peer is faster",
    ]


def test_write_plots_writes_one_png_for_each_kind_of_work(tmp_path):
    files = write_plots(report(record(), record()), tmp_path)
    assert [f.name for f in files] == ["p0_counting.png"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
