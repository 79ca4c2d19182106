"""The scatter beside map and wall, and the selection that the browser sends; sets of buildings travel as places.

Positions and values of all buildings reach the browser as bytes over the routes; here go their addresses, the words of the
legend, and the selection as places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import streamlit as st

from pu_geo.explore import umap_picture
from pu_geo.explore.coloring import Coloring, values_for_browser
from pu_geo.store.layout import Layout

CONFIRM_ABOVE = 500  # labels for more buildings at once are asked for twice
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Scatter:
    """A run's buildings in the plane.

    Attributes:
        kind, v: see `umap_picture.projection_of`.
        title: what the picture is called, where that is more than its kind.
        selected: buildings that are selected to begin with, or once `load` is another one.
        load: changes where `selected` shall replace what is selected in the browser.
        tells_focus: whether the browser sends a click on one building as well, and not only a selection of many.
    """

    run_id: str
    kind: umap_picture.Kind
    v: str
    coloring: Coloring
    title: str = ""
    selected: Sequence[str] = ()
    load: str = ""
    tells_focus: bool = False


def encode_scatter(scatter: Scatter, positions: Mapping[str, int]) -> dict[str, Any]:
    """Write a scatter for the browser, without the numbers of its dots."""
    color = scatter.coloring
    return {
        "run_id": scatter.run_id,
        "kind": scatter.kind,
        "title": scatter.title or scatter.kind,
        "v": scatter.v,
        "color": {name: getattr(color, name) for name in ("by", "title", "kind", "names", "low", "high", "ends", "v")},
        "selected": encode_places(positions[each] for each in scatter.selected if each in positions),
        "load": scatter.load,
        "confirm_above": CONFIRM_ABOVE,
        "tells_focus": scatter.tells_focus,
    }  # fmt: skip


def read_selection(message: object, positions: Mapping[str, int]) -> tuple[list[str], str | None] | None:
    """Return the ids of the selected buildings, and that of the one clicked last or None; None if it makes no sense."""
    if not isinstance(message, Mapping) or not isinstance(message.get("places"), str):
        return None
    ids = list(positions)
    places, focus = decode_places(message["places"], len(ids)), message.get("focus")
    if places is None:
        return None
    one = ids[focus] if isinstance(focus, int) and 0 <= focus < len(ids) else None
    return [ids[place] for place in places], one


def store_selection(key: str, positions: Mapping[str, int]) -> None:
    """Store what the browser of component `key` selected; for a Streamlit callback."""
    message = (st.session_state.get(key) or {}).get("selection")
    found = read_selection(message, positions)
    st.session_state[f"{key}:heard"] = message.get("number") if isinstance(message, Mapping) else None
    if found is not None:
        st.session_state[f"{key}:selected"], st.session_state[f"{key}:focus"] = found


def dots(layout: Layout, run_id: str, what: str, by: str) -> bytes | None:
    """Return the numbers of all dots for the HTTP routes: positions ("pca", "umap"), or the values ("color") of coloring
    `by`.
    """
    if len(by) > _LONGEST_NAME:
        return None
    if what == "color":
        return values_for_browser(layout, run_id, by)
    kind: umap_picture.Kind | None = {"pca": "PCA", "umap": "UMAP"}.get(what)  # type: ignore[assignment]
    return None if kind is None else umap_picture.positions_for_browser(layout, run_id, kind)


# Sets of buildings as they travel: ascending places in the footprint file, as steps in base 36


def encode_places(places: Iterable[int]) -> str:
    """Write places in ascending order, as differences in base 36.

    >>> encode_places([40, 3])
    '3 11'
    """
    found = np.sort(np.fromiter(places, np.int64))
    return " ".join(map(_base36, np.diff(found, prepend=0).tolist()))


def encode_groups(kinds: Mapping[str, str], positions: Mapping[str, int]) -> dict[str, str]:
    """Write the places of the buildings of each kind; those without a place are left out.

    >>> encode_groups({"a": "1", "b": "2", "c": "1"}, {"a": 3, "b": 4, "c": 40})
    {'1': '3 11', '2': '4'}
    """
    places: dict[str, list[int]] = {}
    for building, kind in kinds.items():
        if building in positions:
            places.setdefault(kind, []).append(positions[building])
    return {kind: encode_places(each) for kind, each in places.items()}


def decode_places(text: str, n: int) -> list[int] | None:
    """Read what `encode_places` wrote; None if it makes no sense, or names a place that is not below `n`.

    >>> decode_places("3 11", 41)
    [3, 40]
    """
    try:
        found = list(accumulate(int(step, 36) for step in text.split()))
    except ValueError:
        return None
    is_ours = text.isascii() and text == text.lower()
    return found if is_ours and all(one < other for one, other in pairwise([-1, *found, n])) else None


@lru_cache(maxsize=10_000)
def _base36(number: int) -> str:
    return np.base_repr(number, 36).lower()
