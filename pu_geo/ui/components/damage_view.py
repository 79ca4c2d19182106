"""The damage view: a map and a chip wall in one Streamlit component, with one log of clicks between them.

Pictures, footprints and scores reach the browser over the routes of `pu_geo.ui.routes`; what goes through Streamlit's
websocket is small: which buildings are labelled, which queue comes next, how to draw. The browser shows a click at once,
keeps it in a numbered log and sends that log over HTTP until the server answers that it is stored; of the page it asks for
no more than another run and the next queue; see `frontend/src/oplog.js`.
"""

from __future__ import annotations

import logging
import sqlite3
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count, takewhile
from typing import Any

import streamlit as st

from pu_geo.errors import PuGeoError
from pu_geo.maps.damage_types import TypesOnMap
from pu_geo.records import Label
from pu_geo.store.labels import Moment
from pu_geo.store.queues import StoredQueue
from pu_geo.ui.components import texts
from pu_geo.ui.components.scatter import encode_groups, encode_places

_LOG = logging.getLogger(__name__)
_CODES: dict[Label, str] = {"positive": "1", "not_damaged": "2", "not_assessable": "3"}

MAP_COLORS = ("category", "scores", "uncertainty", "types")  # of the damage map

# The bundle comes over HTTP, once: a component's inline script is sent again whenever its data change.
_LOADER = """
export default async function (component) {
  try {
    const bundle = await import(new URL(component.data.module, document.baseURI).href);
    return bundle.default(component);
  } catch (error) {
    component.parentElement.textContent =
      "The map could not be loaded. Run `make app`, or `python -m pu_geo.ui.build`, then reload this page. (" +
      error.message + ")";
  }
}
"""


@dataclass(frozen=True)
class Flagging:
    """Makes the map a damage map: buildings in the categories of exports, and a slider that says how many are flagged.

    Attributes:
        basis: who or what set the threshold, for people.
        on_top: takes how many of the highest-ranked are to be flagged, called in a Streamlit callback, once a slider rests.
        on_color: takes "category", "scores", "uncertainty" or "types".
        types: damage types of the run; the map can be colored by them where there are some. Of a scale, a building is
            colored by the worst that it reaches.
    """

    basis: str
    on_top: Callable[[int], object]
    on_color: Callable[[str], object]
    types: TypesOnMap


def encode_flagging(flagging: Flagging, positions: Mapping[str, int]) -> dict[str, Any]:
    """Return what the browser draws of a damage map's threshold and types; buildings by position."""
    places = []
    for one in flagging.types.types:
        people, score = (
            encode_places(positions[each] for each in ids if each in positions) for ids in flagging.types.with_type(one)
        )
        places.append({"name": one.name, "named": one.n_named, "enough": one.is_enough, "people": people, "score": score})
    return {"basis": flagging.basis, "types": places, "scale": flagging.types.is_ordinal}


def take_flag(key: str, flagging: Flagging | None, score_id: str | None) -> None:
    """Pass to the page how many buildings are to be flagged, and store that it arrived; for a Streamlit callback.

    A number that was chosen on the ranking of other scores, before the map showed these, is none.
    """
    asked = (st.session_state.get(key) or {}).get("flag")
    if flagging is None or not isinstance(asked, Mapping):
        return
    top, st.session_state[f"{key}:flag"] = asked.get("top"), asked.get("n")
    if isinstance(top, int) and not isinstance(top, bool) and asked.get("of") == score_id:
        flagging.on_top(top)


def take_color(key: str, flagging: Flagging | None) -> None:
    """Pass to the page how the map is to be colored; for a Streamlit callback."""
    by = (st.session_state.get(key) or {}).get("map_color")
    if flagging is not None and by in MAP_COLORS:
        flagging.on_color(by)


def encode_labels(labels: Mapping[str, Label], positions: Mapping[str, int]) -> dict[str, str]:
    """Write labels shortly: for each label's code the ascending positions, as differences in base 36.

    >>> encode_labels({"a": "positive", "b": "cleared", "c": "positive"}, {"a": 3, "b": 4, "c": 40})
    {'1': '3 11'}
    """
    return encode_groups({building: _CODES[label] for building, label in labels.items() if label in _CODES}, positions)


def encode_details(details: Mapping[str, Mapping[str, Any]], positions: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Write details as shortly as labels: for each text the positions that have it; comments by position.

    >>> encode_details({"a": {"reason": "cloud", "by": "ann"}, "b": {"by": "ann", "comment": "hm"}}, {"a": 3, "b": 4})
    {'by': {'ann': '3 1'}, 'reason': {'cloud': '3'}, 'type': {}, 'no_type': {}, 'shown': {}, 'grade': {}, 'comment': {'4':
    'hm'}}
    """
    kinds: dict[int, tuple[Mapping[str, Any], list[int]]] = {}  # by the object, which equal answers may share
    for building, detail in details.items():
        if building in positions:
            kinds.setdefault(id(detail), (detail, []))[1].append(positions[building])
    found: dict[str, dict[str, list[int]]] = {name: {} for name in ("by", "reason", "type", "no_type", "shown", "grade")}
    comments = {}
    for detail, places in kinds.values():
        several = {"type": detail.get("damage_types", ()), "no_type": detail.get("absent_types", ())}
        for name, of_text in found.items():
            for text in several.get(name, [detail.get(name)]):
                if text:
                    of_text.setdefault(str(text), []).extend(places)
        if comment := detail.get("comment"):
            comments.update(dict.fromkeys(map(str, places), comment))
    encoded = {name: {text: encode_places(places) for text, places in each.items()} for name, each in found.items()}
    return {**encoded, "comment": comments}


Encoded = tuple[dict[str, str], dict[str, dict[str, str]]]


@st.cache_resource(max_entries=4, show_spinner=False)  # not copied for each page: nobody changes it
def labels_once(
    token: str,
    geometry_v: str,
    at: Moment,
    _labels: Mapping[str, Label],
    _details: Callable[[], Mapping[str, Mapping[str, Any]]],
    _positions: Mapping[str, int],
) -> Encoded:
    """Write labels and details for the browser, once for each label event: hundreds of thousands take a second.

    Args:
        token, geometry_v: name the project and the state of its footprints.
        at: names the labels; asked for before `_labels` and `_details` were read: they hold its event, and may hold more.
    """
    return encode_labels(_labels, _positions), encode_details(_details(), _positions)


def encode_queue(queue: StoredQueue, positions: Mapping[str, int], *, is_assessment: bool) -> dict[str, Any]:
    """Write a queue for the browser. An audit's item goes without its words: an answer must not hang on what the machine
    thinks.
    """
    items = [
        [positions[item.building_id], item.kind, "" if item.kind == "audit" else item.why]
        for item in queue.items
        if item.building_id in positions
    ]
    return {"id": queue.id, "items": items, "is_second": queue.is_second, "is_assessment": is_assessment}


_RUNS = count()


@cache
def renderer() -> Any:
    return st.components.v2.component("pu_geo.damage_view", js=_LOADER)


def answer(key: str) -> dict[str, Any]:
    """Return what became of the browser's last message to the page: {"ack"} if all is well, {"problem"} if not.

    "server" is another one after a restart of the server, which knows nothing of earlier messages; "run" rises with each
    call.
    """
    server = st.session_state.setdefault(f"{key}:server", uuid.uuid4().hex)
    return {"server": server, "run": next(_RUNS), "ack": None, "problem": None, **st.session_state.get(f"{key}:ack", {})}


def take_message(key: str, on_queue: Callable[[str], object] | None) -> None:
    """Do what the browser asks of the page: another run, and the next queue. Store the acknowledgement for that run.

    Labels come over HTTP alone: one that is among these operations, and all after it, are not acknowledged.
    """
    message = (st.session_state.get(key) or {}).get("operations")
    if not isinstance(message, Mapping):
        return
    ops = message.get("ops")
    found = ops if isinstance(ops, list) else []
    asked = list(takewhile(lambda op: isinstance(op, Mapping) and op.get("next") is True, found))
    try:
        for op in asked:
            if on_queue is not None:
                on_queue(str(op.get("queue")))
    except PuGeoError as error:
        st.session_state[f"{key}:ack"] = {"problem": f"{error.problem} {error.hint}"}
    except (OSError, sqlite3.Error) as error:
        _LOG.exception(texts.NO_QUEUE)
        st.session_state[f"{key}:ack"] = {"problem": texts.NOT_WRITTEN.format(error=error)}
    else:
        ack = {**{name: message.get(name) for name in ("session", "attempt")}, "n": asked[-1].get("n") if asked else 0}
        st.session_state[f"{key}:ack"] = {"ack": ack}
