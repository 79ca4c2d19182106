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
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import repeat, takewhile
from typing import Any, Literal, TypedDict

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from pu_geo.errors import PuGeoError
from pu_geo.project.labels import Moment
from pu_geo.project.queues import StoredQueue
from pu_geo.records import Label, Reason, Shown
from pu_geo.ui.components import texts
from pu_geo.ui.components.scatter import Scatter, encode_places, encode_scatter, store_selection
from pu_geo.ui.routes import PREFIX, bundle_url

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
      "The map could not be loaded. Run `make app`, or `python -m pu_geo.ui.build`, then reload this page. (" + error.message + ")";
  }
}
"""


@dataclass(frozen=True)
class Wall:
    """How the chips of a set lie on their sprite sheets; chip k shows building k of the footprint file.

    Attributes:
        chip_set: its id; sheets are read from `chips/<chip_set>.sheets/NNNN.jpg`.
        per_sheet, columns: chips on a sheet, and beside each other.
        cell_w, cell_h: pixels of one cell; with `has_pre` the pre chip is its upper half, the post chip its lower one.
        n, n_sheets: chips and sheets in all; the last sheet may be full or cut to its last row.
        v: changes when the pictures do.
    """

    chip_set: str
    per_sheet: int
    columns: int
    cell_w: int
    cell_h: int
    n: int
    n_sheets: int
    has_pre: bool = True
    v: str = ""


@dataclass(frozen=True)
class PresenceConfig:
    """Who sits at this browser. With it, the browser sends labels, undo and redo to `{PREFIX}/{token}/operations`, and asks
    `{PREFIX}/{token}/here` who else is here and what they answer.

    Attributes:
        analyst: the name that others read.
        event: number of the last event that `labels` hold. Read it before the labels: they may hold more, never less.
        color: "#rrggbb", in which others see this analyst.
    """

    analyst: str
    event: int
    color: str


@dataclass(frozen=True)
class TypeLayer:
    """The buildings with one damage type.

    Attributes:
        people, score: ids of those that a person gave it, and of those that have it by score alone.
        n_named: answers that name it.
        is_enough: whether that is enough to judge by scores.
    """

    name: str
    people: Sequence[str]
    score: Sequence[str]
    n_named: int
    is_enough: bool


@dataclass(frozen=True)
class Flagging:
    """Makes the map a damage map: buildings in the categories of exports, and a slider that says how many are flagged.

    Attributes:
        basis: who or what set the threshold, for people.
        on_top: takes how many of the highest-ranked are to be flagged, called in a Streamlit callback, once a slider rests.
        on_color: takes "category", "scores", "uncertainty" or "types".
        types: damage types of the run; the map can be colored by them where there are some.
        is_scale: whether these are a scale, the mildest first. A building is colored by the worst that it reaches.
    """

    basis: str
    on_top: Callable[[int], object]
    on_color: Callable[[str], object]
    types: Sequence[TypeLayer] = ()
    is_scale: bool = False


class Details(TypedDict, total=False):
    """What an answer holds beside its label; see `LabelOp`. `by` is whose it is."""

    reason: Reason
    damage_types: Sequence[str]
    absent_types: Sequence[str]
    comment: str
    by: str
    shown: Shown
    grade: str


def damage_view(
    *,
    key: str,
    token: str,
    grid_px: tuple[int, int],
    gsd_m: float,
    layers: Sequence[Mapping[str, Any]],
    geometry_v: str,
    labels: Mapping[str, Label] | EncodedLabels,
    positions: Mapping[str, int],
    on_queue: Callable[[str], object] | None = None,
    panes: Sequence[Literal["map", "wall"]] = ("map", "wall"),
    mode: Literal["label", "view"] = "view",
    score_id: str | None = None,
    score_name: str | None = None,
    threshold: float | None = None,
    color_by: Literal["labels", "scores", "category", "uncertainty", "types"] = "labels",
    wall: Wall | None = None,
    height: int | None = None,
    queue: StoredQueue | None = None,
    is_assessment: bool = False,
    types: Sequence[str] = (),
    details: Mapping[str, Details] | None = None,
    grades: Sequence[Mapping[str, object]] = (),
    conflicts: Collection[str] | None = None,
    here: PresenceConfig | None = None,
    imagery: Mapping[str, Any] | None = None,
    scatter: Scatter | None = None,
    flagging: Flagging | None = None,
    lonlat: Mapping[str, Any] | None = None,
    named: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Show buildings on a map and a chip wall, and take labels.

    Args:
        key: of the component, unique on the page; also names its entries in `st.session_state`.
        token: opaque id that the routes resolve to the project folder.
        grid_px: width and height of the project grid.
        gsd_m: metres on the ground per grid pixel.
        geometry_v: changes when the footprint file does; the browser keeps the file until then.
        labels: building id to label, or these and `details` from `labels_once`. Read them after Streamlit's callbacks ran, that is, in the body of the page.
        positions: building id to its place in the footprint file (and in every score array).
        on_queue: takes the id of a queue that is done; called in a Streamlit callback, so before the page runs, once the
            labels before it are stored. It may come again. Where it raises a `PuGeoError`, `OSError` or `sqlite3.Error`, the
            browser shows the problem and asks again.
        mode: "label" takes labels (and needs `here`); in "view" a click only selects, and the page does not run.
        score_id: names the scores that the score route sends; a new id for new numbers.
        score_name: whose scores these are, as people read it ("Live ranking"); a building may have others beside them.
        threshold: score from which on a building counts as flagged; below it scores are drawn faintly.
        color_by: a change by the page wins over the analyst's choice.
        height: pixels, of the whole view; None: down to the lower edge of the window, but not less than 420.
        queue: what to answer next, shown beside the map in "label" mode; None shows no queue. Once all of it is answered
            or skipped, or when the analyst asks for another one, `on_queue` gets its id; hand in the next one then.
        is_assessment: nothing but its buildings is on the map or can be labeled.
        types: damage types that the card of a positive offers.
        grades: the project's grades, each {"id", "name", "offered"}, the worst first; those that are offered have the keys from 4.
        details: building id to what its answer holds, for labelled buildings. Hand in `shown` too: a comment that is added
            to an audit's answer is the audit's answer still.
        conflicts: ids of buildings on which analysts disagree, for a filter of the wall; None offers no such filter.
        imagery: from `encode_image_quality`: what the imagery hides, and whether shifts can be shown as arrows.
        scatter: shows a scatter beside map and wall; a click selects then, also in "label" mode, and keys label what is
            selected. `{key}:selected` of `st.session_state` holds its ids, `{key}:focus` the building clicked last or None.
        flagging: makes it a damage map; takes `score_id` and `threshold`.
        lonlat: from `preparation.lonlat_nodes`; None shows no longitudes and latitudes.
        layers, named: from `preparation.map_layers` and `layer_tiles`; one of the latter can be laid over the imagery.
        here: who labels; shows who else is here, where they are and what they answer, without a run of the page.
    """
    sent = labels
    if not isinstance(sent, EncodedLabels):
        sent = EncodedLabels(encode_labels(sent, positions), encode_details(details or {}, positions))
    places = None if conflicts is None else encode_places(positions[each] for each in conflicts if each in positions)
    _renderer()(
        key=key,
        data={
            **_answer(key),
            "module": bundle_url(),
            "base": PREFIX,
            "token": token,
            "panes": list(panes),
            "mode": mode if here else "view",
            "grid": list(grid_px),
            "gsd_m": gsd_m,
            "layers": list(layers),
            "named": [
                {**layer, "missing": encode_places(positions[each] for each in layer["missing"] if each in positions)}
                for layer in named
            ],
            "geometry_v": geometry_v,
            "labels": sent.labels,
            "score_id": score_id,
            "score_name": score_name,
            "threshold": threshold,
            "color_by": color_by,
            "wall": asdict(wall) if wall else None,
            "height": height,
            "queue": encode_queue(queue, positions, is_assessment=is_assessment) if queue else None,
            "types": list(types),
            "grades": list(grades),
            "details": sent.details,
            "conflicts": places,
            "seen": imagery,
            "lonlat": lonlat,
            "scatter": {**encode_scatter(scatter, positions), "heard": st.session_state.get(f"{key}:heard")}
            if scatter
            else None,
            **({"here": asdict(here)} if here else {}),
            **(
                {"flagging": {**_flagging(flagging, positions), "stored": st.session_state.get(f"{key}:flag")}}
                if flagging
                else {}
            ),
        },
        on_operations_change=lambda: _take_message(key, on_queue),
        on_selection_change=lambda: store_selection(key, positions),
        on_flag_change=lambda: take_flag(key, flagging, score_id),
        on_map_color_change=lambda: take_color(key, flagging),
    )


def _flagging(flagging: Flagging, positions: Mapping[str, int]) -> dict[str, Any]:
    """Return what the browser draws of a damage map's threshold and types; buildings by position."""
    places = [
        {
            "name": one.name, "named": one.n_named, "enough": one.is_enough,
            **{kind: encode_places(positions[each] for each in ids if each in positions)
               for kind, ids in (("people", one.people), ("score", one.score))},
        }
        for one in flagging.types
    ]  # fmt: skip
    return {"basis": flagging.basis, "types": places, "scale": flagging.is_scale}


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
    places = _places_of(labels, positions)
    codes = np.fromiter(map(_CODES.get, labels.values(), repeat("0")), "U1", len(labels))
    codes[places < 0] = "0"
    return {code: encode_places(places[codes == code]) for code in _CODES.values() if (codes == code).any()}


def _places_of(buildings: Collection[str], positions: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the place of each building, int64 [M]; -1 where it has none."""
    return np.fromiter(map(positions.get, buildings, repeat(-1)), np.int64, len(buildings))


def encode_details(details: Mapping[str, Mapping[str, Any]], positions: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Write details as shortly as labels: for each text the positions that have it; comments by position.

    >>> encode_details({"a": {"reason": "cloud", "by": "ann"}, "b": {"by": "ann", "comment": "hm"}}, {"a": 3, "b": 4})
    {'by': {'ann': '3 1'}, 'reason': {'cloud': '3'}, 'type': {}, 'no_type': {}, 'shown': {}, 'grade': {}, 'comment': {'4': 'hm'}}
    """
    single = ("by", "reason", "shown", "grade")
    found: dict[str, dict[str, list[NDArray[np.int64]]]] = {
        "by": {}, "reason": {}, "type": {}, "no_type": {}, "shown": {}, "grade": {},
    }  # fmt: skip
    comments = {}
    places, every = _places_of(details, positions), list(details.values())
    # by the object, which equal answers may share
    _, first, kind = np.unique(np.fromiter(map(id, every), np.int64, len(every)), return_index=True, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    starts = np.searchsorted(kind[order], np.arange(len(first) + 1))
    for number, at in enumerate(first.tolist()):
        detail, rows = every[at], places[order[starts[number] : starts[number + 1]]]
        rows = rows[rows >= 0]
        if not len(rows):
            continue
        for name in single:
            if text := str(detail.get(name) or ""):
                found[name].setdefault(text, []).append(rows)
        for name, field in (("type", "damage_types"), ("no_type", "absent_types")):
            for text in detail.get(field, ()):
                found[name].setdefault(text, []).append(rows)
        if comment := detail.get("comment"):
            comments.update(dict.fromkeys(map(str, rows.tolist()), comment))
    encoded = {
        name: {text: encode_places(np.concatenate(rows)) for text, rows in texts.items()} for name, texts in found.items()
    }
    return {**encoded, "comment": comments}


@dataclass(frozen=True)
class EncodedLabels:
    """Labels and their details as they are sent, of one state of the label log and of the footprints."""

    labels: Mapping[str, str]
    details: Mapping[str, Mapping[str, str]]


_encoded: OrderedDict[tuple[str, str, Moment], EncodedLabels] = OrderedDict()  # the newest last
_MOST_ENCODED = 4


def labels_once(
    token: str, geometry_v: str, at: Moment, labels: Mapping[str, Label], details: Callable[[], Mapping[str, Mapping[str, Any]]],
    positions: Mapping[str, int],
) -> EncodedLabels:  # fmt: skip
    """Write labels and details for the browser, once for each label event: hundreds of thousands take a second.

    Args:
        token, geometry_v: name the project and the state of its footprints.
        at: names the labels; asked for before `labels` and `details` were read: they hold its event, and may hold more.
    """
    key = token, geometry_v, at
    if (found := _encoded.get(key)) is None:
        found = EncodedLabels(encode_labels(labels, positions), encode_details(details(), positions))
        _encoded[key] = found
        while len(_encoded) > _MOST_ENCODED:
            _encoded.popitem(last=False)
    return found


def encode_queue(queue: StoredQueue, positions: Mapping[str, int], *, is_assessment: bool) -> dict[str, Any]:
    """Write a queue for the browser. An audit's item goes without its words: an answer must not hang on what the machine thinks."""
    items = [
        [positions[item.building_id], item.kind, "" if item.kind == "audit" else item.why]
        for item in queue.items
        if item.building_id in positions
    ]
    return {"id": queue.id, "items": items, "is_second": queue.is_second, "is_assessment": is_assessment}


@cache
def _renderer() -> Any:
    return st.components.v2.component("pu_geo.damage_view", js=_LOADER)


def _answer(key: str) -> dict[str, Any]:
    """Return what became of the browser's last message to the page: {"ack"} if all is well, {"problem"} if not.

    "server" is another one after a restart of the server, which knows nothing of earlier messages.
    """
    server = st.session_state.setdefault(f"{key}:server", uuid.uuid4().hex)
    return {"server": server, "ack": None, "problem": None, **st.session_state.get(f"{key}:ack", {})}


def _take_message(key: str, on_queue: Callable[[str], object] | None) -> None:
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
