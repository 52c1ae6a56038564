"""Draw a plot for each kind of work: time by size, one line for each system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.record import CaseRecord, Report


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Draw every kind of work of the report; return the files."""
    works: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in report.cases:
        works.setdefault((case.row, case.work), []).append(case)
    folder.mkdir(parents=True, exist_ok=True)
    return [draw(row, work, cases, folder) for (row, work), cases in works.items()]


def draw(row: str, work: str, cases: Sequence[CaseRecord], folder: Path) -> Path:
    """Draw one plot; a bar extends from the fastest to the slowest round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    names = dict.fromkeys((s.name, s.ours) for c in cases for s in c.systems if s.seconds)
    for name, is_ours in names:
        indexed_systems = [(i, s) for i, c in enumerate(cases) for s in c.systems if s.name == name]
        points = [(i, s) for i, s in indexed_systems if s.median is not None]
        x = [i for i, _ in points]
        y = [s.median for _, s in points]
        lower_errors = [s.median - min(s.seconds) for _, s in points]
        upper_errors = [max(s.seconds) - s.median for _, s in points]
        style = {"linewidth": 2.5} if is_ours else {"linewidth": 1.0, "linestyle": "--"}
        axes.errorbar(x, y, yerr=[lower_errors, upper_errors], marker="o", capsize=2, label=name, **style)
    axes.set_xticks(range(len(cases)), [case.size for case in cases])
    axes.set(yscale="log", xlabel="size", ylabel="seconds", title=f"{row}: {work}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    path = folder / f"{slug(f'{row} {work}')}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def slug(text: str) -> str:
    """Return the text's letters and digits, joined by underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
