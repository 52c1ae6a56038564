"""Tests the suites of `rlox bench`, the process that measures them, and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import measure_suite
import pytest
import regressions
import yaml
from harness.suites import BUNDLED_PEERS, SUITES
from harness.yardsticks import KINDS, yardstick
from helpers.benchmarks import NOWHERE
from helpers.cli import Cli

from rlox.errors import ConfigError
from rlox_cli.bench import process
from rlox_cli.bench.config import SUITES as CONFIGS
from rlox_cli.bench.record import BenchRecord, read_baseline
from rlox_cli.bench.session import _measure_again
from rlox_cli.commands import bench

ROOT = Path(__file__).resolve().parents[3]
V_TRACE = "P3 V-trace of one trajectory, float32, 2,048: rlox"  # has no peers in ci
TINY = ("suite.passes=2", "suite.rounds=2", "suite.sample_ms=0.1", "instructions=false")
ONE = ("only=group adv", *TINY)


@pytest.mark.parametrize("suite", SUITES)
def test_the_cases_of_a_suite_have_names_of_their_own_and_a_yardstick(suite):
    found = list(SUITES[suite](NOWHERE))
    names = [entry.name for entry in found]
    assert len(names) == len(set(names)) > 5
    assert {entry.yardstick for entry in found} <= set(KINDS)


def test_each_suite_of_the_command_is_one_of_the_benchmarks_with_a_file():
    files = {path.stem for path in (ROOT / "conf" / "suite").glob("*.yaml")}
    assert set(SUITES) == set(CONFIGS) == files == {"ci", "primitives", "rollout", "training"}


def test_the_suite_for_ci_needs_no_peer_that_rlox_does_not_bring():
    found = list(SUITES["ci"](NOWHERE))
    assert {peer.package for entry in found for peer in entry.case.peers} <= set(BUNDLED_PEERS)
    assert not any(p.package == "original" for entry in found for p in entry.case.peers)


def test_making_the_ci_suite_does_not_import_torch():
    code = (
        "import sys; from harness.suites import SUITES; from harness.cli import Context; "
        "from harness.original import Original; list(SUITES['ci'](Context(Original(None), True))); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_yardstick_can_be_taken_again_and_again(kind):
    runner = yardstick(kind)
    assert runner.sample(2) > 0
    assert runner.sample(2) > 0


def test_a_metered_sample_has_cpu_and_clock_of_one_loop(monkeypatch):
    clocks = {"process_time": iter([1.0, 1.5]), "perf_counter": iter([7.0, 9.0])}
    for name, ticks in clocks.items():
        monkeypatch.setattr(measure_suite.time, name, ticks.__next__)
    metered = measure_suite.MeteredRunner(SimpleNamespace(sample=lambda loops: loops / 2))
    assert metered.sample(5) == 2.5
    assert (metered.cpu, metered.wall) == ([0.1], [0.4])


def test_the_total_of_a_file_of_callgrinds_is_read(tmp_path):
    (tmp_path / "counts.1").write_text("summary: 12\n\ntotals: 34\n")
    assert measure_suite.read_total(tmp_path / "counts.1") == 34
    (tmp_path / "counts.2").write_text("no counts\n")
    with pytest.raises(measure_suite.CountError, match=r"counts\.2"):
        measure_suite.read_total(tmp_path / "counts.2")


# The command


def test_a_case_is_measured_beside_its_peers_and_its_yardstick_and_written(cli: Cli, tmp_path):
    result = cli("bench", *ONE, "summary=table.md")
    assert result.code == 0, result.err
    tree = json.loads((tmp_path / "bench.json").read_text())
    assert (tree["schema_version"], tree["suite"]) == (1, "ci")
    assert {"cpu", "cores", "load"} <= tree["machine"].keys()
    assert {"python", "numpy", "rlox-runner"} <= tree["versions"].keys()
    (case,) = tree["cases"]
    assert case["to_peers"].keys() == {"NumPy", "torch"}
    for ratio in (*case["to_peers"].values(), case["to_yardstick"]["cpu"]):
        assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    assert len(case["passes"]["cpu"]) == 2
    assert "| P10 group advantages, float64, 256 x 16: rlox |" in result.out
    assert (tmp_path / "table.md").read_text() == result.out
    assert "pass 2 of 2" in result.err


def as_if_it_took(path: Path, factor: float) -> None:
    """Changes a record as if rlox had taken `factor` times as long."""
    tree = json.loads(path.read_text())
    for case in tree["cases"]:
        case["passes"] = {
            clock: [([s * factor for s in ours], beside) for ours, beside in passes]
            for clock, passes in case["passes"].items()
        }
    path.write_text(json.dumps(tree))


def test_rlox_bench_remeasures_and_names_slower_rows_and_exits_with_1(cli: Cli, tmp_path, monkeypatch):
    looks: list[Any] = []

    def look(record: Any, config: Any, names: Any) -> Any:
        looks.append(list(names))
        return _measure_again(record, config, names)

    monkeypatch.setattr("rlox_cli.bench.session._measure_again", look)
    given = ("only=v-trace", *TINY)
    assert cli("bench", *given, "out=before.json").code == 0
    as_if_it_took(tmp_path / "before.json", 1e3)  # so much that no load of the machine matters
    result = cli("bench", *given, "baseline=before.json", "out=before.json")
    assert result.code == 0, result.err
    assert "Nothing became slower" in result.out
    looks.clear()
    as_if_it_took(tmp_path / "before.json", 1e-6)
    result = cli("bench", *given, "baseline=before.json")
    assert result.code == 1, result.err
    assert looks == [[V_TRACE]]
    (line,) = regressions.slower_cases(result.out)
    assert re.match(re.escape(V_TRACE) + r": CPU time \S+ -> \S+ yardsticks, \S+x, tolerance", line)


def test_the_names_of_cases_are_shown_without_measuring(cli: Cli, tmp_path):
    result = cli("bench", "suite=rollout", "cases=true", "only=acrobot")
    assert result.code == 0
    assert len(result.out.splitlines()) == 16  # four sizes of four ways to step
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "schema_version None, expected 1"),
        ("[1]", "schema_version None, expected 1"),
        ("not json", "not JSON"),
        ('{"schema_version": 1, "cases": [{}]}', "not written by rlox bench"),
        ('{"schema_version": 2}', "schema_version 2, expected 1"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text, says):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_baseline(tmp_path / "x.json")


def test_a_baseline_of_another_suite_is_refused(cli: Cli, tmp_path):
    written = BenchRecord("ci", {}, "2026-01-02", None).to_dict()
    (tmp_path / "before.json").write_text(json.dumps(written))
    result = cli("bench", "suite=rollout", "baseline=before.json")
    assert result.code == 2
    assert "of suite=ci, not rollout" in result.err
    only_named = cli("bench", "suite=rollout", "baseline=before.json", "cases=true")
    assert (only_named.code, only_named.out, only_named.err) == (2, "", result.err)
    missing = cli("bench", "cases=true", "baseline=nowhere.json")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == "rlox bench: baseline=nowhere.json: No such file or directory\n"


def test_the_error_of_a_dead_process_has_its_last_output(monkeypatch, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import sys; print('{}'); sys.exit('out of luck')")
    monkeypatch.setattr(process, "MEASURE_SCRIPT", script)
    with pytest.raises(Exception, match="ended with 1: out of luck"):
        list(process.run_request({"mode": "list"}))


def test_peers_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(measure_suite.peers, "is_importable", lambda package: package != "torch")
    said: list[dict[str, Any]] = []
    request = {"suite": "ci", "mode": "list", "only": None, "names": None}
    assert measure_suite.main(request, lambda **event: said.append(event)) == 0
    assert list(said[0]["absent"]) == ["torch"]


# The workflow and slow-downs


def test_the_workflow_measures_both_sides_compares_and_posts_the_table():
    flow = yaml.safe_load((ROOT / "docs" / "bench_ci.yml").read_text(encoding="utf-8"))
    steps = flow["jobs"]["bench"]["steps"]
    lines = [w for s in steps for w in s.get("run", "").splitlines() if "bin/rlox bench" in w]
    assert [re.findall(r"(\w+)/bin/rlox", line) for line in lines] == [["before"], ["after"]]
    assert "out=before.json" in lines[0] and "baseline=before.json" in lines[1]
    known = {key.name for key in bench.SCHEMA.keys(bench.SCHEMA.chosen_options(["suite=ci"]))}
    given = {k for line in lines for k in re.findall(r'[ "](\w+)=', line)}
    assert given - {"suite"} <= known
    assert any("gh pr comment" in step.get("run", "") for step in steps)
    assert not any("${{" in step.get("run", "") for step in steps), "a shell could be injected into"


@pytest.mark.parametrize("one", regressions.SLOW_DOWNS, ids=lambda one: one.name)
def test_each_slow_down_has_existing_cases(one):
    names = [entry.name for entry in SUITES["ci"](NOWHERE)]
    assert [name for name in names if name.startswith(one.cases)]
    assert [n for n in names if one.case_filter.lower() in n.lower() and n.startswith(one.cases)]


def test_a_slow_down_makes_three_calls_of_two():
    names: dict[str, Any] = {}
    exec(regressions.SLOW_DOWN_CODE, names)
    calls: list[int] = []
    slowed = names["_again"](calls.append)
    for number in range(10):
        slowed(number)
    assert len(calls) == 15


def test_the_bench_process_ignores_printed_lines_that_are_no_json():
    assert process._parse_event("loading ...\n") == {}
    assert process._parse_event('{"event": "x"}\n') == {"event": "x"}
