"""The map of one cluster: its buildings over all others, in pixels of the project grid."""

from __future__ import annotations

import plotly.graph_objects as go

from pu_geo.services.explore.cluster_map import OnMap

COLOR, OTHERS = "#CC79A7", "#C8C8C8"
_MANY = 5000


def map_of(found: OnMap) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down."""
    figure = go.Figure()
    size = 3 if len(found.own) + len(found.others) > _MANY else 6
    for name, xy, color in (("other buildings", found.others, OTHERS), ("this cluster", found.own, COLOR)):
        figure.add_trace(
            go.Scattergl(
                x=xy[:, 0], y=xy[:, 1], mode="markers", name=name, hoverinfo="skip", marker={"size": size, "color": color}
            )
        )
    figure.update_layout(
        height=300, margin={"l": 0, "r": 0, "t": 8, "b": 0}, dragmode="pan", xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x"}, legend={"orientation": "h"},
    )  # fmt: skip
    return figure
