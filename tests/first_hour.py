"""Runs the tests of problems that new users met: `python tests/first_hour.py [pytest's options]`.

The list is `tests/meta/first_hour.toml`.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "meta" / "first_hour.toml"


def read_list() -> dict[str, list[str]]:
    """Return the tests of each sentence."""
    parts = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {sentence: tests for part in parts.values() for sentence, tests in part.items()}


def main(options: list[str]) -> int:
    """Run each test once and return pytest's exit code."""
    tests = dict.fromkeys(test for tests in read_list().values() for test in tests)
    line = [sys.executable, "-m", "pytest", *tests, *options]
    return subprocess.run(line, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
