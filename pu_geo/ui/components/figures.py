"""Figures that several screens draw: lines, some with their interval, and buildings as dots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

BLUE, RED = "#0B6E99", "#D55E00"
_STYLES = (  # lines differ by more than color
    (BLUE, "solid"), (RED, "dot"), ("#009E73", "dash"), ("#8F4A86", "dashdot"), ("#B97A00", "longdash"),
    ("#6B6B6B", "longdashdot"),
)  # fmt: skip
SHARES = {"range": [0, 1.02], "dtick": 0.25, "tickmode": "linear", "tickformat": ".0%"}
"""An axis of shares."""
_RIGHT = {"overlaying": "y", "side": "right", "showgrid": False, "zeroline": False}
_MANY = 5000


def lines(
    title: str,
    points: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    *,
    right: Collection[str] = (),
    styles: Sequence[tuple[str, str]] = _STYLES,
    **layout: Any,
) -> list[go.Figure]:
    """Return a figure with a line for each number that the points hold more than once; none where there is none.

    Args:
        points: each with "epoch", its place from left to right, "epochs", where the axis ends, and numbers by name.
        names: of the numbers to draw, with their labels.
        right: names of those whose axis is at the right.
        styles: color and dash of each line.
        layout: what else the layout of a plotly figure takes.
    """
    there = {name: [one for one in points if one.get(name) is not None] for name in names}
    there = {name: each for name, each in there.items() if len(each) > 1}
    if not there:
        return []
    figure = go.Figure().update_layout(
        height=190,
        margin={"l": 0, "r": 0, "t": 46, "b": 0},
        hovermode="x unified",
        title={"text": title, "font": {"size": 13}, "x": 0, "y": 0.98, "yanchor": "top"},
        xaxis={"range": [0, max(one.get("epochs", one["epoch"]) for one in points)], "title": None},
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 10}},
        yaxis2=_RIGHT if right else None,
    )
    for (color, dash), (name, each) in zip(styles, there.items(), strict=False):
        figure.add_scatter(
            x=[one["epoch"] for one in each], y=[one[name] for one in each], name=names[name], mode="lines",
            yaxis="y2" if name in right else "y", line={"color": color, "dash": dash, "width": 2},
        )  # fmt: skip
    return [figure.update_layout(layout)]


def add_interval(figure: go.Figure, x: Sequence[float], low: Sequence[Any], high: Sequence[Any], color: str = BLUE) -> None:
    """Fill what lies between two lines."""
    figure.add_scatter(
        x=[*x, *x[::-1]], y=[*high, *low[::-1]], fill="toself", fillcolor=color, opacity=0.15, line_width=0,
        hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def draw(found: Sequence[go.Figure], key: str, alt: str | None = None) -> None:
    """Draw figures that have titles, two beside each other."""
    columns = st.columns(2, gap="small") if len(found) > 1 else [st.container()]
    for number, figure in enumerate(found):
        columns[number % len(columns)].plotly_chart(
            figure, key=f"{figure.layout.title.text}-{key}", config={"displayModeBar": False}, alt=alt
        )


def dots(groups: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Return a map of buildings as dots in grid pixels, y down; of each group what `go.Scattergl` takes."""
    figure = go.Figure([go.Scattergl(mode="markers", **group) for group in groups])
    figure.update_traces(marker_size=3 if sum(len(group["x"]) for group in groups) > _MANY else 6)
    return figure.update_layout(
        height=300, margin={"l": 0, "r": 0, "t": 8, "b": 0}, dragmode="pan", xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x"}, legend={"orientation": "h"},
    )  # fmt: skip


def draw_map(figure: go.Figure, key: str, alt: str | None = None) -> None:
    """Draw a figure that can be moved and magnified."""
    st.plotly_chart(figure, key=key, config={"displaylogo": False, "scrollZoom": True}, alt=alt)
