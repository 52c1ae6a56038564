"""Writes `tests/seconds.json`, the time of each test file, by which `pytest -n` orders files.

    pytest -n 2 --junitxml=junit.xml; python tests/seconds.py junit.xml [more.xml ...]

Only the order of the times matters, so any quiet machine will do. Files that are not in the reports keep
their times.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent


def file_of(classname: str) -> str:
    """Return `tests.unit.test_x.TestY` as `tests/unit/test_x.py`; empty if it is not a test file."""
    parts = classname.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end]) + ".py"
        if (TESTS.parent / path).is_file():
            return path
    return ""


def seconds_of(reports: Sequence[Path]) -> dict[str, float]:
    """Return the seconds of each file, summed over the reports."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            if file := file_of(case.get("classname", "")):
                seconds[file] += float(case.get("time", 0))
    return {file: round(value, 1) for file, value in seconds.items()}


def main(arguments: Sequence[str], path: Path = TESTS / "seconds.json") -> int:
    """Merge the times of the reports into the file."""
    if not arguments:
        print(__doc__)
        return 2
    before = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.exists() else {}
    merged = before | seconds_of([Path(name) for name in arguments])
    existing = {file: merged[file] for file in sorted(merged) if (TESTS.parent / file).is_file()}
    path.write_text(json.dumps({"seconds": existing}, indent=0) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
