"""The content of figures, independent of the drawing library: panels of lines, rows or bars, and styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlox_cli.report.records import Array
from rlox_cli.report.tables import IntervalEstimate

# Each colour has a contrast of 3 to 1 or more with its theme's background; tests/unit/cli/report checks it.
LIGHT_COLOURS = (
    "#0b62a4", "#c8500a", "#00795a", "#8b3fa0", "#8f6a00", "#a61c3c", "#1f7a8c", "#555b66",
)  # fmt: skip
DARK_COLOURS = (
    "#5fb0f0", "#ff9a57", "#3fd0a4", "#d79ae8", "#e3c04f", "#ff8fa3", "#7fd6e6", "#b8c0cc",
)  # fmt: skip
BACKGROUND = {"light": "#ffffff", "dark": "#171a21"}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
MARKS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")
PATTERNS = {"collect": "", "update": "/", "evaluate": "x", "rest": "."}

# Matplotlib's names of these styles.
MPL_DASHES = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": "-.",
    "longdash": (0, (9, 3)),
}
MPL_MARKS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "X",
    "cross": "P",
    "star": "*",
}
MPL_PATTERNS = {"": "", "/": "///", "x": "xxx", ".": "..."}


def colour(style_index: int) -> str:
    """Return the colour of a method on a light background."""
    return LIGHT_COLOURS[style_index % len(LIGHT_COLOURS)]


def dash(style_index: int) -> str:
    """Return the line style of a method."""
    return DASHES[style_index % len(DASHES)]


def mark(style_index: int) -> str:
    """Return the marker of a method."""
    return MARKS[style_index % len(MARKS)]


MAX_NAME_LENGTH = 56  # characters of a name that fit on a narrow screen


def fit_name(name: str) -> str:
    """Cut a name to the length that fits in a figure."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "\u2026"


@dataclass(frozen=True)
class Line:
    """A curve of a method, with a band if there are enough seeds for one."""

    name: str
    style_index: int  # of the method; gives its colour, line and marker
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    hover_text: str = ""  # number of seeds, and kind of value
    is_joined: bool = True  # False: only points


@dataclass(frozen=True)
class Row:
    """An estimate with its interval, and the values it is computed from, each with a label."""

    name: str
    style_index: int
    estimate: IntervalEstimate | None
    dots: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Bar:
    """A bar of stacked parts."""

    name: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str = ""
    lines: Sequence[Line] = ()
    rows: Sequence[Row] = ()
    bars: Sequence[Bar] = ()
    reference_line: float | None = None  # position of a line across the panel, such as an even chance
    is_stepped: bool = False
    is_unit_range: bool = False  # x from 0 to 1
    is_log: bool = False  # x on a logarithmic scale
    visible_y: tuple[float, ...] = ()  # values of y that are always visible

    @property
    def y_range(self) -> tuple[float, float] | None:
        """The lowest and highest y of the panel, with a margin; None: the lines determine it."""
        if not self.visible_y:
            return None
        arrays = [part for line in self.lines for part in (line.y, line.low, line.high) if part is not None]
        low = min(*self.visible_y, *(float(part.min()) for part in arrays))
        high = max(*self.visible_y, *(float(part.max()) for part in arrays))
        margin = 0.04 * (high - low)
        return low - margin, high + margin


@dataclass(frozen=True)
class Figure:
    """Panels of one quantity, and a caption on how to read them."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel] = field(default_factory=list)
    is_by_method: bool = True  # whether style indices are those of methods
