"""The same figures for paper: png, pdf and svg, drawn by Matplotlib."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.errors import StorageError
from rlox_cli.plot import short
from rlox_cli.report import styles
from rlox_cli.report.figures import Figure, Line, Panel, Row, fitted
from rlox_cli.report.figures_plotly import CROWD, FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

COLUMNS = 3
WIDTH, HEIGHT = 4.6, 3.2  # inches of a panel
ROW_HEIGHT, FRAME = 0.5, 1.1
MARKS_SHOWN = 8
LABEL = 0.3
EDGE, INK = "#e4e8ec", "#1c2128"


def save(figure: Figure, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Draw a figure in each format; the files."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    written = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font does not have
        drawing = draw(figure)
        for kind in formats:
            path = folder / f"{figure.name}.{kind}"
            # no time and no random names: the same runs give the same bytes
            metadata = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
            try:
                drawing.savefig(path, metadata=metadata)
            except OSError as error:
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error
            written.append(path)
    return written


def draw(figure: Figure) -> Drawing:
    """All panels of a figure on one sheet."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    count = len(figure.panels)
    columns = min(COLUMNS, count)
    lines = math.ceil(count / columns)
    rows = max(len(panel.rows) or len(panel.bars) for panel in figure.panels)
    height = FRAME + ROW_HEIGHT * rows if rows else HEIGHT
    with matplotlib.rc_context({"svg.hashsalt": "rlox", "font.size": 9}):
        sheet = Sheet(
            figsize=(WIDTH * columns, height * lines + 0.4), dpi=120, layout="constrained"
        )
        FigureCanvasAgg(sheet)
        grid = sheet.subplots(lines, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, figure.panels, strict=False):
            _panel(axes, panel)
        for axes in grid[count:]:
            axes.set_visible(False)
        _legend(sheet, figure)
    return sheet


def plain(text: str) -> str:
    """Text without formulas: a dollar is a dollar."""
    said = text.replace("$", r"\$")
    return f" {said}" if said.startswith("_") else said  # a label that begins so is none


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(plain(panel.title), loc="left", fontsize=10, fontweight="bold", color=INK)
    axes.set_xlabel(plain(panel.x))
    axes.grid(True, color=EDGE, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.lines:
        axes.set_ylabel(plain(panel.y))
        for line in panel.lines:
            _line(axes, line, panel.stepped)
        if panel.log:
            axes.set_xscale("log")
        elif not panel.stepped:
            axes.xaxis.set_major_formatter(lambda value, _: short(value))
    else:
        _across(axes, panel)
    if panel.whole:
        axes.set_xlim(-0.02, 1.02)
    if panel.heights is not None:
        axes.set_ylim(*panel.heights)
    if panel.mark is not None:
        axes.axvline(panel.mark, color="#57606a", lw=1, ls=":", zorder=0)


def _line(axes: Axes, line: Line, stepped: bool) -> None:
    colour = styles.colour(line.place)
    look: dict[str, Any] = {"color": colour, "ls": styles.MPL_DASHES[styles.dash(line.place)]}
    if not line.joined:
        axes.plot(line.x, line.y, styles.MPL_MARKS[styles.mark(line.place)], ms=4.5, color=colour)
        return
    if not stepped:
        look |= {"marker": styles.MPL_MARKS[styles.mark(line.place)], "ms": 4.5}
        look |= {"markevery": max(1, math.ceil(len(line.x) / MARKS_SHOWN))}
    style = "steps-post" if stepped else "default"
    axes.plot(line.x, line.y, lw=1.8, drawstyle=style, zorder=3, **look)
    if line.low is not None and line.high is not None:
        step: Any = "post" if stepped else None
        axes.fill_between(
            line.x, line.low, line.high, color=colour, alpha=0.18, lw=0, step=step, zorder=1
        )


def _across(axes: Axes, panel: Panel) -> None:
    """Rows or bars, each with its name above it."""
    names = [row.name for row in panel.rows or panel.bars]
    places = range(len(names) - 1, -1, -1)
    for name, y in zip(names, places, strict=True):
        transform = axes.get_yaxis_transform()
        axes.text(
            0,
            y + LABEL,
            plain(fitted(name)),
            transform=transform,
            fontsize=8.5,
            va="bottom",
            color=INK,
        )
    for row, y in zip(panel.rows, places, strict=False):
        _row(axes, row, y)
    for bar, y in zip(panel.bars, places, strict=False):
        left = 0.0
        for place, (part, pattern) in enumerate(styles.PATTERNS.items()):
            width = bar.parts.get(part, 0.0)
            hatch = styles.MPL_PATTERNS[pattern]
            look: dict[str, Any] = {
                "color": styles.colour(place),
                "hatch": hatch,
                "edgecolor": "white",
            }
            axes.barh(y, width, 0.42, left, lw=0, **look)
            left += width
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _row(axes: Axes, row: Row, y: int) -> None:
    colour, mark = styles.colour(row.place), styles.MPL_MARKS[styles.mark(row.place)]
    values = [value for value, _ in row.dots]
    look: dict[str, Any] = {
        "mfc": "none",
        "mec": colour,
        "alpha": 0.7 if len(values) <= CROWD else FAINT,
    }
    axes.plot(values, [y] * len(values), mark, ms=5, **look)
    if (e := row.estimate) is not None:
        if e.low is not None and e.high is not None:
            axes.hlines(y, e.low, e.high, color=colour, lw=2)
        axes.plot([e.value], [y], mark, ms=8, color=colour, mec=INK, zorder=4)


def _legend(sheet: Drawing, figure: Figure) -> None:
    """What the lines or the parts are, once for all panels; rows have their names beside them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    several = figure.of_methods or any(len(panel.lines) > 1 for panel in figure.panels)
    shown = figure.panels if several else ()  # else a panel's title says what its line is
    lines = {line.name: line.place for panel in shown for line in panel.lines}
    bars = [bar for panel in figure.panels for bar in panel.bars]
    handles: list[Any] = [
        Line2D(
            [], [], color=styles.colour(place), ls=styles.MPL_DASHES[styles.dash(place)],
            marker=styles.MPL_MARKS[styles.mark(place)], ms=5, label=plain(fitted(name)),
        )
        for name, place in lines.items()
    ]  # fmt: skip
    for place, (part, pattern) in enumerate(styles.PATTERNS.items()):
        if any(bar.parts.get(part) for bar in bars):
            hatch = styles.MPL_PATTERNS[pattern]
            look: dict[str, Any] = {"hatch": hatch, "edgecolor": "white", "lw": 0}
            handles.append(Patch(facecolor=styles.colour(place), label=part, **look))
    if handles:
        sheet.legend(
            handles=handles, loc="outside upper left", ncols=4, frameon=False, fontsize=8.5
        )
