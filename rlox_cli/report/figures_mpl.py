"""Figures for papers: png, pdf and svg, drawn by Matplotlib."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.errors import StorageError
from rlox_cli.report import figures as styles
from rlox_cli.report.figures import Figure, Line, Panel, Row, fit_name
from rlox_cli.report.figures_plotly import FAINT_OPACITY, MANY_POINTS
from rlox_cli.runs.plot import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

COLUMNS = 3
WIDTH, HEIGHT = 4.6, 3.2  # inches of a panel
ROW_HEIGHT, FRAME_HEIGHT = 0.5, 1.1
MAX_MARKS = 8
LABEL_OFFSET = 0.3
EDGE_COLOR, TEXT_COLOR = "#e4e8ec", "#1c2128"


def save_figure(figure: Figure, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Save a figure in each format; return the files."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    paths = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the font lacks
        drawing = draw_figure(figure)
        for extension in formats:
            path = folder / f"{figure.name}.{extension}"
            # no time and no random names: the same runs give the same bytes
            metadata = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[extension]
            try:
                drawing.savefig(path, metadata=metadata)
            except OSError as error:
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error
            paths.append(path)
    return paths


def draw_figure(figure: Figure) -> Drawing:
    """Draw all panels of a figure on one sheet."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    count = len(figure.panels)
    columns = min(COLUMNS, count)
    panel_rows = math.ceil(count / columns)
    rows = max(len(panel.rows) or len(panel.bars) for panel in figure.panels)
    height = FRAME_HEIGHT + ROW_HEIGHT * rows if rows else HEIGHT
    with matplotlib.rc_context({"svg.hashsalt": "rlox", "font.size": 9}):
        sheet = Sheet(figsize=(WIDTH * columns, height * panel_rows + 0.4), dpi=120, layout="constrained")
        FigureCanvasAgg(sheet)
        grid = sheet.subplots(panel_rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, figure.panels, strict=False):
            _draw_panel(axes, panel)
        for axes in grid[count:]:
            axes.set_visible(False)
        _draw_legend(sheet, figure)
    return sheet


def escape_math(text: str) -> str:
    """Escape text so that `$` is a dollar and begins no formula."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped  # the legend omits names that begin with `_`


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(escape_math(panel.title), loc="left", fontsize=10, fontweight="bold", color=TEXT_COLOR)
    axes.set_xlabel(escape_math(panel.x))
    axes.grid(True, color=EDGE_COLOR, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.lines:
        axes.set_ylabel(escape_math(panel.y))
        for line in panel.lines:
            _draw_line(axes, line, panel.is_stepped)
        if panel.is_log:
            axes.set_xscale("log")
        elif not panel.is_stepped:
            axes.xaxis.set_major_formatter(lambda value, _: short_number(value))
    else:
        _draw_rows_and_bars(axes, panel)
    if panel.is_unit_range:
        axes.set_xlim(-0.02, 1.02)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.reference_line is not None:
        axes.axvline(panel.reference_line, color="#57606a", lw=1, ls=":", zorder=0)


def _draw_line(axes: Axes, line: Line, is_stepped: bool) -> None:
    colour = styles.colour(line.style_index)
    style: dict[str, Any] = {"color": colour, "ls": styles.MPL_DASHES[styles.dash(line.style_index)]}
    if not line.is_joined:
        axes.plot(line.x, line.y, styles.MPL_MARKS[styles.mark(line.style_index)], ms=4.5, color=colour)
        return
    if not is_stepped:
        style |= {"marker": styles.MPL_MARKS[styles.mark(line.style_index)], "ms": 4.5}
        style |= {"markevery": max(1, math.ceil(len(line.x) / MAX_MARKS))}
    drawstyle = "steps-post" if is_stepped else "default"
    axes.plot(line.x, line.y, lw=1.8, drawstyle=drawstyle, zorder=3, **style)
    if line.low is not None and line.high is not None:
        step: Any = "post" if is_stepped else None
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, lw=0, step=step, zorder=1)


def _draw_rows_and_bars(axes: Axes, panel: Panel) -> None:
    """Draw rows or bars, each with its name above it."""
    names = [row.name for row in panel.rows or panel.bars]
    heights = range(len(names) - 1, -1, -1)
    for name, y in zip(names, heights, strict=True):
        transform = axes.get_yaxis_transform()
        axes.text(
            0,
            y + LABEL_OFFSET,
            escape_math(fit_name(name)),
            transform=transform,
            fontsize=8.5,
            va="bottom",
            color=TEXT_COLOR,
        )
    for row, y in zip(panel.rows, heights, strict=False):
        _draw_row(axes, row, y)
    for bar, y in zip(panel.bars, heights, strict=False):
        bar_left = 0.0
        for style_index, (part, pattern) in enumerate(styles.PATTERNS.items()):
            width = bar.parts.get(part, 0.0)
            hatch = styles.MPL_PATTERNS[pattern]
            style: dict[str, Any] = {
                "color": styles.colour(style_index),
                "hatch": hatch,
                "edgecolor": "white",
            }
            axes.barh(y, width, 0.42, bar_left, lw=0, **style)
            bar_left += width
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _draw_row(axes: Axes, row: Row, y: int) -> None:
    colour, mark = styles.colour(row.style_index), styles.MPL_MARKS[styles.mark(row.style_index)]
    values = [value for value, _ in row.dots]
    style: dict[str, Any] = {
        "mfc": "none",
        "mec": colour,
        "alpha": 0.7 if len(values) <= MANY_POINTS else FAINT_OPACITY,
    }
    axes.plot(values, [y] * len(values), mark, ms=5, **style)
    if (e := row.estimate) is not None:
        if e.low is not None and e.high is not None:
            axes.hlines(y, e.low, e.high, color=colour, lw=2)
        axes.plot([e.value], [y], mark, ms=8, color=colour, mec=TEXT_COLOR, zorder=4)


def _draw_legend(sheet: Drawing, figure: Figure) -> None:
    """Draw one legend of the lines or parts for all panels; rows have their names above them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    has_legend = figure.is_by_method or any(len(panel.lines) > 1 for panel in figure.panels)
    panels = figure.panels if has_legend else ()  # else a panel's title names its line
    lines = {line.name: line.style_index for panel in panels for line in panel.lines}
    bars = [bar for panel in figure.panels for bar in panel.bars]
    handles: list[Any] = [
        Line2D(
            [], [], color=styles.colour(style_index), ls=styles.MPL_DASHES[styles.dash(style_index)],
            marker=styles.MPL_MARKS[styles.mark(style_index)], ms=5, label=escape_math(fit_name(name)),
        )
        for name, style_index in lines.items()
    ]  # fmt: skip
    for style_index, (part, pattern) in enumerate(styles.PATTERNS.items()):
        if any(bar.parts.get(part) for bar in bars):
            hatch = styles.MPL_PATTERNS[pattern]
            style: dict[str, Any] = {"hatch": hatch, "edgecolor": "white", "lw": 0}
            handles.append(Patch(facecolor=styles.colour(style_index), label=part, **style))
    if handles:
        sheet.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False, fontsize=8.5)
