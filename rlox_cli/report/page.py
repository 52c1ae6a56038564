"""`report.html`: one file that needs nothing else, neither a network nor the folder beside it.

Whatever a run says of itself is text: it is escaped where it stands in HTML, in the data of the figures and
in Plotly's labels, and the page's policy runs no script but the two that are part of it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rlox_cli.report import figures_plotly, styles
from rlox_cli.report.figures import Figure
from rlox_cli.report.tables import Table, Value, rank, shown

HERE = Path(__file__).parent
LONG = 40  # letters of a text that is given room
MANY, TALL = 8, 50  # rows of a table that can be filtered, and of one that scrolls in itself
THEMES = {
    "light": {"text": "#1c2128", "soft": "#57606a", "grid": "#e4e8ec", "edge": "#8c959f", "wash": "#f6f8fa",
              "ground": styles.GROUND["light"], "colours": styles.LIGHT},
    "dark": {"text": "#e6e9ee", "soft": "#a3acb9", "grid": "#2c323d", "edge": "#6b7583", "wash": "#20252e",
             "ground": styles.GROUND["dark"], "colours": styles.DARK},
}  # fmt: skip
SWATCHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "8 3 2 3", "longdash": "12 4"}
SHAPES = {
    "circle": '<circle cx="18" cy="7" r="4.5"/>',
    "square": '<rect x="14" y="3" width="8" height="8"/>',
    "diamond": '<path d="M18 1.5 23.5 7 18 12.5 12.5 7z"/>',
    "triangle-up": '<path d="M18 2 23.5 11.5h-11z"/>',
    "x": '<path d="M14 3 22 11M22 3 14 11" stroke-width="3"/>',
    "cross": '<path d="M18 2v10M13 7h10" stroke-width="3"/>',
    "star": '<path d="m18 1 1.6 4 4.4.3-3.4 2.8 1.1 4.3L18 10l-3.7 2.4 1.1-4.3L12 5.3l4.4-.3z"/>',
}


@dataclass(frozen=True)
class Section:
    """A part of the page: words, then figures, then tables."""

    key: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Page:
    """What is on the page."""

    title: str
    lead: str
    notes: Sequence[str]
    sections: Sequence[Section]
    methods: Sequence[str] = field(default_factory=list)  # those in the figures, by place
    footer: str = ""


def write(page: Page) -> str:
    """The whole file."""
    plotly: Any = import_module("plotly.offline")
    library, own = _script(plotly.get_plotlyjs()), _script((HERE / "page.js").read_text("utf-8"))
    panels: dict[str, Any] = {}
    body = "\n".join(_body(page, panels))
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in (library, own))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{_text(page.title)}</title>",
            f"<style>{(HERE / 'page.css').read_text('utf-8')}</style>",
            "</head>",
            "<body>",
            body,
            f'<script type="application/json" id="report-data">{_data(panels)}</script>',
            f"<script>{library}</script>",
            f"<script>{own}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _body(page: Page, panels: dict[str, Any]) -> Iterator[str]:
    yield f"<header><h1>{_text(page.title)}</h1><p class='soft'>{_text(page.lead)}</p></header>"
    links = "".join(
        f'<li><a href="#{section.key}">{_text(section.title)}</a></li>' for section in page.sections
    )
    yield f'<nav aria-label="Sections"><div><ul>{links}</ul>'
    yield '<button id="theme" type="button" title="Light, dark, or as the system has it">Theme</button>'
    yield "</div></nav><main>"
    yield (
        "<noscript><p>Figures on this page are drawn by a script. They are also in the folder "
        "<code>figures</code> beside it.</p></noscript>"
    )
    if page.notes:
        items = "".join(f"<li>{_text(note)}</li>" for note in page.notes)
        yield f'<aside class="notes" aria-label="Before you read on"><ul>{items}</ul></aside>'
    for section in page.sections:
        yield f'<section aria-labelledby="{section.key}"><h2 id="{section.key}">'
        yield f"{_text(section.title)}</h2>"
        yield from (f"<p>{_text(words)}</p>" for words in section.words)
        for figure in section.figures:
            yield from _figure(figure, page, panels)
        for table in section.tables:
            yield from _table(table, section)
        yield "</section>"
    yield f"</main><footer>{_text(page.footer)}</footer>"


def _figure(figure: Figure, page: Page, panels: dict[str, Any]) -> Iterator[str]:
    yield "<figure>"
    yield from _legend(figure, page)
    one = " one" if len(figure.panels) == 1 else ""
    yield f'<div class="panels{one}">'
    for place, panel in enumerate(figure.panels):
        name = f"plot-{figure.name}-{place}"
        panels[name] = spec = figures_plotly.spec(panel)
        label = _text(f"{figure.title}: {panel.title}")
        height = spec["layout"]["height"]
        yield f'<div class="panel"><h3>{_text(panel.title)}</h3>'
        yield f'<div class="plot" id="{name}" role="img" aria-label="{label}"'
        yield f' style="height:{height}px"></div></div>'
    yield f'</div><figcaption class="caption">{_text(figure.caption)}</figcaption></figure>'


def _legend(figure: Figure, page: Page) -> Iterator[str]:
    """The methods in a figure, each a button that hides it; of bars the parts."""
    bars = [bar for panel in figure.panels for bar in panel.bars]
    if bars:
        there = [part for part in styles.PATTERNS if any(bar.parts.get(part) for bar in bars)]
        places = {part: place for place, part in enumerate(styles.PATTERNS)}
        items = "".join(f"<span>{_square(places[p])}{_text(p)}</span>" for p in there)
        yield f'<div class="legend">{items}</div>'
        return
    there_are = {line.place for panel in figure.panels for line in panel.lines}
    shown_places = sorted(there_are | {row.place for panel in figure.panels for row in panel.rows})
    if len(shown_places) < 2 or figure.name == "improvement" or not figure.of_methods:
        return
    items = "".join(
        f'<button type="button" aria-pressed="true" data-place="{place}">{_swatch(place)}'
        f"{_text(page.methods[place])}</button>"
        for place in shown_places
    )
    yield f'<div class="legend" role="group" aria-label="Methods; press to hide">{items}</div>'


def _swatch(place: int) -> str:
    dash, shape = SWATCHES[styles.dash(place)], SHAPES[styles.mark(place)]
    return (
        f'<svg data-place="{place}" width="36" height="14" aria-hidden="true" fill="currentColor" '
        f'stroke="currentColor"><line x1="0" y1="7" x2="36" y2="7" stroke-width="2.2" '
        f'stroke-dasharray="{dash}"/>{shape}</svg>'
    )


def _square(place: int) -> str:
    lines = {1: "M0 14 14 0", 2: "M0 14 14 0M0 0 14 14", 3: "M4 7h2M9 7h2"}.get(place, "")
    return (
        f'<svg data-place="{place}" width="14" height="14" aria-hidden="true">'
        '<rect width="14" height="14" fill="currentColor"/>'
        f'<path d="{lines}" stroke="var(--ground)" stroke-width="2"/></svg>'
    )


def _table(table: Table, section: Section) -> Iterator[str]:
    name = f"table-{table.name}"
    if table.title != section.title:
        yield f"<h3>{_text(table.title)}</h3>"
    if len(table.rows) > MANY:
        yield f'<div class="filter"><label for="{name}-box">Filter</label>'
        yield f'<input id="{name}-box" type="search" data-table="{name}" autocomplete="off">'
        yield f'<span class="soft" id="{name}-count" aria-live="polite"></span></div>'
    tall = " tall" if len(table.rows) > TALL else ""
    yield f'<div class="table{tall}" tabindex="0" role="region" aria-label="{_text(table.title)}">'
    yield f'<table class="sorts" id="{name}"><thead><tr>'
    numeric = [table.numeric(place) for place in range(len(table.columns))]
    for column, is_number in zip(table.columns, numeric, strict=True):
        kind = ' class="number"' if is_number else ""
        yield f'<th scope="col"{kind}><button type="button">{_text(column)}</button></th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = (_cell(value, n) for value, n in zip(row, numeric, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield f'</tbody></table></div><p class="caption">{_text(table.caption)}</p>'


def _cell(value: Value, numeric: bool) -> str:
    said = shown(value)
    classes = ["number"] if numeric else []
    classes += ["long"] if len(said) > LONG and not numeric else []
    classes += [said] if said in ("agrees", "differs") else []
    kind = f' class="{" ".join(classes)}"' if classes else ""
    number = rank(value)
    sort = "" if number is None else f' data-sort="{number!r}"'
    return f"<td{kind}{sort}>{_text(said)}</td>"


def _text(said: str) -> str:
    return html.escape(said, quote=True)


def _data(panels: dict[str, Any]) -> str:
    """JSON that no text in it can end: `<`, `>` and `&` are spelled."""
    said = json.dumps({"themes": THEMES, "panels": panels}, allow_nan=False, separators=(",", ":"))
    return said.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script(code: str) -> str:
    """A script as it can stand in HTML; in JavaScript's texts `<\\/` is `</`."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
