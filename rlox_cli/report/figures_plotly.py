"""Plotly specs of the page's figures, as plain data; the page's script sets the colours of the theme."""

from __future__ import annotations

import html
from typing import Any

from rlox_cli.report import figures as styles
from rlox_cli.report.figures import Bar, Line, Panel, Row, fit_name

Spec = dict[str, Any]

MAX_MARKS = 9
ROW_HEIGHT, FRAME_HEIGHT, LINES_HEIGHT = 54, 84, 320
LABEL_OFFSET = 0.42  # distance of a name above its row
DIGITS = 6
MANY_POINTS, FAINT_OPACITY = 30, 0.35  # opacity of more than 30 points, so that the estimate is visible


def panel_spec(panel: Panel) -> Spec:
    """Build traces and layout of a panel.

    `meta` of a trace has its style index (`place`) and its role.
    """
    if panel.lines:
        traces = [trace for line in panel.lines for trace in _line_traces(line, panel)]
        layout = _layout(panel, LINES_HEIGHT)
        if panel.reference_line is not None:
            layout["shapes"] = [_reference_line(panel.reference_line, is_vertical=False)]
        if panel.y_range is not None:
            layout["yaxis"]["range"] = _round_values(panel.y_range)
        return {"data": traces, "layout": layout}
    count = max(len(panel.rows), len(panel.bars))
    layout = _layout(panel, FRAME_HEIGHT + ROW_HEIGHT * count)
    layout["yaxis"] |= {"visible": False, "range": [-0.5, count - 0.3], "fixedrange": True}
    names = [row.name for row in panel.rows or panel.bars]
    layout["annotations"] = [_name_annotation(name, count - 1 - i) for i, name in enumerate(names)]
    if panel.reference_line is not None:
        layout["shapes"] = [_reference_line(panel.reference_line, is_vertical=True)]
    if panel.rows:
        placed = [(row, count - 1 - i) for i, row in enumerate(panel.rows)]
        return {"data": [t for row, y in placed for t in _row_traces(row, y)], "layout": layout}
    layout["barmode"] = "stack"
    return {"data": _bar_traces(panel.bars), "layout": layout}


def escape_html(text: str) -> str:
    """Escape text for Plotly, which interprets tags such as `<b>`."""
    return html.escape(text, quote=False)


def _layout(panel: Panel, height: int) -> Spec:
    axis = {"title": {"text": escape_html(panel.x), "standoff": 8}, "automargin": True, "zeroline": False}
    if panel.is_log:
        axis |= {"type": "log"}
    if panel.is_unit_range:
        axis |= {"range": [-0.02, 1.02]}
    return {
        "height": height,
        "margin": {"l": 56 if panel.lines else 14, "r": 14, "t": 30, "b": 44},
        "xaxis": axis,
        "yaxis": {
            "title": {"text": escape_html(panel.y), "standoff": 6},
            "automargin": True,
            "zeroline": False,
        },
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
    }


def _line_traces(line: Line, panel: Panel) -> list[Spec]:
    shape = "hv" if panel.is_stepped else "linear"
    traces: list[Spec] = []
    has_band = line.low is not None and line.high is not None
    x = _round_values(line.x)
    if line.low is not None and line.high is not None:
        edge: Spec = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip"}
        edge["line"] = {"width": 0, "shape": shape}
        traces = [
            edge | {"y": _round_values(line.low), "meta": {"place": line.style_index, "role": "edge"}},
            edge
            | {
                "y": _round_values(line.high),
                "fill": "tonexty",
                "meta": {"place": line.style_index, "role": "band"},
            },
        ]
        interval_data = list(zip(_round_values(line.low), _round_values(line.high), strict=True))
    interval = "<br>95% CI %{customdata[0]:.4g} to %{customdata[1]:.4g}" if has_band else ""
    line_trace: Spec = {
        "type": "scatter",
        "mode": "markers" if not line.is_joined else "lines" if panel.is_stepped else "lines+markers",
        "x": x,
        "y": _round_values(line.y),
        "name": escape_html(line.name),
        "text": escape_html(line.hover_text),
        "line": {"width": 2.2, "dash": styles.dash(line.style_index), "shape": shape},
        "marker": {"symbol": styles.mark(line.style_index), "size": 8, "maxdisplayed": MAX_MARKS},
        "hovertemplate": f"<b>%{{fullData.name}}</b><br>%{{x:,.4~f}}: %{{y:.4g}}{interval}"
        "<br>%{text}<extra></extra>",
        "meta": {"place": line.style_index, "role": "line"},
    }
    return [*traces, line_trace | ({"customdata": interval_data} if has_band else {})]


def _row_traces(row: Row, y: int) -> list[Spec]:
    traces: list[Spec] = []
    if row.dots:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": _round_values([value for value, _ in row.dots]),
                "y": [y] * len(row.dots),
                "text": [escape_html(label) for _, label in row.dots],
                "marker": {"symbol": f"{styles.mark(row.style_index)}-open", "size": 8},
                "opacity": FAINT_OPACITY if len(row.dots) > MANY_POINTS else 1.0,
                "hovertemplate": "%{text}: %{x:.4g}<extra></extra>",
                "meta": {"place": row.style_index, "role": "dots"},
            }
        )
    if (e := row.estimate) is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": _round_values([e.value]),
                "y": [y],
                "text": [str(e)],
                "name": escape_html(row.name),
                "marker": {"symbol": styles.mark(row.style_index), "size": 12},
                "hovertemplate": "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
                "meta": {"place": row.style_index, "role": "estimate"},
            }
        )
        if e.low is not None and e.high is not None:
            traces[-1]["error_x"] = {
                "type": "data",
                "array": _round_values([e.high - e.value]),
                "arrayminus": _round_values([e.value - e.low]),
                "thickness": 2,
                "width": 5,
            }
    return traces


def _bar_traces(bars: Any) -> list[Spec]:
    traces = []
    for style_index, part in enumerate(styles.PATTERNS):
        if any(bar.parts.get(part) for bar in bars):
            traces.append(_part_trace(list(bars), part, style_index))
    return traces


def _part_trace(bars: list[Bar], part: str, style_index: int) -> Spec:
    return {
        "type": "bar",
        "orientation": "h",
        "name": part,
        "x": _round_values([bar.parts.get(part, 0.0) for bar in bars]),
        "y": [len(bars) - 1 - i for i in range(len(bars))],
        "text": [escape_html(bar.name) for bar in bars],
        "textposition": "none",
        "width": 0.4,
        "marker": {"pattern": {"shape": styles.PATTERNS[part], "size": 7, "solidity": 0.25}},
        "hovertemplate": f"<b>%{{text}}</b><br>{part} %{{x:.4g}} s<extra></extra>",
        "meta": {"place": style_index, "role": "part"},
    }


def _name_annotation(name: str, y: int) -> Spec:
    return {
        "text": escape_html(fit_name(name)),
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": y + LABEL_OFFSET,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12},
    }


def _reference_line(value: float, is_vertical: bool) -> Spec:
    ends: Spec = {"x0": value, "x1": value, "y0": 0, "y1": 1, "yref": "paper"}
    if not is_vertical:
        ends = {"y0": value, "y1": value, "x0": 0, "x1": 1, "xref": "paper"}
    return {"type": "line", "layer": "below", "line": {"width": 1.2, "dash": "dot"}} | ends


def _round_values(values: Any) -> list[float]:
    """Round numbers to as many digits as a figure can show."""
    return [float(f"{value:.{DIGITS}g}") for value in values]
