"""Tests that no file outside `algorithms/` and `configs/` reads a field of one algorithm's configuration."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

from rlox.configs import ALGO_CONFIGS

ROOT = Path(__file__).resolve().parents[2]
HOMES = ("rlox/algorithms", "rlox/configs")
FILES = [
    path
    for room in ("rlox", "rlox_cli")
    for path in sorted((ROOT / room).rglob("*.py"))
    if not str(path.relative_to(ROOT)).startswith(HOMES)
]
OWN = {field.name for config in ALGO_CONFIGS.values() for field in fields(config)} - {"name"}


def fields_read(source: str) -> list[str]:
    """Return the reads of `algo.<field>`, for any path to `algo`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in OWN:
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name == "algo":
                found.append(ast.unparse(node))
    return found


def test_only_algorithms_and_configurations_read_an_algorithms_fields():
    read = {str(path.relative_to(ROOT)): fields_read(path.read_text("utf-8")) for path in FILES}
    assert len(read) > 60
    assert {name: found for name, found in read.items() if found} == {}


def test_reads_of_algorithm_fields_are_found_through_any_path_to_the_configuration():
    assert fields_read("rollout = config.algo.n_steps * n") == ["config.algo.n_steps"]
    assert fields_read("def f(algo): return algo.gamma") == ["algo.gamma"]
    assert fields_read("config.algo.name, config.algo.unit, self.gamma") == []
