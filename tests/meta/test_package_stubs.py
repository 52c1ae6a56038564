"""Tests that the stubs of packages list what the packages export."""

from __future__ import annotations

import importlib

import pytest
from helpers.package_stubs import PACKAGES, paths, stub


@pytest.mark.parametrize("package", PACKAGES)
def test_a_stub_names_each_export_and_the_module_it_is_from(package: str) -> None:
    text = dict(paths())[package].read_text("utf-8")
    assert text == stub(package), "python tests/helpers/package_stubs.py writes it anew"
    exported: dict[str, object] = {}
    exec(text, exported)
    module = importlib.import_module(package)
    assert {name for name in exported if not name.startswith("__")} == set(module.__all__)
    assert all(exported[name] is getattr(module, name) for name in module.__all__)
