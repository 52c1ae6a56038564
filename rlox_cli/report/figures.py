"""What is in a figure, before anything draws it: panels of lines, of rows with intervals, of bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlox_cli.report.records import Array
from rlox_cli.report.tables import Estimate

LONGEST = 56  # letters of a name that a narrow screen has room for


def fitted(name: str) -> str:
    """A name as there is room for it in a figure."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "\u2026"


@dataclass(frozen=True)
class Line:
    """A curve of a method, with its band where there are seeds for one."""

    name: str
    place: int  # of the method, by which it has its colour, line and mark
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    said: str = ""  # of how many seeds, and what
    joined: bool = True  # else points alone


@dataclass(frozen=True)
class Row:
    """An estimate with its interval, and the values that it is of, each with a word on it."""

    name: str
    place: int
    estimate: Estimate | None
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
    mark: float | None = None  # where a line across says what is even
    stepped: bool = False
    whole: bool = False  # x from 0 to 1
    log: bool = False  # x on a logarithmic scale
    holds: tuple[float, ...] = ()  # values of y that are in sight, whatever the lines are

    @property
    def heights(self) -> tuple[float, float] | None:
        """The lowest and highest y that is drawn, with some room; None where the lines say it."""
        if not self.holds:
            return None
        drawn = [part for of in self.lines for part in (of.y, of.low, of.high) if part is not None]
        low = min(*self.holds, *(float(part.min()) for part in drawn))
        high = max(*self.holds, *(float(part.max()) for part in drawn))
        room = 0.04 * (high - low)
        return low - room, high + room


@dataclass(frozen=True)
class Figure:
    """Panels that show one thing, and how to read them."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel] = field(default_factory=list)
    of_methods: bool = True  # whether the places of its lines are those of methods
