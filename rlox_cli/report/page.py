"""`report.html`: one self-contained file that needs neither a network nor the folder beside it.

Text from runs is untrusted: it is escaped in HTML, in the data of the figures and in Plotly's labels. The
page's Content-Security-Policy runs only the two scripts that are part of it.
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

from rlox_cli.report import figures as styles
from rlox_cli.report import figures_plotly
from rlox_cli.report.figures import Figure
from rlox_cli.report.tables import Table, Value, format_value, sort_key

ASSET_DIR = Path(__file__).parent
LONG_TEXT = 40  # a cell with more characters is `long`, which gives its column more width
MIN_FILTER_ROWS, MAX_VISIBLE_ROWS = (
    8,
    50,
)  # a table with more rows than the first has a filter; with more than the second it scrolls in its box
THEMES = {
    "light": {"text": "#1c2128", "soft": "#57606a", "grid": "#e4e8ec", "edge": "#8c959f", "wash": "#f6f8fa",
              "ground": styles.BACKGROUND["light"], "colours": styles.LIGHT_COLOURS},
    "dark": {"text": "#e6e9ee", "soft": "#a3acb9", "grid": "#2c323d", "edge": "#6b7583", "wash": "#20252e",
             "ground": styles.BACKGROUND["dark"], "colours": styles.DARK_COLOURS},
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
    """A section of the page: paragraphs, then figures, then tables."""

    key: str
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Page:
    """The content of the page."""

    title: str
    subtitle: str
    notes: Sequence[str]
    sections: Sequence[Section]
    methods: Sequence[str] = field(default_factory=list)  # those in the figures, by style index
    footer: str = ""


def render_page(page: Page) -> str:
    """Render the whole file."""
    plotly: Any = import_module("plotly.offline")
    library, page_script = (
        _escape_script(plotly.get_plotlyjs()),
        _escape_script((ASSET_DIR / "page.js").read_text("utf-8")),
    )
    panels: dict[str, Any] = {}
    body = "\n".join(_body(page, panels))
    script_hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (library, page_script))
    policy = (
        f"default-src 'none'; script-src {script_hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
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
            f"<title>{_escape(page.title)}</title>",
            f"<style>{(ASSET_DIR / 'page.css').read_text('utf-8')}</style>",
            "</head>",
            "<body>",
            body,
            f'<script type="application/json" id="report-data">{_json_data(panels)}</script>',
            f"<script>{library}</script>",
            f"<script>{page_script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _body(page: Page, panels: dict[str, Any]) -> Iterator[str]:
    yield f"<header><h1>{_escape(page.title)}</h1><p class='soft'>{_escape(page.subtitle)}</p></header>"
    links = "".join(
        f'<li><a href="#{section.key}">{_escape(section.title)}</a></li>' for section in page.sections
    )
    yield f'<nav aria-label="Sections"><div><ul>{links}</ul>'
    yield '<button id="theme" type="button" title="Light, dark, or the theme of the system">Theme</button>'
    yield "</div></nav><main>"
    yield (
        "<noscript><p>Figures on this page are drawn by a script. They are also in the folder "
        "<code>figures</code> beside it.</p></noscript>"
    )
    if page.notes:
        items = "".join(f"<li>{_escape(note)}</li>" for note in page.notes)
        yield f'<aside class="notes" aria-label="Before you read on"><ul>{items}</ul></aside>'
    for section in page.sections:
        yield f'<section aria-labelledby="{section.key}"><h2 id="{section.key}">'
        yield f"{_escape(section.title)}</h2>"
        yield from (f"<p>{_escape(paragraph)}</p>" for paragraph in section.paragraphs)
        for figure in section.figures:
            yield from _figure(figure, page, panels)
        for table in section.tables:
            yield from _table(table, section)
        yield "</section>"
    yield f"</main><footer>{_escape(page.footer)}</footer>"


def _figure(figure: Figure, page: Page, panels: dict[str, Any]) -> Iterator[str]:
    yield "<figure>"
    yield from _legend(figure, page)
    layout_class = " one" if len(figure.panels) == 1 else ""
    yield f'<div class="panels{layout_class}">'
    for panel_index, panel in enumerate(figure.panels):
        name = f"plot-{figure.name}-{panel_index}"
        panels[name] = spec = figures_plotly.panel_spec(panel)
        label = _escape(f"{figure.title}: {panel.title}")
        height = spec["layout"]["height"]
        yield f'<div class="panel"><h3>{_escape(panel.title)}</h3>'
        yield f'<div class="plot" id="{name}" role="img" aria-label="{label}"'
        yield f' style="height:{height}px"></div></div>'
    yield f'</div><figcaption class="caption">{_escape(figure.caption)}</figcaption></figure>'


def _legend(figure: Figure, page: Page) -> Iterator[str]:
    """Yield the legend of a figure: a button per method that hides it, or the parts of bars."""
    bars = [bar for panel in figure.panels for bar in panel.bars]
    if bars:
        parts = [part for part in styles.PATTERNS if any(bar.parts.get(part) for bar in bars)]
        style_indices = {part: style_index for style_index, part in enumerate(styles.PATTERNS)}
        items = "".join(f"<span>{_part_swatch(style_indices[p])}{_escape(p)}</span>" for p in parts)
        yield f'<div class="legend">{items}</div>'
        return
    line_indices = {line.style_index for panel in figure.panels for line in panel.lines}
    style_indices_shown = sorted(
        line_indices | {row.style_index for panel in figure.panels for row in panel.rows}
    )
    if len(style_indices_shown) < 2 or figure.name == "improvement" or not figure.is_by_method:
        return
    items = "".join(
        f'<button type="button" aria-pressed="true" data-place="{style_index}">{_swatch(style_index)}'
        f"{_escape(page.methods[style_index])}</button>"
        for style_index in style_indices_shown
    )
    yield f'<div class="legend" role="group" aria-label="Methods; press to hide">{items}</div>'


def _swatch(style_index: int) -> str:
    dash, shape = SWATCHES[styles.dash(style_index)], SHAPES[styles.mark(style_index)]
    return (
        f'<svg data-place="{style_index}" width="36" height="14" aria-hidden="true" fill="currentColor" '
        f'stroke="currentColor"><line x1="0" y1="7" x2="36" y2="7" stroke-width="2.2" '
        f'stroke-dasharray="{dash}"/>{shape}</svg>'
    )


def _part_swatch(style_index: int) -> str:
    lines = {1: "M0 14 14 0", 2: "M0 14 14 0M0 0 14 14", 3: "M4 7h2M9 7h2"}.get(style_index, "")
    return (
        f'<svg data-place="{style_index}" width="14" height="14" aria-hidden="true">'
        '<rect width="14" height="14" fill="currentColor"/>'
        f'<path d="{lines}" stroke="var(--ground)" stroke-width="2"/></svg>'
    )


def _table(table: Table, section: Section) -> Iterator[str]:
    name = f"table-{table.name}"
    if table.title != section.title:
        yield f"<h3>{_escape(table.title)}</h3>"
    if len(table.rows) > MIN_FILTER_ROWS:
        yield f'<div class="filter"><label for="{name}-box">Filter</label>'
        yield f'<input id="{name}-box" type="search" data-table="{name}" autocomplete="off">'
        yield f'<span class="soft" id="{name}-count" aria-live="polite"></span></div>'
    tall = " tall" if len(table.rows) > MAX_VISIBLE_ROWS else ""
    yield f'<div class="table{tall}" tabindex="0" role="region" aria-label="{_escape(table.title)}">'
    yield f'<table class="sorts" id="{name}"><thead><tr>'
    numeric = [table.is_numeric(column_index) for column_index in range(len(table.columns))]
    for column, is_number in zip(table.columns, numeric, strict=True):
        class_attribute = ' class="number"' if is_number else ""
        yield f'<th scope="col"{class_attribute}><button type="button">{_escape(column)}</button></th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = (_cell(value, n) for value, n in zip(row, numeric, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield f'</tbody></table></div><p class="caption">{_escape(table.caption)}</p>'


def _cell(value: Value, is_numeric: bool) -> str:
    text = format_value(value)
    classes = ["number"] if is_numeric else []
    classes += ["long"] if len(text) > LONG_TEXT and not is_numeric else []
    classes += [text] if text in ("agrees", "differs") else []
    class_attribute = f' class="{" ".join(classes)}"' if classes else ""
    number = sort_key(value)
    sort = "" if number is None else f' data-sort="{number!r}"'
    return f"<td{class_attribute}{sort}>{_escape(text)}</td>"


def _escape(text: str) -> str:
    return html.escape(text, quote=True)


def _json_data(panels: dict[str, Any]) -> str:
    """Return JSON with `<`, `>` and `&` escaped, so that no text in it can end the script element."""
    json_text = json.dumps({"themes": THEMES, "panels": panels}, allow_nan=False, separators=(",", ":"))
    return json_text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _escape_script(code: str) -> str:
    """Escape a script for HTML; in JavaScript's strings `<\\/` is `</`."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
