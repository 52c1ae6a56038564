"""Every test has a tier; a run takes the tests of one; budgets are counted, also with workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import budgets, tiers

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
from pathlib import Path
from helpers.budgets import watch
from helpers.tiers import Selection

def pytest_configure(config):
    selection = Selection(config)
    config.pluginmanager.register(selection)
    watch(config, Path(__file__).with_name("budgets.toml"), selection.tier)
"""
TREE = {
    "conftest.py": CONFTEST,
    "budgets.toml": "[new]\ndefault = 15\nci = 15\nserial = 15\n"
    "[default]\n'unit/part' = 15\n[ci]\n[serial]\n",
    "unit/part/test_quick.py": "import pytest\n"
    "def test_quick(): assert 1\n"
    "@pytest.mark.serial\ndef test_alone(): assert 1\n"
    "@pytest.mark.ci\ndef test_long(): assert 1\n",
    "reliability/test_fault.py": "import pytest\n"
    "@pytest.mark.smoke\ndef test_one(): assert 1\n"
    "def test_all(): assert 1\n",
    "property/test_law.py": "def test_law(): assert 1\n",
}
WORK = """
import subprocess, sys, time
def test_children_count():
    code = "import time\\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def made(folder: Path, **more: str) -> Path:
    """A small tree of tests under these plugins."""
    for name, text in {**TREE, **more}.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = --strict-markers --import-mode=importlib\n"
        "markers =\n smoke\n ci\n serial\n",
        encoding="utf-8",
    )
    return folder


def ran(folder: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    """Exit code and output of pytest in `folder`."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("RLOX_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "xdist", *arguments],
        cwd=folder,
        env=mine | {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environ,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def passed(output: str) -> set[str]:
    """Names of the tests that passed."""
    lines = [line for line in output.splitlines() if "PASSED" in line and "::" in line]
    return {line.split("::")[1].split()[0].removesuffix("@") for line in lines}


def test_every_folder_of_tests_has_a_rule():
    assert tiers.folders_with_tests(TESTS) <= tiers.FOLDERS.keys()
    assert {tier for rule in tiers.FOLDERS.values() for tier in rule} <= set(tiers.TIERS)
    assert set(tiers.MARKS.values()) <= set(tiers.TIERS)


def test_a_tests_own_mark_decides_before_its_folder():
    assert tiers.tiers_of("tests/unit/core/test_x.py::test_y[a/b]", []) == ("default",)
    assert tiers.tiers_of("tests/reliability/test_x.py::test_y", ["parametrize"]) == ("ci",)
    assert tiers.tiers_of("tests/reliability/test_x.py::test_y", ["smoke"]) == ("default",)
    assert tiers.tiers_of("tests/unit/test_x.py::test_y", ["serial", "ci"]) == ("serial",)
    assert tiers.tiers_of("tests/property/test_x.py::test_y", []) == ("default", "ci")


@pytest.mark.parametrize("nodeid", ["tests/new/test_x.py::test_y", "tests/test_x.py::test_y"])
def test_a_test_without_a_tier_is_refused(nodeid: str):
    with pytest.raises(pytest.UsageError, match="has no tier"):
        tiers.tiers_of(nodeid, [])


def test_the_tier_is_the_one_asked_for_or_follows_from_what_is_named():
    assert tiers.chosen({}, named=False) == "default"
    assert tiers.chosen({}, named=True) == "all"
    assert tiers.chosen({"RLOX_FULL": "1"}, named=False) == "all"
    assert tiers.chosen({"RLOX_TIER": "ci", "RLOX_FULL": "1"}, named=True) == "ci"
    with pytest.raises(pytest.UsageError, match="expected one of default, ci, serial, all"):
        tiers.chosen({"RLOX_TIER": "slow"}, named=False)


@pytest.mark.parametrize(
    ("arguments", "tier", "expected"),
    [
        ((), "", {"test_quick", "test_one", "test_law"}),
        (("-n", "2"), "ci", {"test_long", "test_all", "test_law"}),
        ((), "serial", {"test_alone"}),
        (("tests/reliability",), "", {"test_one", "test_all"}),
        (("-n", "1", "tests/unit"), "", {"test_quick", "test_long"}),
    ],
)
def test_a_run_has_the_tests_of_its_tier(arguments, tier, expected, tmp_path):
    code, output = ran(made(tmp_path), *arguments, **({"RLOX_TIER": tier} if tier else {}))
    assert (code, passed(output)) == (0, expected), output


def test_the_serial_tier_refuses_workers(tmp_path):
    code, output = ran(made(tmp_path), "-n", "2", RLOX_TIER="serial")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "without -n" in output


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


def test_a_part_that_is_not_listed_has_the_budget_of_a_new_one_and_listed_files_have_their_own():
    listed, new = budgets.table(TESTS / "budgets.toml", "default")
    assert budgets.part_of("tests/unit/brand_new/test_x.py::test_y", listed) not in listed
    assert new == 15
    assert budgets.part_of("tests/contract/test_algorithms.py::test_y", listed) in listed


def test_a_part_is_over_beyond_twice_its_budget_on_a_machine_as_fast():
    spent = {"a": 20.1, "b": 20.0, "c": 31.0}
    assert budgets.overspent(spent, {"a": 10.0, "b": 10.0}, 15.0, 1.0) == {
        "a": pytest.approx(2.01), "c": pytest.approx(31 / 15),
    }  # fmt: skip
    assert budgets.overspent(spent, {"a": 10.0, "b": 10.0}, 15.0, 1.1) == {}
    assert budgets.slowness() >= 1.0


def test_the_tables_name_parts_that_exist_and_every_tier():
    for tier in tiers.TIERS:
        listed, new = budgets.table(TESTS / "budgets.toml", tier)
        assert [part for part in listed if not (TESTS / part).exists()] == []
        assert new > 0


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_seconds_of_children_count_and_too_many_fail_the_run(workers, tmp_path):
    table = TREE["budgets.toml"].replace("'unit/part' = 15", "'unit/part' = 0.03")
    work = {"unit/part/test_work.py": WORK.format(seconds=0.4), "budgets.toml": table}
    if not workers:  # nobody asked for the tier by name: it only says so
        code, output = ran(made(tmp_path, **work))
        assert code == 0
        assert "unit/part: over budget: " in output
    code, output = ran(made(tmp_path, **work), *workers, RLOX_TIER="default")
    assert "test_children_count" in passed(output)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "unit/part: over budget, which fails this run" in output
    (line,) = [line for line in output.splitlines() if line.endswith("  unit/part")]
    assert 0.4 <= float(line.split()[0]) < 10


def test_processes_begin_with_what_takes_minutes_and_then_with_the_largest_files(tmp_path):
    two = "def test_{0}1(): assert 1\ndef test_{0}2(): assert 1\n"
    more = {
        "learning/test_long.py": "def test_l(): assert 1\n",
        "packaging/test_build.py": "def test_p(): assert 1\n",
        "property/test_large.py": two.format("x"),
    }
    code, output = ran(made(tmp_path, **more), "-n", "1", RLOX_TIER="ci")
    order = [line.split("::")[1].split()[0] for line in output.splitlines() if "PASSED" in line]
    assert code == 0
    assert order == ["test_p", "test_l", "test_x1", "test_x2", "test_law", "test_all", "test_long"]
