"""Tests that the stub has the docs of the extension, and the extension the signatures of the stub."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rlox._core as core

RUST = Path(__file__).resolve().parents[3] / "rust" / "rlox-python"


def test_the_stub_is_the_signatures_with_the_extensions_docs():
    result = subprocess.run(
        [sys.executable, str(RUST / "stub.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", core.__all__)
def test_every_public_callable_has_a_signature_and_a_doc(name):
    member = getattr(core, name)
    assert inspect.signature(member) is not None
    assert len(member.__doc__) > 40
    if inspect.isclass(member):
        for attribute in (a for a in dir(member) if not a.startswith("_")):
            assert getattr(member, attribute).__doc__, f"{name}.{attribute}"


def test_the_python_examples_of_the_rust_readme_run():
    text = (RUST / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
