"""The scatter beside map and wall: what the browser is told of it, and the selection it tells.

Positions and values of all buildings reach the browser as bytes over the routes; here go their addresses, the words of the
legend, and the selection as places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pu_geo.services.explore import exploring
from pu_geo.services.explore.coloring import Coloring, values_for_browser
from pu_geo.services.project import projects
from pu_geo.ui.components.places import decode_places, encode_places

CONFIRM_ABOVE = 500
"""Labels for more buildings at once are asked for twice."""
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Scatter:
    """A run's buildings in the plane.

    Attributes:
        kind, v: see `exploring.projection_of`.
        selected: buildings that are selected to begin with, or once `load` is another one.
        load: changes where `selected` shall replace what is selected in the browser.
        tells_focus: whether a click on one building is told as well, and not only a selection of many.
    """

    run_id: str
    kind: exploring.Kind
    v: str
    coloring: Coloring
    selected: Sequence[str] = ()
    load: str = ""
    tells_focus: bool = False


def encode_scatter(scatter: Scatter, positions: Mapping[str, int]) -> dict[str, Any]:
    """Write a scatter for the browser, without the numbers of its dots."""
    color = scatter.coloring
    return {
        "run_id": scatter.run_id,
        "kind": scatter.kind,
        "v": scatter.v,
        "color": {
            "by": color.by, "title": color.title, "kind": color.kind, "names": list(color.names), "low": color.low,
            "high": color.high, "ends": list(color.ends), "v": color.v,
        },
        "selected": encode_places(positions[each] for each in scatter.selected if each in positions),
        "load": scatter.load,
        "confirm_above": CONFIRM_ABOVE,
        "tells_focus": scatter.tells_focus,
    }  # fmt: skip


def read_selection(message: object, positions: Mapping[str, int]) -> tuple[list[str], str | None] | None:
    """Check what a browser says of its selection.

    Returns:
        (ids of the selected buildings, id of the one that was clicked last or None); None if it makes no sense.
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("places"), str):
        return None
    ids = list(positions)
    places, focus = decode_places(message["places"], len(ids)), message.get("focus")
    if places is None:
        return None
    one = ids[focus] if isinstance(focus, int) and 0 <= focus < len(ids) else None
    return [ids[place] for place in places], one


def store_selection(key: str, positions: Mapping[str, int]) -> None:
    """Keep what the browser of component `key` selected; for a Streamlit callback."""
    found = read_selection((st.session_state.get(key) or {}).get("selection"), positions)
    if found is not None:
        st.session_state[f"{key}:selected"], st.session_state[f"{key}:focus"] = found


def dots(token: str, run_id: str, what: str, by: str) -> bytes | None:
    """Return numbers of all dots of an opened project, for the HTTP routes; None if there are no such.

    Args:
        what: "pca" or "umap" for positions, "color" for the values of a coloring.
        by: the coloring's key.
    """
    layout = projects.resolve(token)
    if layout is None or len(by) > _LONGEST_NAME:
        return None
    if what == "color":
        return values_for_browser(layout, run_id, by)
    kind: exploring.Kind | None = {"pca": "PCA", "umap": "UMAP"}.get(what)  # type: ignore[assignment]
    return None if kind is None else exploring.positions_for_browser(layout, run_id, kind)
