"""Tables, and their rendering as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlox_cli.runs import summary

LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "^": r"\textasciicircum{}",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "%": r"\%",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}
MISSING_TEXT = "\u2013"  # stands for a missing value
MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]|#~$])")


@dataclass(frozen=True)
class IntervalEstimate:
    """A number with its interval; a single run has no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        value = summary.format_number(self.value)
        if self.low is None or self.high is None:
            return value
        return f"{value} [{summary.format_number(self.low)}, {summary.format_number(self.high)}]"


Value = str | int | float | IntervalEstimate | None


@dataclass(frozen=True)
class Table:
    """A table; `name` is the name of its files, and `caption` says what its numbers are."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]] = field(default_factory=list)

    def is_numeric(self, column: int) -> bool:
        """Return whether a column has numbers and no text."""
        values = [row[column] for row in self.rows if row[column] not in (None, "")]
        return bool(values) and not any(isinstance(value, str) for value in values)


def format_value(value: Value) -> str:
    """Format a value for readers."""
    if value is None:
        return MISSING_TEXT
    if isinstance(value, float):
        return summary.format_number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def sort_key(value: Value) -> float | None:
    """Return the number by which a value is sorted; `None` if it has none."""
    number: Any = value.value if isinstance(value, IntervalEstimate) else value
    return None if number is None or isinstance(number, str) else float(number)


def to_markdown(table: Table) -> str:
    """Render the table as Markdown."""
    alignment = ["---:" if table.is_numeric(i) else "---" for i in range(len(table.columns))]
    lines = [_markdown_row(table.columns), f"|{'|'.join(alignment)}|"]
    lines += [_markdown_row([format_value(value) for value in row]) for row in table.rows]
    body = "\n".join(lines)
    return f"### {escape_markdown(table.title)}\n\n{body}\n\n{escape_markdown(table.caption)}\n"


def to_latex(table: Table) -> str:
    """Render the table as LaTeX, which needs the package booktabs."""
    alignment = "".join("r" if table.is_numeric(i) else "l" for i in range(len(table.columns)))
    rows = [" & ".join(escape_latex(format_value(v)) for v in row) + r" \\" for row in table.rows]
    head = " & ".join(map(escape_latex, table.columns)) + r" \\"
    return "\n".join(
        [
            r"% \usepackage{booktabs} \usepackage[T1]{fontenc}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}. {escape_latex(table.caption)}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX prints it literally."""
    escaped = "".join(LATEX_ESCAPES.get(letter, letter) for letter in text)
    return escaped.replace(MISSING_TEXT, "--").replace("…", r"\ldots{}").replace("[", "{[}")


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it literally."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN_SPECIAL.sub(r"\\\1", escaped)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"
