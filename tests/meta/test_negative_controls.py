"""The list of negative controls is of this code: each change can be made, and leaves Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from negative_controls import Control, controls

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("control", controls(), ids=lambda control: control.name)
def test_a_control_changes_one_place_of_a_file_and_names_tests_that_are_there(
    control: Control,
) -> None:
    source = (ROOT / control.file).read_text(encoding="utf-8")
    broken = control.broken(source)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))
    assert all((ROOT / file).is_file() for file in control.tests)


def test_a_change_that_fits_nowhere_or_twice_is_refused() -> None:
    control = Control("odd", Path("x.py"), "a", "b", ())
    for source in ("c", "a + a"):
        with pytest.raises(ValueError, match=r"odd: x.py has 'a' \d times"):
            control.broken(source)
