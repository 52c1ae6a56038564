"""Measures every case and writes the table of docs/parity.md.

`python tests/parity/table.py` with `tests` on the path. It measures in a child process with kernels that
every x86 CPU has (helpers/pinned_floats.py), as the test of the page does; `python -m parity.table print`
measures in this process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from helpers import pinned_floats

from parity.cases import CASES, load, made_by_sb3
from parity.ours import driven
from parity.traces import Difference, difference, transcribed

FLOAT64, FLOAT32 = 1e-6, 1e-4  # limits of a difference: to the papers, and to SB3
PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"
BEGIN, END = "<!-- written by tests/parity/table.py -->", "<!-- until here -->"
HEAD = """\
| | ours, float64, and the paper | | | ours, float32, and SB3 | | | paper and SB3 |
|---|---|---|---|---|---|---|---|
| | losses | gradients | weights | losses | gradients | weights | largest |"""
FIGURES = 7


def row(name: str) -> str:
    """Return the table line of one case, with figures of one digit."""
    cells = [f"{value:.0e}" for value in measured(name)]
    return f"| `{name}` | " + " | ".join(cells + [""] * (FIGURES - len(cells))) + " |"


def measured(name: str) -> list[float]:
    """Return the figures of one case; only the first three if Stable-Baselines3 lacks the settings."""
    case, file = CASES[name], load(name)
    init, batches = file["init"], file["batch"]
    paper, _ = transcribed(case, init, batches)
    found = parts(difference(driven(case, init, batches, torch.float64), paper))
    if not case.sb3:
        return found
    sb3 = made_by_sb3(file)
    found += parts(difference(driven(case, init, batches, torch.float32), sb3))
    return [*found, difference(paper, sb3).largest]


def parts(found: Difference) -> list[float]:
    return [found.losses, found.gradients, found.weights]


def main() -> None:
    if sys.argv[1:] == ["print"]:
        torch.set_num_threads(1)
        print("\n".join([BEGIN, HEAD, *map(row, CASES), END]))
        return
    table = pinned_floats.run("parity.table", "print").stdout.rstrip()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + table + rest.partition(END)[2], encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
