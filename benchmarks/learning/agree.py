"""Which figures of a repeated campaign agree with the expected ones; exit status 1 if one differs.

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
    """The document in a file."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    return document


def render(verdicts: Sequence[Verdict]) -> str:
    """A line for each figure, and how many of each there are."""
    head = ["figure", "expected [95% CI]", "found [95% CI]", "found - expected [99% CI]", "verdict"]
    rows = [head, *(cells(verdict) for verdict in verdicts)]
    counted = Counter(verdict.word for verdict in verdicts)
    words = ", ".join(f"{counted[word]} {word}" for word in ("agrees", "differs", "unknown"))
    return f"{markdown(rows)}\n{words}\n"


def cells(verdict: Verdict) -> list[str]:
    """A verdict as a line of the table."""
    numbers = [
        "-" if interval is None else f"{interval:.4g}"
        for interval in (verdict.expected, verdict.found, verdict.difference)
    ]
    said = f"{verdict.word}: {verdict.because}" if verdict.because else verdict.word
    return [verdict.figure, *numbers, said]


def main() -> int:
    """Compare two files."""
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
