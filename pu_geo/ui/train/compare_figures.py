"""The figures of two runs side by side: their curves, and a map of where they disagree. Orange is A, blue is B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pu_geo.services.train.disagreeing import MapPoints

COLORS = {"A": "#D55E00", "B": "#0072B2"}
_SCALE = [[0, COLORS["B"]], [0.5, "#E6E6E6"], [1, COLORS["A"]]]
_MANY = 5000
_MARGIN = {"l": 0, "r": 0, "t": 24, "b": 0}


def curves(reports: Sequence[Sequence[Mapping[str, Any]]]) -> go.Figure | None:
    """Draw the losses of two runs, and the shares that they call damaged where they tell it; None where there are none.

    Losses of different methods have no common scale, so each is drawn in units of its first value.

    Args:
        reports: of A and of B, an epoch each: {"epoch", "epochs", "loss", "share_positive"?, "stage"?}.
    """
    found = {
        name: [one for one in each if one.get("stage") in (None, "training") and one.get("loss") is not None]
        for name, each in zip("AB", reports, strict=True)
    }
    told = {name: [one for one in each if one.get("share_positive") is not None] for name, each in found.items()}
    if not any(len(each) > 1 for each in found.values()):
        return None
    titles = ["loss, first epoch = 1", *(["share called damaged"] if any(map(len, told.values())) else [])]
    figure = make_subplots(rows=1, cols=len(titles), subplot_titles=titles, horizontal_spacing=0.12)
    for name, each in found.items():
        if each:
            first = abs(float(each[0]["loss"])) or 1.0
            _line(figure, name, each, [float(one["loss"]) / first for one in each], 1)
    for name, each in told.items():
        if each:
            _line(figure, name, each, [float(one["share_positive"]) for one in each], 2, legend=not found[name])
    if len(titles) == 2:
        figure.update_yaxes(range=[0, 1], tickformat=".0%", col=2)
    figure.update_xaxes(range=[0, 1], tickformat=".0%", title="share of the training")
    figure.update_layout(height=250, margin=_MARGIN, legend={"orientation": "h", "y": -0.35})
    figure.update_annotations(font_size=13)
    return figure


def _line(
    figure: go.Figure, name: str, each: Sequence[Mapping[str, Any]], values: Sequence[float], column: int, *,
    legend: bool = True,
) -> None:  # fmt: skip
    done = [float(one["epoch"]) / max(float(one.get("epochs") or each[-1]["epoch"]), 1.0) for one in each]
    line = {"color": COLORS[name], "dash": "solid" if name == "A" else "dot"}
    text = [f"epoch {one['epoch']}" for one in each]
    figure.add_trace(
        go.Scatter(x=done, y=values, name=name, line=line, text=text, mode="lines", showlegend=legend and column == 1),
        row=1,
        col=column,
    )


def map_of(points: MapPoints) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down, colored by how much higher A ranks them than B."""
    most = points.most
    bar = {"title": "", "thickness": 10, "tickvals": [-most, 0, most], "ticktext": ["B higher", "same", "A higher"]}
    figure = go.Figure(
        go.Scattergl(
            x=points.x, y=points.y, mode="markers", hovertemplate="%{marker.color:+.2f} of all places<extra></extra>",
            marker={"size": 3 if len(points.x) > _MANY else 6, "color": points.difference, "colorscale": _SCALE,
                    "cmin": -most, "cmax": most, "colorbar": bar},
        )
    )  # fmt: skip
    figure.update_layout(
        height=330, margin=_MARGIN, dragmode="pan", xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x"},
    )  # fmt: skip
    return figure
