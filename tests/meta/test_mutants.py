"""Tests mutants: which changes are drawn, how they change a file, and which tests judge them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import mutants
import pytest
from helpers.mutation import Site, diff, draw, sites

TOY = '''"""Says `a < b` and 1 + 1, which is not code."""
__all__ = ["grade"]
LIMIT: int = 3


def grade(points: int, bonus: int = 0, strict: bool = False) -> str:
    """Not 4 either."""
    total = points + bonus
    if not strict and (total >= LIMIT):
        return "é good"
    return max(name(total, bonus), "low")


def name(a, b):
    return "worst" if a == b else "low"
'''


def changed(source: str = TOY) -> dict[str, list[str]]:
    """Return the changed lines of the mutants, by kind of change."""
    found: dict[str, list[str]] = {}
    for site in sites(Path("toy.py"), source):
        lines = [line[1:] for line in diff(site, source).splitlines()[3:] if line[0] == "+"]
        found.setdefault(site.description, []).append("\n".join(lines).strip())
    return found


def test_each_kind_of_mutation_applies_only_to_matching_code():
    assert changed() == {
        "3 becomes 4": ["LIMIT: int = 4"],
        "0 becomes 1": ["def grade(points: int, bonus: int = 1, strict: bool = False) -> str:"],
        "False becomes True": ["def grade(points: int, bonus: int = 0, strict: bool = True) -> str:"],
        "+ becomes -": ["total = points - bonus"],
        "a branch is never taken": ["if False:"],
        "not dropped": ["if strict and (total >= LIMIT):"],
        "and becomes or": ["if not strict or (total >= LIMIT):"],
        ">= becomes >": ["if not strict and (total > LIMIT):"],
        "returns None": ["return None", "return None", "return None"],
        "two arguments change places": ['return max(name(bonus, total), "low")'],
        "== becomes !=": ['return "worst" if a != b else "low"'],
        "always the first of two values": ['return ("worst")'],
    }


def test_a_mutant_is_python_and_differs_in_one_place():
    for site in sites(Path("toy.py"), TOY):
        mutant = site.apply(TOY)
        ast.parse(mutant)
        assert mutant != TOY
        assert (mutant[: site.begin], mutant[site.begin + len(site.new) :]) == (
            TOY[: site.begin],
            TOY[site.end :],
        )


def test_the_seed_decides_what_is_drawn_and_no_site_is_drawn_twice(tmp_path: Path):
    file = tmp_path / "toy.py"
    file.write_text(TOY, encoding="utf-8")
    every = draw([file], tmp_path, 0, 1_000)
    assert len(every) == len(set(every)) == len(sites(Path("toy.py"), TOY)) == 14
    first = draw([file], tmp_path, 7, 6)
    assert first == draw([file], tmp_path, 7, 6)
    assert first != draw([file], tmp_path, 8, 6)
    assert len(set(first)) == 6


TREE = {
    "rlox/__init__.py": "",
    "rlox/kind/__init__.py": "from rlox.kind.toy import grade\n",
    "rlox/kind/toy.py": TOY,
    "rlox/kind/other.py": "from .toy import name\n",
    "rlox/lonely.py": "X = 1\n",
    "rlox/user.py": "from rlox.kind import toy\n",
    "rlox/inner.py": "Y = 2\n",
    "rlox/outer.py": "from rlox import inner\n",
    "rlox/sink.py": "Z = 3\n",
    "tests/helpers/grading.py": "from rlox.kind.toy import grade\n",
    "tests/unit/test_direct.py": "from rlox.kind.toy import grade\n"
    "def test_grade():\n    assert grade(3, 0) == 'é good'\n",
    "tests/unit/test_facade.py": "from rlox.kind import grade\ndef test_x(): assert grade\n",
    "tests/unit/test_helper.py": "from helpers.grading import grade\ndef test_x(): assert grade\n",
    "tests/helpers/sinks.py": "SINKS = ['sink']\n",
    "tests/unit/test_sinks.py": "from helpers.sinks import SINKS\ndef test_x(): assert SINKS\n",
    "tests/unit/test_other.py": "import json\ndef test_x(): assert json\n",
    "tests/unit/test_user.py": "from rlox import user\n"
    "def test_name(): assert user.toy.name(1, 1) == 'worst'\n",
    "tests/unit/test_outer.py": "import rlox.outer\ndef test_x(): assert rlox.outer.inner.Y\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the toy's tests need no plugins
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\npythonpath = ["tests"]\naddopts = "--import-mode=importlib"\n'
    )
    return tmp_path


def test_the_tests_of_a_module_are_found_by_imports_or_by_its_name(tree: Path):
    def found(name: str) -> list[list[str]]:
        return [[p.name for p in ring] for ring in mutants.importers(tree, Path(name))]

    nearest = ["test_direct.py", "test_facade.py", "test_helper.py"]
    assert found("rlox/kind/toy.py") == [nearest, ["test_user.py"]]
    assert found("rlox/inner.py") == [["test_outer.py"]]
    assert found("rlox/sink.py") == [["test_sinks.py"]]  # no import leads to it
    assert found("rlox/lonely.py") == []


def test_quick_test_files_run_before_long_ones_of_the_same_distance(
    tree: Path, monkeypatch: pytest.MonkeyPatch
):
    seconds = {f"tests/unit/{name}.py": t for name, t in {"test_facade": 2.0, "test_direct": 30.0}.items()}
    (tree / "seconds.json").write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    monkeypatch.setattr(mutants, "SECONDS_FILE", tree / "seconds.json")
    found = mutants.importers(tree, Path("rlox/kind/toy.py"))
    assert [[p.name for p in part] for part in found] == [
        ["test_facade.py"],
        ["test_direct.py", "test_helper.py"],  # a file without a measurement may be long
        ["test_user.py"],
    ]


CI = mutants.Trial(600.0)
NIGHTLY = mutants.Trial(600.0, nightly=True)
INNER = Site(Path("rlox/inner.py"), 4, 5, "3", "2 becomes 3")


def test_judging_a_mutant_names_the_test_that_catches_it_and_restores_the_file(tree: Path):
    path = Path("rlox/kind/toy.py")
    found = {site.description: site for site in sites(path, TOY)}
    caught = mutants.judge(tree, found[">= becomes >"], CI)
    assert (caught.is_caught, caught.tests) == (True, 3)
    assert caught.outcome == "caught by tests/unit/test_direct.py::test_grade"
    further = mutants.judge(tree, found["== becomes !="], CI)
    assert (further.tests, further.outcome) == (4, "caught by tests/unit/test_user.py::test_name")
    assert mutants.judge(tree, found["always the first of two values"], CI).outcome == "survived"
    lonely = mutants.judge(tree, Site(Path("rlox/lonely.py"), 4, 5, "2", "1 becomes 2"), CI)
    assert (lonely.outcome, lonely.is_caught) == ("survived: no test imports it", False)
    assert (tree / path).read_text(encoding="utf-8") == TOY


def test_a_log_line_is_not_mistaken_for_the_failing_test(tree: Path):
    (tree / "tests/unit/test_outer.py").write_text(
        "import rlox.inner\ndef test_x():\n    print('ERROR rlox: no')\n    assert rlox.inner.Y == 2\n",
        encoding="utf-8",
    )
    assert mutants.judge(tree, INNER, CI).outcome == "caught by tests/unit/test_outer.py::test_x"


SLOW = "import pytest\n@pytest.mark.slow\n"


def slow_test(tree: Path, condition: str) -> None:
    """Replace the only test of `rlox.inner` by one that runs nightly."""
    (tree / "tests/unit/test_outer.py").write_text(
        f"import os\nimport rlox.inner\n{SLOW}def test_y(): assert {condition}\n", encoding="utf-8"
    )


def test_a_mutant_that_only_a_slow_test_notices_is_caught_nightly(tree: Path):
    slow_test(tree, "rlox.inner.Y == 2 and os.environ['RLOX_NIGHTLY'] == '1'")
    assert mutants.judge(tree, INNER, CI).outcome == "survived"  # no test runs in CI
    caught = mutants.judge(tree, INNER, NIGHTLY)
    assert (caught.outcome, caught.nightly) == ("caught by tests/unit/test_outer.py::test_y", True)


def test_a_slow_test_that_fails_without_the_mutant_catches_none(tree: Path):
    slow_test(tree, "rlox.inner.Y == 1")
    survived = mutants.judge(tree, INNER, NIGHTLY)
    told = "survived: without it too, caught by tests/unit/test_outer.py::test_y"
    assert (survived.is_caught, survived.outcome) == (False, told)


def test_a_test_of_ci_that_fails_without_the_mutant_catches_none(tree: Path):
    (tree / "tests/unit/test_outer.py").write_text(
        "import rlox.inner\ndef test_x(): assert rlox.inner.Y == 1\n", encoding="utf-8"
    )
    survived = mutants.judge(tree, INNER, CI)
    told = "survived: without it too, caught by tests/unit/test_outer.py::test_x"
    assert (survived.is_caught, survived.outcome) == (False, told)


def test_the_tests_of_ci_do_not_see_that_the_tool_runs_nightly(tree: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLOX_NIGHTLY", "1")
    (tree / "tests/unit/test_outer.py").write_text(
        "import os\nimport rlox.inner\ndef test_x(): assert 'RLOX_NIGHTLY' not in os.environ\n"
    )
    assert mutants.judge(tree, INNER, CI).outcome == "survived"


def test_the_record_counts_caught_mutants_and_lists_survivors(tree: Path, tmp_path: Path):
    slow_test(tree, "rlox.inner.Y == 2")
    asked = ["--root", str(tree), "--count", "1000", "--record", str(tmp_path / "counts.json")]
    assert mutants.main([*asked, "--nightly", "rlox/inner.py", "rlox/lonely.py"]) == 0
    assert json.loads((tmp_path / "counts.json").read_text(encoding="utf-8")) == {
        "seed": 1,
        "drawn": 2,
        "caught": 1,
        "caught in CI": 0,
        "survivors": ["rlox/lonely.py:1: 1 becomes 2"],
    }


def test_the_copied_tree_has_imported_files_but_no_learning_tests_or_build_output(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
):
    left = {"tests/learning/test_x.py", "tests/unit/a.pyc", ".venv/x.py", "rust/core/target/x.rs"}
    needed = {"benchmarks/learning/plan.py", "examples/plugin/x.py", "rust/core/src/x.rs"}
    for name in (*left, *needed):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    copy = mutants.copy_tree(tree, tmp_path_factory.mktemp("copy") / "tree")
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*.*")}
    assert {*needed, "tests/unit/test_user.py", "rlox/inner.py"} <= found
    assert not left & found


def test_the_mutants_command_prints_each_change_and_fails_below_the_minimum(tree: Path, capsys):
    asked = ["--root", str(tree), "--seed", "3", "--count", "1", "rlox/kind/toy.py"]
    assert mutants.main([*asked, "--least", "2"]) == 1
    told = capsys.readouterr().out
    assert told.count("--- rlox/kind/toy.py") == 1
    assert "of 1 caught" in told
    (tree / "tests/unit/test_outer.py").write_text("import rlox.inner\ndef test_x(): assert 0")
    assert mutants.main(["--root", str(tree), "--least", "1", "rlox/inner.py"]) == 1
    assert "survived: without it too, caught by tests/unit/test_outer.py" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no such file or folder"):
        mutants.main(["--root", str(tree), "rlox/gone"])
