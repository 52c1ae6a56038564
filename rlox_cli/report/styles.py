"""Styles of methods in figures: a colour, and a line and marker for readers who cannot see colours."""

from __future__ import annotations

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
