"""Compare the figures of a repeated campaign with the expected ones; exit with 1 if one differs.

python benchmarks/learning/agree.py EXPECTED.json FOUND.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables import markdown

from rlox.errors import RloxError
from rlox.statistics import Verdict, compare


def read(path: Path) -> dict[str, Any]:
    """Read a JSON file."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    return document


def render(verdicts: Sequence[Verdict]) -> str:
    """Return a row for each figure, and the counts of the verdicts."""
    head = ["figure", "expected [95% CI]", "found [95% CI]", "found - expected [99% CI]", "verdict"]
    rows = [head, *(cells(verdict) for verdict in verdicts)]
    counts = Counter(verdict.label for verdict in verdicts)
    counts_text = ", ".join(f"{counts[word]} {word}" for word in ("agrees", "differs", "unknown"))
    return f"{markdown(rows)}\n{counts_text}\n"


def cells(verdict: Verdict) -> list[str]:
    """Return a verdict as a row of the table."""
    numbers = [
        "-" if interval is None else f"{interval:.4g}"
        for interval in (verdict.expected, verdict.actual, verdict.difference)
    ]
    verdict_text = f"{verdict.label}: {verdict.reason}" if verdict.reason else verdict.label
    return [verdict.figure, *numbers, verdict_text]


def main() -> int:
    """Compare the two files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("expected", type=Path)
    parser.add_argument("found", type=Path)
    arguments = parser.parse_args()
    try:
        verdicts = compare(read(arguments.expected), read(arguments.found))
    except RloxError as error:
        raise SystemExit(str(error)) from None
    print(render(verdicts), end="")
    return int(any(verdict.agrees is False for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
