"""The scatter beside map and wall, and the selection that the browser sends; sets of buildings travel as places.

Positions and values of all buildings reach the browser as bytes over the routes; here go their addresses, the words of the
legend, and the selection as places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import streamlit as st

from pu_geo.explore import looks
from pu_geo.explore.coloring import Coloring, values_for_browser
from pu_geo.explore.looks import Region
from pu_geo.explore.questions import Asked
from pu_geo.store.layout import Layout

CONFIRM_ABOVE = 20  # labels for more buildings at once are asked for twice
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Scatter:
    """A picture of all buildings in the plane.

    Attributes:
        source: what it shows, see `explore.looks`.
        v: see `looks.plane_v`; "" before there is a picture.
        regions: for the thumbnails that stand for them.
        outline: rings around a chosen cluster, in the plane.
        selected: buildings that are selected to begin with, or once `load` is another one.
        load: changes where `selected` shall replace what is selected in the browser.
        asked: what fills the wall; None for all buildings.
        is_waiting, progress: whether the picture is on its way, and how far it is, in words.
    """

    source: str
    v: str
    coloring: Coloring
    title: str = ""
    regions: Sequence[Region] = ()
    outline: Sequence[Sequence[tuple[float, float]]] = ()
    selected: Sequence[str] = ()
    load: str = ""
    asked: Asked | None = None
    is_waiting: bool = False
    progress: str = ""


_OF_COLOR = ("by", "title", "kind", "names", "low", "high", "ends", "v", "steps")
_AS_IS = ("source", "title", "v", "load", "is_waiting", "progress")


def encode_scatter(scatter: Scatter, positions: Mapping[str, int]) -> dict[str, Any]:
    """Write a scatter for the browser, without the numbers of its dots."""
    return {
        **{name: getattr(scatter, name) for name in _AS_IS},
        "color": {name: getattr(scatter.coloring, name) for name in _OF_COLOR},
        "regions": [
            {name: getattr(one, name) for name in ("place", "n", "clicks", "words", "x", "y")} for one in scatter.regions
        ],
        "outline": scatter.outline or None,
        "selected": encode_places(positions[each] for each in scatter.selected if each in positions),
        "confirm_above": CONFIRM_ABOVE,
        "asked": None if scatter.asked is None else _encode_asked(scatter.asked, positions),
    }


def _encode_asked(asked: Asked, positions: Mapping[str, int]) -> dict[str, Any]:
    there = [(positions[one], note) for one, note in zip(asked.ids, asked.notes, strict=True) if one in positions]
    places, notes = [place for place, _ in there], [note for _, note in there]
    v = hashlib.sha256(repr((asked.title, places)).encode()).hexdigest()[:12]
    return {"v": v, "title": asked.title, "places": places, "notes": notes, "shown": asked.shown}


def read_selection(message: object, positions: Mapping[str, int]) -> list[str] | None:
    """Return the ids of the selected buildings; None if the message makes no sense."""
    if not isinstance(message, Mapping) or not isinstance(message.get("places"), str):
        return None
    ids = list(positions)
    places = decode_places(message["places"], len(ids))
    return None if places is None else [ids[place] for place in places]


def store_selection(key: str, positions: Mapping[str, int]) -> None:
    """Store what the browser of component `key` selected; for a Streamlit callback."""
    message = (st.session_state.get(key) or {}).get("selection")
    found = read_selection(message, positions)
    st.session_state[f"{key}:heard"] = message.get("number") if isinstance(message, Mapping) else None
    if found is not None:
        st.session_state[f"{key}:selected"] = found


def dots(layout: Layout, source: str, what: str, by: str) -> bytes | None:
    """Return the numbers of all dots for the HTTP routes: positions ("plane"), or the values ("color") of coloring `by`."""
    if len(by) > _LONGEST_NAME:
        return None
    if what == "color":
        return values_for_browser(layout, source, by)
    return looks.positions_for_browser(layout, source) if what == "plane" else None


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
