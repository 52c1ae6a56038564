"""What is in a figure, before anything draws it: panels of lines, of rows with intervals, of bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlox_cli.report.records import Array
from rlox_cli.report.tables import IntervalEstimate

MAX_NAME_LENGTH = 56  # letters of a name that a narrow screen has room for


def fit_name(name: str) -> str:
    """A name as there is room for it in a figure."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "\u2026"


@dataclass(frozen=True)
class Line:
    """A curve of a method, with its band where there are seeds for one."""

    name: str
    style_index: int  # of the method, by which it has its colour, line and mark
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    hover_text: str = ""  # of how many seeds, and what
    is_joined: bool = True  # else points alone


@dataclass(frozen=True)
class Row:
    """An estimate with its interval, and the values that it is of, each with a word on it."""

    name: str
    style_index: int
    estimate: IntervalEstimate | None
    dots: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Bar:
    """A whole in its parts."""

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
    reference_line: float | None = None  # where a line across says what is even
    is_stepped: bool = False
    is_unit_range: bool = False  # x from 0 to 1
    is_log: bool = False  # x on a logarithmic scale
    visible_y: tuple[float, ...] = ()  # values of y that are in sight, whatever the lines are

    @property
    def y_range(self) -> tuple[float, float] | None:
        """The lowest and highest y that is drawn, with some room; None where the lines say it."""
        if not self.visible_y:
            return None
        arrays = [part for line in self.lines for part in (line.y, line.low, line.high) if part is not None]
        low = min(*self.visible_y, *(float(part.min()) for part in arrays))
        high = max(*self.visible_y, *(float(part.max()) for part in arrays))
        margin = 0.04 * (high - low)
        return low - margin, high + margin


@dataclass(frozen=True)
class Figure:
    """Panels that show one thing, and how to read them."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel] = field(default_factory=list)
    is_by_method: bool = True  # whether the places of its lines are those of methods
