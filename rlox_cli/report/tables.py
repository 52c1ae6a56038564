"""Tables: what is in them, and the same as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlox_cli import summary

LATEX = {
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
NOTHING = "\u2013"  # of a value that is not there
MARKDOWN = re.compile(r"([\\`*_\[\]|#~$])")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, which one run does not have."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        value = summary.number(self.value)
        if self.low is None or self.high is None:
            return value
        return f"{value} [{summary.number(self.low)}, {summary.number(self.high)}]"


Value = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    """A table with a name for its files, a title and what its numbers are."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]] = field(default_factory=list)

    def numeric(self, place: int) -> bool:
        """Whether a column has numbers."""
        values = [row[place] for row in self.rows if row[place] not in (None, "")]
        return bool(values) and not any(isinstance(value, str) for value in values)


def shown(value: Value) -> str:
    """A value as it is read."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return summary.number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def rank(value: Value) -> float | None:
    """What a value is sorted by, where it is a number."""
    number: Any = value.value if isinstance(value, Estimate) else value
    return None if number is None or isinstance(number, str) else float(number)


def markdown(table: Table) -> str:
    """The table in Markdown."""
    edge = ["---:" if table.numeric(i) else "---" for i in range(len(table.columns))]
    lines = [_line(table.columns), f"|{'|'.join(edge)}|"]
    lines += [_line([shown(value) for value in row]) for row in table.rows]
    body = "\n".join(lines)
    return f"### {in_markdown(table.title)}\n\n{body}\n\n{in_markdown(table.caption)}\n"


def latex(table: Table) -> str:
    """The table in LaTeX, which needs the package booktabs."""
    edge = "".join("r" if table.numeric(i) else "l" for i in range(len(table.columns)))
    rows = [" & ".join(in_latex(shown(v)) for v in row) + r" \\" for row in table.rows]
    head = " & ".join(map(in_latex, table.columns)) + r" \\"
    return "\n".join(
        [
            r"% \usepackage{booktabs} \usepackage[T1]{fontenc}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{in_latex(table.title)}. {in_latex(table.caption)}}}",
            rf"\begin{{tabular}}{{{edge}}}",
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


def in_latex(text: str) -> str:
    """Text that LaTeX sets as it is written."""
    said = "".join(LATEX.get(letter, letter) for letter in text)
    return said.replace(NOTHING, "--").replace("…", r"\ldots{}").replace("[", "{[}")


def in_markdown(text: str) -> str:
    """Text that Markdown shows as it is written."""
    said = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", said)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(in_markdown, cells))} |"
