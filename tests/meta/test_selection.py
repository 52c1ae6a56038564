"""Tests that marks select tests, measured seconds order them, and budgets are counted, also with workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import seconds
from helpers import budgets, selection
from helpers.repositories import commit_all

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
from pathlib import Path
from helpers import selection
from helpers.budgets import watch

selection.SECONDS_FILE = Path(__file__).with_name("seconds.json")

def pytest_configure(config):
    config.pluginmanager.register(selection.Selection(config))
    watch(config, Path(__file__).with_name("budgets.toml"))
"""
TREE = {
    "conftest.py": CONFTEST,
    "seconds.json": '{"seconds": {"tests/b/test_long.py": 90, "tests/a/test_marks.py": 1}}',
    "budgets.toml": "new = 15\ncommit = 'none'\n[budgets]\n'unit/part' = 15\n",
    "a/test_marks.py": "import pytest\n"
    "def test_quick(): assert 1\n"
    "@pytest.mark.alone\ndef test_alone(): assert 1\n"
    "@pytest.mark.slow\ndef test_slow(): assert 1\n"
    "@pytest.mark.slow\n@pytest.mark.alone\ndef test_both(): assert 1\n",
    "b/test_long.py": "def test_long(): assert 1\n",
    "c/test_unmeasured.py": "def test_unmeasured(): assert 1\n",
}
WORK = """
import subprocess, sys, time
def test_children_count():
    code = "import time\\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def make_tree(folder: Path, **extra_files: str) -> Path:
    """Make a small tree of tests with these plugins."""
    for name, text in {**TREE, **extra_files}.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = --strict-markers --import-mode=importlib\n"
        "markers =\n slow\n alone\n",
        encoding="utf-8",
    )
    return folder


def run_pytest(folder: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run pytest in `folder`; return its exit code and output."""
    prefixes = ("RLOX_", "PYTEST_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k != "CI"}
    plugins = ["-p", "no:cacheprovider", "-p", "xdist", "-p", "pytest_timeout"]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugins, *arguments],
        cwd=folder,
        env=env | {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environ,
        capture_output=True,
        text=True,
    )
    return process.returncode, process.stdout + process.stderr


def passed_tests(output: str) -> list[str]:
    """Return the names of the passed tests, in order."""
    lines = [line for line in output.splitlines() if "PASSED" in line and "::" in line]
    return [line.split("::")[1].split()[0].removesuffix("@") for line in lines]


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ((), {}, {"test_quick", "test_alone"}),
        (("-n", "2"), {}, {"test_quick"}),
        ((), {"RLOX_NIGHTLY": "1"}, {"test_quick", "test_alone", "test_slow", "test_both"}),
        (("-n", "1"), {"RLOX_NIGHTLY": "1"}, {"test_quick", "test_slow"}),
        (("-m", "slow"), {}, {"test_slow", "test_both"}),
        (("-m", "alone and not slow"), {}, {"test_alone"}),
        (("tests/a/test_marks.py::test_slow",), {}, {"test_slow"}),
        (
            ("tests", "tests/a/test_marks.py::test_slow"),
            {},
            {"test_quick", "test_alone", "test_slow"},
        ),
        (("-n", "1", "tests/a/test_marks.py::test_slow"), {}, {"test_slow"}),
    ],
)
def test_marks_decide_which_tests_run(arguments, environ, expected, tmp_path):
    code, output = run_pytest(make_tree(tmp_path), *arguments, **environ)
    found = {name for name in passed_tests(output) if name not in ("test_long", "test_unmeasured")}
    assert (code, found) == (0, expected), output


def test_workers_take_the_longest_files_first(tmp_path):
    code, output = run_pytest(make_tree(tmp_path), "-n", "1")
    assert (code, passed_tests(output)) == (0, ["test_long", "test_unmeasured", "test_quick"]), output


def test_packaging_tests_form_one_scope_and_other_files_one_each():
    nodeids = ["tests/packaging/test_a.py::test_1", "tests/unit/test_b.py::test_2"]
    assert [selection.scope_of(n) for n in nodeids] == ["tests/packaging/", "tests/unit/test_b.py"]
    nodeids = ["tests/x.py::a", "tests/packaging/p.py::b", "tests/packaging/q.py::c"]
    measured = {"tests/x.py": 5.0, "tests/packaging/p.py": 3.0, "tests/packaging/q.py": 3.0}
    assert selection.longest_first(nodeids, measured) == [1, 2, 0]


@pytest.mark.parametrize(("mark", "limit"), [("", 120), ("@pytest.mark.slow\n", 900)])
@pytest.mark.parametrize(("loaded", "times"), [("0", 1), ("1", 5)])
def test_the_mark_of_a_test_sets_its_time_limit(mark, limit, loaded, times, tmp_path):
    code, output = run_pytest(
        make_tree(tmp_path, **make_limit_test(mark, limit * times)), "tests/d/test_limit.py::test_limit",
        RLOX_LOADED=loaded,
    )  # fmt: skip
    assert code == 0, output


@pytest.mark.parametrize(("mark", "limit"), [("", 7200), ("@pytest.mark.timeout(10_000)\n", 10_000)])
def test_a_campaign_at_full_size_has_hours(mark, limit, tmp_path):
    folder = make_tree(tmp_path, **make_limit_test(mark, limit))
    code, output = run_pytest(folder, "tests/d/test_limit.py::test_limit", RLOX_FULL="1")
    assert code == 0, output


def make_limit_test(mark: str, limit: int) -> dict[str, str]:
    """Return a file whose test requires this time limit."""
    source = (
        f"import pytest\n{mark}def test_limit(request):\n"
        f"    assert request.node.get_closest_marker('timeout').args == ({limit},)\n"
    )
    return {"d/test_limit.py": source}


def test_every_measured_file_exists_and_has_seconds():
    measured = json.loads((TESTS / "seconds.json").read_text(encoding="utf-8"))["seconds"]
    assert [file for file in measured if not (TESTS.parent / file).is_file()] == []
    assert all(value >= 0 for value in measured.values())


def test_seconds_of_a_file_are_those_of_its_tests_in_all_reports(tmp_path):
    report = (
        '<testsuites><testsuite><testcase classname="{}" name="x" time="1.26"/>'
        '<testcase classname="{}" name="y" time="2"/></testsuite></testsuites>'
    )
    own, other = "tests.meta.test_selection", "tests.gone"
    (tmp_path / "a.xml").write_text(report.format(own, own), encoding="utf-8")
    (tmp_path / "b.xml").write_text(report.format(f"{own}.TestX", other), encoding="utf-8")
    found = seconds.seconds_of([tmp_path / "a.xml", tmp_path / "b.xml"])
    assert found == {"tests/meta/test_selection.py": 4.5}


def test_a_part_is_a_folder_or_the_longest_entry_of_the_table():
    listed = {"unit": 1.0, "unit/core": 1.0, "contract/test_a.py": 1.0}
    found = {
        "tests/unit/core/test_x.py::test_y": "unit/core",
        "tests/unit/core2/test_x.py::test_y": "unit",
        "tests/contract/test_a.py::test_y": "contract/test_a.py",
        "tests/contract/test_b.py::test_y": "contract",
        "tests/meta/deep/er/test_b.py::test_y": "meta/deep",
    }
    assert {nodeid: budgets.part_of(nodeid, listed) for nodeid in found} == found


def test_a_part_is_over_budget_above_twice_its_budget_scaled_by_machine_speed():
    table = budgets.Table({"a": 10.0, "b": 10.0}, 15.0, "")
    spent = {"a": 20.1, "b": 20.0, "c": 31.0}
    expected = {"a": pytest.approx(2.01), "c": pytest.approx(31 / 15)}
    assert table.over_budget(spent, 1.0) == expected
    assert table.over_budget(spent, 1.1) == {}


def test_the_budgets_name_parts_that_exist_and_the_commit_where_they_were_measured():
    table = budgets.Table.read(TESTS / "budgets.toml")
    assert [part for part in table.budgets if not (TESTS / part).exists()] == []
    assert table.new == 15
    assert re.fullmatch("[0-9a-f]{8,40}", table.commit)


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_part_far_beyond_its_budget_fails_ci_only_if_its_files_changed(workers, tmp_path):
    work = {"unit/part/test_work.py": WORK.format(seconds=0.4)}
    folder = make_tree(tmp_path, **work)
    table = TREE["budgets.toml"].replace("'unit/part' = 15", "'unit/part' = 0.0001")
    (folder / "tests" / "budgets.toml").write_text(table.replace("none", commit_all(folder)[:12]))
    commit_all(folder)  # a commit in which only the budgets differ
    for arguments, environ in (((), {}), (workers, {"CI": "true"})):
        code, output = run_pytest(folder, *arguments, **environ)
        assert code == 0, output
        assert "unit/part: over budget: " in output
        (line,) = [line for line in output.splitlines() if line.endswith("  unit/part")]
        assert float(line.split()[0]) >= 0.4
    (folder / "tests" / "unit" / "part" / "test_more.py").write_text("def test_more(): assert 1\n")
    commit_all(folder)
    code, output = run_pytest(folder, *workers, CI="true")
    assert "test_children_count" in passed_tests(output)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "unit/part: over budget, which fails this run" in output


def test_the_speed_of_the_processor_is_sampled_while_tests_run(monkeypatch):
    plugin = budgets.Budgets(TESTS / "budgets.toml", is_enforced=False)
    assert plugin.slowness == 1.0
    plugin.samples += [budgets.REFERENCE * 3, budgets.REFERENCE * 2, budgets.REFERENCE * 9]
    assert plugin.slowness == pytest.approx(3)
    assert 0 < budgets.known_work() < 60


def test_ci_runs_every_file_with_tests_marked_alone():
    marked = re.compile(r"mark\.alone\b")
    script = (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert r"$(grep -rlE 'mark\.alone\b' tests --include='test_*.py')" in script
    files = [p for p in TESTS.rglob("test_*.py") if marked.search(p.read_text(encoding="utf-8"))]
    assert files
    options = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    names = [mark.partition(":")[0] for mark in options["tool"]["pytest"]["ini_options"]["markers"]]
    assert names == ["slow", "alone"]
