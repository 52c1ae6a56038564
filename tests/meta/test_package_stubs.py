"""Tests that the stubs of packages list what the packages export."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest
from helpers.package_stubs import FACADES, PACKAGES, paths, stub


@pytest.mark.parametrize("package", PACKAGES)
def test_a_stub_names_each_export_and_the_module_it_is_from(package: str) -> None:
    text = dict(paths())[package].read_text("utf-8")
    assert text == stub(package), "python tests/helpers/package_stubs.py writes it anew"
    exported: dict[str, Any] = {}
    exec(text, exported)
    module = importlib.import_module(package)
    for name in module.__all__:
        exact = getattr(module, name)
        if package == "rlox.algorithms" and name in FACADES:
            assert exported[name].__bases__ == (exact,)
        else:
            assert exported[name] is exact
    public = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            public |= {alias.asname for alias in node.names if alias.asname == alias.name}
    assert public == set(module.__all__)
