"""Tests that the negative controls match the code: each change can be made, and leaves valid Python."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path

import negative_controls
import pytest
from mutants import Trial
from negative_controls import Control, controls

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("control", controls(), ids=lambda control: control.name)
def test_a_control_changes_one_place_of_a_file_and_names_tests_that_are_there(
    control: Control,
) -> None:
    source = (ROOT / control.file).read_text(encoding="utf-8")
    broken = control.apply(source)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))
    assert all((ROOT / file).is_file() for file in control.tests)


def test_a_control_refuses_text_that_is_missing_or_ambiguous() -> None:
    control = Control("odd", Path("x.py"), "a", "b", ())
    for source in ("c", "a + a"):
        with pytest.raises(ValueError, match=r"odd: x.py has 'a' \d times"):
            control.apply(source)


def test_the_record_names_the_changes_that_no_test_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stub tests pass for every change except the first."""
    (tmp_path / "code.py").write_text("A = 1\n", encoding="utf-8")
    every = [Control(new, Path("code.py"), "A = 1", new, ()) for new in ("A = 2", "A = 3")]

    def run(_: Trial, root: Path, files: Iterable[Path]) -> str:
        changed = "A = 2" in (root / "code.py").read_text(encoding="utf-8")
        return "caught by x" if changed else "survived"

    monkeypatch.setattr(Trial, "run", run)
    monkeypatch.setattr(negative_controls, "controls", lambda: every)
    monkeypatch.setattr(negative_controls, "copy_tree", lambda tree, to: tmp_path)
    record = tmp_path / "counts.json"
    assert negative_controls.main(["--record", str(record)]) == 1
    found = json.loads(record.read_text(encoding="utf-8"))
    assert found == {"controls": 2, "noticed": 1, "unnoticed": ["A = 3"]}
    assert (tmp_path / "code.py").read_text(encoding="utf-8") == "A = 1\n"
