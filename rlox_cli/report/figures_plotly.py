"""Figures for the page: what Plotly draws, as plain data. The page gives each part its theme's colour."""

from __future__ import annotations

import html
from typing import Any

from rlox_cli.report import styles
from rlox_cli.report.figures import Bar, Line, Panel, Row, fitted

Spec = dict[str, Any]

MARKS_SHOWN = 9
ROW_HEIGHT, FRAME, LINES_HEIGHT = 54, 84, 320
LABEL = 0.42  # how far above its row a name stands
DIGITS = 6
CROWD, FAINT = 30, 0.35  # of so many marks each is faint, so that the estimate is seen


def spec(panel: Panel) -> Spec:
    """Traces and layout of a panel. `meta` says which method and which part a trace is."""
    if panel.lines:
        traces = [trace for line in panel.lines for trace in _line(line, panel)]
        layout = _layout(panel, LINES_HEIGHT)
        if panel.mark is not None:
            layout["shapes"] = [_across(panel.mark, upright=False)]
        if panel.heights is not None:
            layout["yaxis"]["range"] = _short(panel.heights)
        return {"data": traces, "layout": layout}
    count = max(len(panel.rows), len(panel.bars))
    layout = _layout(panel, FRAME + ROW_HEIGHT * count)
    layout["yaxis"] |= {"visible": False, "range": [-0.5, count - 0.3], "fixedrange": True}
    names = [row.name for row in panel.rows or panel.bars]
    layout["annotations"] = [_name(name, count - 1 - i) for i, name in enumerate(names)]
    if panel.mark is not None:
        layout["shapes"] = [_across(panel.mark, upright=True)]
    if panel.rows:
        placed = [(row, count - 1 - i) for i, row in enumerate(panel.rows)]
        return {"data": [t for row, y in placed for t in _row(row, y)], "layout": layout}
    layout["barmode"] = "stack"
    return {"data": _bars(panel.bars), "layout": layout}


def safe(text: str) -> str:
    """Text for Plotly, which takes `<b>` and the like for its own."""
    return html.escape(text, quote=False)


def _layout(panel: Panel, height: int) -> Spec:
    axis = {"title": {"text": safe(panel.x), "standoff": 8}, "automargin": True, "zeroline": False}
    if panel.log:
        axis |= {"type": "log"}
    if panel.whole:
        axis |= {"range": [-0.02, 1.02]}
    return {
        "height": height,
        "margin": {"l": 56 if panel.lines else 14, "r": 14, "t": 30, "b": 44},
        "xaxis": axis,
        "yaxis": {
            "title": {"text": safe(panel.y), "standoff": 6},
            "automargin": True,
            "zeroline": False,
        },
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
    }


def _line(line: Line, panel: Panel) -> list[Spec]:
    shape = "hv" if panel.stepped else "linear"
    traces: list[Spec] = []
    banded = line.low is not None and line.high is not None
    x = _short(line.x)
    if line.low is not None and line.high is not None:
        edge: Spec = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip"}
        edge["line"] = {"width": 0, "shape": shape}
        traces = [
            edge | {"y": _short(line.low), "meta": {"place": line.place, "role": "edge"}},
            edge
            | {
                "y": _short(line.high),
                "fill": "tonexty",
                "meta": {"place": line.place, "role": "band"},
            },
        ]
        inside = list(zip(_short(line.low), _short(line.high), strict=True))
    interval = "<br>95% CI %{customdata[0]:.4g} to %{customdata[1]:.4g}" if banded else ""
    main: Spec = {
        "type": "scatter",
        "mode": "markers" if not line.joined else "lines" if panel.stepped else "lines+markers",
        "x": x,
        "y": _short(line.y),
        "name": safe(line.name),
        "text": safe(line.said),
        "line": {"width": 2.2, "dash": styles.dash(line.place), "shape": shape},
        "marker": {"symbol": styles.mark(line.place), "size": 8, "maxdisplayed": MARKS_SHOWN},
        "hovertemplate": f"<b>%{{fullData.name}}</b><br>%{{x:,.4~f}}: %{{y:.4g}}{interval}"
        "<br>%{text}<extra></extra>",
        "meta": {"place": line.place, "role": "line"},
    }
    return [*traces, main | ({"customdata": inside} if banded else {})]


def _row(row: Row, y: int) -> list[Spec]:
    traces: list[Spec] = []
    if row.dots:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": _short([value for value, _ in row.dots]),
                "y": [y] * len(row.dots),
                "text": [safe(word) for _, word in row.dots],
                "marker": {"symbol": f"{styles.mark(row.place)}-open", "size": 8},
                "opacity": FAINT if len(row.dots) > CROWD else 1.0,
                "hovertemplate": "%{text}: %{x:.4g}<extra></extra>",
                "meta": {"place": row.place, "role": "dots"},
            }
        )
    if (e := row.estimate) is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": _short([e.value]),
                "y": [y],
                "text": [str(e)],
                "name": safe(row.name),
                "marker": {"symbol": styles.mark(row.place), "size": 12},
                "hovertemplate": "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
                "meta": {"place": row.place, "role": "estimate"},
            }
        )
        if e.low is not None and e.high is not None:
            traces[-1]["error_x"] = {
                "type": "data",
                "array": _short([e.high - e.value]),
                "arrayminus": _short([e.value - e.low]),
                "thickness": 2,
                "width": 5,
            }
    return traces


def _bars(bars: Any) -> list[Spec]:
    traces = []
    for place, part in enumerate(styles.PATTERNS):
        if any(bar.parts.get(part) for bar in bars):
            traces.append(_part(list(bars), part, place))
    return traces


def _part(bars: list[Bar], part: str, place: int) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "name": part,
        "x": _short([bar.parts.get(part, 0.0) for bar in bars]),
        "y": [len(bars) - 1 - i for i in range(len(bars))],
        "text": [safe(bar.name) for bar in bars],
        "textposition": "none",
        "width": 0.4,
        "marker": {"pattern": {"shape": styles.PATTERNS[part], "size": 7, "solidity": 0.25}},
        "hovertemplate": f"<b>%{{text}}</b><br>{part} %{{x:.4g}} s<extra></extra>",
        "meta": {"place": place, "role": "part"},
    }


def _name(name: str, y: int) -> Spec:
    return {
        "text": safe(fitted(name)),
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": y + LABEL,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12},
    }


def _across(at: float, upright: bool) -> Spec:
    ends: Spec = {"x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper"}
    if not upright:
        ends = {"y0": at, "y1": at, "x0": 0, "x1": 1, "xref": "paper"}
    return {"type": "line", "layer": "below", "line": {"width": 1.2, "dash": "dot"}} | ends


def _short(values: Any) -> list[float]:
    """Numbers in as many digits as a figure can show."""
    return [float(f"{value:.{DIGITS}g}") for value in values]
