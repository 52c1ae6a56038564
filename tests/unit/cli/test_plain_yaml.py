"""Tests that configuration files of run folders keep their values and types, and hold only plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlox.errors import ConfigError
from rlox_cli.config import plain_yaml

VALUES: list[Any] = [
    *(None, True, 0, -7, 10**15, 1e-5, 2e6, 0.1, float("inf")),
    *("", "2e6", "1e-5", "1.5e3", "yes", "null", "1_000", "2026-01-01", "12:30", "=", "a: b", "é"),
    *("${oc.env:HOME}", "${", "two\nlines", "*alias", "!!tag", "# no comment"),
    *([], {}, [1, [2.5, "3"]], {"on": {"inner": []}}),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_yaml_reads_back_every_value_and_type_that_it_writes(tmp_path: Path, value: Any) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(plain_yaml.dump({"key": value}), encoding="utf-8")
    read = plain_yaml.load(file)["key"]
    assert (read, type(read)) == (value, type(value))


def test_the_same_object_twice_is_written_twice(tmp_path: Path) -> None:
    shared, file = [1, 2], tmp_path / "config.yaml"
    file.write_text(plain_yaml.dump({"a": shared, "b": shared}))
    assert plain_yaml.load(file) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(("text", "value"), [("3e-4", 3e-4), ("2E6", 2e6), ("1.e3", 1e3)])
def test_numbers_written_by_hand_are_numbers(tmp_path: Path, text: str, value: float) -> None:
    (tmp_path / "config.yaml").write_text(f"key: {text}\n")
    assert plain_yaml.load(tmp_path / "config.yaml") == {"key": value}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: &x [1]\nb: *x\n", "line 2: not plain YAML: an alias"),
        ("a: !!python/object/apply:os.getcwd []\n", "not plain YAML"),
        ("a: !!binary aGVsbG8=\n", "found bytes"),
        ("a: {b: 2026-01-01}\n", "a: b: expected text or a number, found date"),
        ("1: a\n", "the key 1 is not text"),
        ("- a\n", "found list"),
        ("a: 1\nb: 2\na: 3\n", "line 3: not plain YAML: the key 'a' appears twice"),
        ("a: {b: {c: 1, c: 1}}\n", "line 1: not plain YAML: the key 'c' appears twice"),
        ("", "found NoneType"),
        ("a: [\n", "not plain YAML"),
        ("a: " + "[" * 5000 + "\n", "not plain YAML: RecursionError"),
        ("a: " + "x" * (1 << 20), "larger than any"),
        ("a: \x00\n", "not plain YAML"),
    ],
)
def test_anything_but_plain_data_is_refused(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        plain_yaml.load(tmp_path / "config.yaml")
    assert hint in str(refused.value)
    assert str(tmp_path / "config.yaml") in str(refused.value)
