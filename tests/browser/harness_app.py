"""A small app around the damage view: labels in a dict, acknowledged at once. Run: python harness_app.py FOLDER PORT.

Launcher and page in one file, as app.py is. The page reads its mode from the address: ?mode=view, ?panes=map, ?queue=5 (a
queue of five), ?conflicts=1, ?seen=1 (what the imagery hides, and shifts), ?here=bob (who sits there; with ?here= nobody does, and nothing can be labeled).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit import runtime

TOKEN = "harness-1"
KINDS = ("exploit", "audit", "explore")
HOSTILE = "<img src=x onerror=window.hit=1>"
SWITCHES = ("refuse", "similar", "here", "stay", "stale", "slow", "wrong")  # how the server misbehaves, set by /harness/set
COLORS = ("#e69f00", "#56b4e9", "#009e73")
SEEN = {
    "reasons": {"cloud": "2s", "nodata": "2t"},  # buildings 100 and 101
    "candidates": {"misaligned": "2u", "cloud": "2v"},  # 102 and 103
    "shifts": {"v": "1", "m_per_px": [0.5, -0.5]},
}
TYPES = ("roof", "walls", "<script>window.hit = 1</script>")


@st.cache_resource
def server() -> dict:
    """What a project would keep on disk; one for all tabs."""
    lists = {name: [] for name in ("acts", "undone", "log", "sets", "wishes", "changes", "asked", "runs")}
    return {
        "labels": {},
        "details": {},
        "seen": set(),
        "places": {},
        "lock": threading.Lock(),
        **lists,
        **dict.fromkeys(SWITCHES, ""),
    }


def refuse() -> None:
    from pu_geo.errors import PuGeoError

    if server()["refuse"] == "disk":
        raise PuGeoError("The disk is full.", "Make room.")
    if server()["refuse"] == "lock":
        raise PuGeoError("project.gpkg could not be read or written: database is locked.", "Try again.")


def next_wanted(done: str) -> None:
    """Hand in another queue, once a queue; what was skipped stands in the message alone."""
    refuse()
    kept = server()
    for asked in st.session_state["view"]["operations"]["ops"]:
        if asked["op"] not in kept["seen"]:
            kept["seen"].add(asked["op"])
            kept["log"].append(asked["op"])
            if done == queue_id(kept) and not kept["stay"]:
                kept["wishes"].append(asked["skipped"])


def apply(operations: list, analyst: str) -> None:
    refuse()
    kept = server()
    with kept["lock"]:
        for operation in operations:
            if operation.op in kept["seen"]:
                continue
            kept["seen"].add(operation.op)
            kept["log"].append(operation.op)
            kept["sets"] += [] if operation.step else [operation]
            before = {each: (label, kept["details"].get(each)) for each, label in kept["labels"].items()}
            step(kept, operation)
            now = {each: (label, kept["details"].get(each)) for each, label in kept["labels"].items()}
            kept["changes"] += [(each, analyst) for each in now if now[each] != before.get(each)]  # event k is the k-th


def clicks(token: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Take operations over HTTP, as `labeling.store_operations` does; with "wrong" set, refuse them for good."""
    from pu_geo.records import LabelOp

    if token != TOKEN:
        return None
    kept = server()
    operations = [LabelOp.from_json(entry) for entry in message["ops"]]
    refused = {"problem": kept["wrong"], "hint": "Reload the page."} if kept["wrong"] else None
    apply([] if refused else operations, message["analyst"])
    return {"session": message["session"], "n": message["ops"][-1]["n"], "event": len(kept["changes"]), "refused": refused}


def step(kept: dict, operation) -> None:
    acts, undone = kept["acts"], kept["undone"]
    if not operation.step:
        change = (operation.building_id, answer(kept, operation.building_id), (operation.label, details_of(operation)))
        if acts and operation.act and acts[-1][0] == operation.act:
            acts[-1][1].append(change)
        else:
            acts.append((operation.act or operation.op, [change]))
        undone.clear()
        put(kept, change[0], change[2])
    elif operation.step == "undo" and acts:
        undone.append(acts.pop())
        for building_id, before, _ in reversed(undone[-1][1]):
            put(kept, building_id, before)
    elif operation.step == "redo" and undone:
        acts.append(undone.pop())
        for building_id, _, after in acts[-1][1]:
            put(kept, building_id, after)


def details_of(operation) -> dict:
    names = ("reason", "damage_types", "comment", "shown")
    return {"by": "ann", **{name: getattr(operation, name) for name in names if getattr(operation, name)}}


def answer(kept: dict, building_id: str) -> tuple[str, dict]:
    return kept["labels"].get(building_id, "cleared"), kept["details"].get(building_id, {})


def put(kept: dict, building_id: str, given: tuple[str, dict]) -> None:
    kept["labels"][building_id], kept["details"][building_id] = given


def queue_id(kept: dict) -> str:
    return f"queue-{len(kept['wishes'])}"


def next_queue(kept: dict, n: int, of: int):
    """Return every 7th building of those that no earlier queue held; scores stand in the words, as they may."""
    from pu_geo.ui.components.damage_view import Queue, QueueItem

    first = 3 + 7 * n * len(kept["wishes"])
    items = [QueueItem((first + 7 * k) % of, KINDS[k % 3], f"score 0.9, no. {k} <b>") for k in range(n)]
    return Queue(queue_id(kept), items)


def set_labels(labels: dict) -> dict:
    return {each: label for each, label in labels.items() if label != "cleared"}


def page() -> None:
    from pu_geo.ui.components.damage_view import MapLayer, PresenceConfig, Wall, damage_view

    server()["runs"].append(time.time())
    time.sleep(float(server()["slow"] or 0))
    st.set_page_config(layout="wide", page_title="PU-Geo harness")
    # Less air around the view, so that screenshots show what the app's page will show.
    st.html("<style>.stMainBlockContainer{padding:2.5rem 1rem 0}</style>")
    folder = Path(sys.argv[1])
    facts = json.loads((folder / "facts.json").read_text())
    ask = st.query_params
    who = ask.get("here", "ann")
    layers = [MapLayer(name, facts["max_zoom"], "1") for name in ("pre", "post")]
    if st.toggle("Elsewhere"):
        return
    event = 0 if server()["stale"] else len(server()["changes"])
    damage_view(
        key="view",
        token=TOKEN,
        grid_px=tuple(facts["grid"]),
        gsd_m=0.5,
        layers=layers,
        geometry_v="1",
        labels={} if server()["stale"] else server()["labels"],
        positions=positions(folder),
        on_queue=next_wanted,
        panes=ask.get("panes", "map,wall").split(","),
        mode=ask.get("mode", "label"),
        score_id="s1" if ask.get("scores", "1") == "1" else None,
        color_by=ask.get("color", "labels"),
        threshold=0.6 if ask.get("mode") == "view" else None,
        wall=Wall(**facts["wall"]),
        height=800,
        types=TYPES,
        details={each: said for each, said in server()["details"].items() if server()["labels"].get(each) != "cleared"},
        seen=SEEN if "seen" in ask else None,
        conflicts=["b00002", "b00005"] if "conflicts" in ask else None,
        queue=next_queue(server(), int(ask["queue"]), facts["wall"]["n"]) if "queue" in ask else None,
        here=PresenceConfig(who, event, COLORS[0]) if who else None,
    )


@st.cache_data
def positions(folder: Path) -> dict[str, int]:
    ids = json.loads((folder / "quicklooks" / "footprints.json").read_text())["ids"]
    return {building_id: at for at, building_id in enumerate(ids)}


def told(_: Request) -> JSONResponse:
    kept = server()
    named = set_labels(kept["labels"])
    return JSONResponse(
        {
            "labels": named,
            "operations": kept["log"],
            "sets": [asdict(operation) for operation in kept["sets"]],
            "details": {each: said for each, said in kept["details"].items() if each in named},
            "wishes": kept["wishes"],
            "asked": kept["asked"],
            "runs": kept["runs"],
        }
    )


async def here(request: Request) -> Response:
    """Who else is here, and what others changed after the event that the browser knows."""
    kept = server()
    said = await request.json()
    kept["asked"].append(said)
    if kept["here"] == "gone":
        return Response("Not found", 404)
    session, analyst = said["session"], said["analyst"]
    kept["places"][session] = {"name": analyst, "building": said["building"], "seconds": 0}
    others = [each for key, each in kept["places"].items() if key != session]
    last = dict(kept["changes"][said["since"] :])
    return JSONResponse(
        {
            "event": len(kept["changes"]),
            "labels": {each: kept["labels"][each] for each, by in last.items() if by != analyst},
            "others": [{**each, "color": COLORS[at % 3]} for at, each in enumerate(others)],
        }
    )


def change(request: Request) -> JSONResponse:
    kept = server()
    for name in SWITCHES:
        kept[name] = request.query_params.get(name, "")
    if request.query_params.get("reset"):
        for name in (
            "labels",
            "details",
            "seen",
            "acts",
            "undone",
            "log",
            "sets",
            "wishes",
            "changes",
            "asked",
            "places",
            "runs",
        ):
            kept[name].clear()
    for building_id, label in json.loads(request.query_params.get("put", "{}")).items():
        kept["labels"][building_id] = label
        kept["changes"].append((building_id, request.query_params["by"]))
    for at in range(int(request.query_params.get("labelled", 0))):
        kept["labels"][f"b{3 * at:05d}"] = ("positive", "not_damaged", "not_assessable")[at % 3]
    return JSONResponse({"at": time.time()})


def similar(request: Request) -> Response:
    """How far chips are from chip i: by their numbers, and the last one nobody knows."""
    if not server()["similar"]:
        return Response("Not found", 404)
    n = int(server()["similar"])
    away = np.abs(np.arange(n) - request.path_params["i"]).astype("<f4")
    away[-1] = np.nan
    return Response(away.tobytes(), media_type="application/octet-stream")


def story(token: str, place: int) -> dict:
    """A made-up story with names out of a hostile file."""
    said = {
        "at": "2026-01-02T03:04:05.000Z",
        "analyst": HOSTILE,
        "label": "positive",
        "reason": "",
        "comment": HOSTILE,
        "kind": "set",
    }
    run = {"run_id": "ranker-1", "method": "ranker", "score": 0.875, "rank": 12, "n": 3000}
    return {
        "building_id": str(place), "area_m2": 100.0, "attributes": {"roof": HOSTILE, "storeys": 2}, "events": [said],
        "runs": [run], "alike": [place + 1, place + 2], "before": [{"round": 1, "label": None, "damage_binary": "not_flagged"}],
    }  # fmt: skip


def shifts(folder: Path) -> bytes:
    """Pre must move 3 m to the east and 4 m to the south; the farther right a building lies, the surer.

    Building 102 could not be aligned, and one date does not show building 104.
    """
    shapes = json.loads((folder / "quicklooks" / "footprints.json").read_text())["rings"]
    across = np.array([np.mean(rings[0][::2]) for rings in shapes])
    cm = np.tile(np.array([300, -400], "<i2"), (len(shapes), 1))
    quality = np.rint(100 * across / across.max()).astype(np.uint8)
    cm[104], quality[[102, 104]] = -32768, 0
    return cm.tobytes() + quality.tobytes()


def main() -> None:
    from pu_geo.ui.routes import PREFIX, routes

    folder = Path(sys.argv[1])
    scores = np.load(folder / "scores.npy").astype("<f4").tobytes()
    extra = [
        Route("/harness/labels", told),
        Route("/harness/set", change),
        Route(PREFIX + "/{token}/similar/{i:int}.f32", similar),
        Route(PREFIX + "/{token}/here", here, methods=["POST"]),
    ]
    own = routes(
        lambda token: folder if token == TOKEN else None,
        lambda token, score_id: scores if score_id == "s1" else None,
        clicks=clicks,
        story=story,
        shifts=lambda token: shifts(folder) if token == TOKEN else None,
    )
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app = st.App(__file__, routes=[*extra, *own], middleware=[hosts])
    app.run(
        config={
            "server.address": "127.0.0.1",
            "server.port": int(sys.argv[2]),
            "server.headless": True,
            "server.allowedHosts": ["127.0.0.1", "localhost"],
            "server.fileWatcherType": "none",
            "server.enableXsrfProtection": True,
            "server.enableCORS": True,
            "browser.gatherUsageStats": False,
            "browser.serverAddress": "127.0.0.1",
            "client.showErrorDetails": "none",
            "client.toolbarMode": "minimal",
        }
    )


if __name__ == "__main__":
    if runtime.exists():
        page()
    else:
        main()
