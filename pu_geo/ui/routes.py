"""HTTP routes for the browser component: map tiles, footprints, scores, exported versions, and the bundle
itself.

Only files whose names are put together here from checked parts are sent, and only from inside the project folder that the
token stands for. The routes have no login of their own: `guard.py` lets in only browsers that opened the app's address.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.convertors import Convertor, IntegerConvertor, StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from pu_geo import jobs
from pu_geo.answers import building_history, labeling, presence, ranking
from pu_geo.errors import OutOfReach, PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.maps import exporting
from pu_geo.runs import models
from pu_geo.scenes import image_quality, outlines
from pu_geo.store.layout import Layout
from pu_geo.training.model_files import SUFFIX
from pu_geo.ui import texts
from pu_geo.ui.components import scatter

PREFIX = "/pugeo"
BUNDLE = Path(__file__).parent / "frontend" / "dist" / "damage_view.js"
_SLOWEST_MESSAGE_S = 15.0
_AT_ONCE = 4  # messages of one kind that are stored or read at the same time; further ones wait, and map tiles do not
_NEVER_KEPT = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LAST = {
    **_NEVER_KEPT,
    "Connection": "close",
}  # the rest of a message that was not read to its end would be taken for the next
# A report is shown as a page of its own: it may neither run scripts, load anything, nor reach what else this server has.
_SANDBOX = "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"

Found = bytes | Path | Mapping[str, Any] | Response | None
Sender = Callable[..., Found]
"""From a project, the query of the address and the parts of its path to what is sent: a file, numbers, JSON, or None where
there is nothing.
"""


class _Text(StringConvertor):
    """A part of an address that one expression describes."""

    def __init__(self, regex: str) -> None:
        self.regex = regex  # type: ignore[misc]


class _Count(IntegerConvertor):
    """A number in an address. Python refuses to read one of thousands of digits, so longer ones are no address of ours."""

    regex = "[0-9]{1,8}"


_PARTS: dict[str, Convertor[Any]] = {
    "token": _Text("[A-Za-z0-9_-]{1,80}"),
    "word": _Text("[a-z0-9_-]{1,64}"),
    "layer": _Text("(?:pre|post|layers/[a-z0-9_-]{1,64})"),
    "count": _Count(),
}


def _file(layout: Layout, *parts: str) -> Path | None:
    path = layout.path(*parts)
    return path if path.is_file() and os.access(path, os.R_OK) else None


def _tile(layout: Layout, _: Mapping[str, str], layer: str, z: int, x: int, y: int) -> Found:
    found = _file(layout, "quicklooks", layer, str(z), str(x), f"{y}.jpg")
    if found is not None or not _file(layout, "quicklooks", layer, "pyramid.json"):
        return found
    return Response(status_code=204)  # not a project or pyramid that is gone: there is no data here


def _version(layout: Layout, query: Mapping[str, str], version: str, name: str) -> Found:
    """Send a file of an exported version: the report to be read, all else to be kept."""
    path = exporting.version_file(layout, version, name)
    if path is None:
        return None
    if path.suffix == ".html" and "download" not in query:
        return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": _SANDBOX})
    return FileResponse(path, media_type="application/octet-stream", filename=f"{version}_{name}")


def _version_zip(layout: Layout, _: Mapping[str, str], version: str) -> Found:
    with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
        path = Path(file.name)
    is_whole = False
    try:
        is_whole = exporting.write_zip(layout, version, path)
    finally:
        if not is_whole:
            path.unlink(missing_ok=True)
    gone, name = BackgroundTask(path.unlink, missing_ok=True), f"damage_map_{version}.zip"
    return FileResponse(path, filename=name, headers=_NEVER_KEPT, background=gone) if is_whole else None


def _log(layout: Layout, _: Mapping[str, str], job_id: str) -> Found:
    folder = jobs.folder_of(layout, job_id)
    return _kept("\n".join([*jobs.event_lines(folder), jobs.worker_log(folder)]), f"{job_id}.log")


def _kept(content: bytes | str, name: str) -> Response:
    """Send a file that a browser keeps under a name."""
    headers = {**_NEVER_KEPT, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


IN_ORDER: dict[str, Sender] = {
    "outlines.bin": lambda layout, _: outlines.first_part(layout),
    "scores/{score_id:word}.bin": lambda layout, _, score_id: ranking.scores_for_browser(layout, score_id),
    "similar/{building:count}.f32": lambda layout, _, place: ranking.scores_for_browser(layout, f"like-{place}"),
    "shifts.bin": lambda layout, _: image_quality.shifts_for_browser(layout),
    "dots/{source:word}/{what:word}.bin": lambda layout, query, source, what: scatter.dots(
        layout, source, what, query.get("by", "")
    ),
    "story/{building:count}.json": lambda layout, _, place: building_history.building_history(layout, place),
}
"""What is in the order of the footprints. It is refused where they are not those that `g` in the address names, see
`ranking.geometry_v`.
"""
SENT: dict[str, Sender] = {
    "tiles/{layer:layer}/{z:count}/{x:count}/{y:count}.jpg": _tile,
    "outlines/{name:word}/{n:count}.bin": lambda layout, _, name, n: outlines.tile(layout, name, n),
    "exports/{version:word}.zip": _version_zip,
    "exports/{version:word}/{name}": _version,
    "jobs/{job_id:word}.log": _log,
    "models/{run_id:word}": lambda layout, _, run_id: _kept(models.model_file(layout, run_id), f"{run_id}{SUFFIX}"),
}
"""What else is sent of a project, by its address."""
Answer = Callable[[Layout, Mapping[str, Any]], Mapping[str, Any] | None]
ANSWERED: dict[str, tuple[Answer, int]] = {
    "here": (presence.exchange, 2_000),
    "operations": (labeling.store_operations, 2_000_000),
}
"""What answers a browser's messages, and how many bytes one may have; `posts.js` sends more in several."""


def routes() -> list[Route]:
    """Build the routes that `st.App(routes=...)` takes."""
    for name, part in _PARTS.items():
        register_url_convertor(name, part)
    project = PREFIX + "/{token:token}/"
    return [
        Route(PREFIX + "/assets/damage_view.js", _bundle),
        *(Route(project + address, _sending(send, is_in_order=True)) for address, send in IN_ORDER.items()),
        *(Route(project + address, _sending(send, is_in_order=False)) for address, send in SENT.items()),
        *(Route(project + address, _answering(*by), methods=["POST"]) for address, by in ANSWERED.items()),
        Route(PREFIX + "/{rest:path}", lambda _: _nothing()),  # else Streamlit would answer with its page
    ]


def _sending(send: Sender, *, is_in_order: bool) -> Callable[[Request], Response]:
    """Make a route that sends something of a project. No coroutine: Starlette runs it in a thread, so a slow disk holds up
    nobody.

    It answers 404 where there is nothing, or a link leads elsewhere; 503 where the project is held by another program, is
    damaged, or has lost a file; and 409 where the footprints are not those of the address, or change meanwhile. An address
    without `g` is answered, and kept by nobody.
    """

    def answer(request: Request, layout: Layout, parts: list[Any]) -> Response:
        named = request.query_params.get("g")
        before = ranking.geometry_v(layout) if is_in_order else named
        if named in (None, before):
            found = send(layout, request.query_params, *parts)
            if not is_in_order or ranking.geometry_v(layout) == before:
                return _response(request, found, is_kept=not is_in_order or named is not None)
        return _words(texts.FOOTPRINTS_CHANGED, 409)

    def respond(request: Request) -> Response:
        token, *parts = request.path_params.values()
        try:
            layout = projects.resolve(token)
            return _nothing() if layout is None else answer(request, layout, parts)
        except (OutOfReach, FileNotFoundError):
            return _nothing()
        except PuGeoError as error:
            return _words(f"{error.problem} {error.hint}", 503)
        except OSError as error:
            return _words(texts.NOT_MADE.format(why=error.strerror or error), 503)

    return respond


def _response(request: Request, found: Found, *, is_kept: bool) -> Response:
    if found is None:
        return _nothing()
    headers = _headers(request) if is_kept else {**_headers(request), "Cache-Control": _NEVER_KEPT["Cache-Control"]}
    if isinstance(found, Response):
        for name, value in headers.items():
            found.headers.setdefault(name, value)
        return found
    if isinstance(found, Path):
        return FileResponse(found, media_type="image/jpeg", headers=headers)
    if isinstance(found, bytes):  # as it is: the server would take seconds to compress 30 MB for a browser on this machine
        return Response(found, media_type="application/octet-stream", headers={**headers, "Content-Encoding": "identity"})
    return _json(found, headers)


def _answering(answer: Answer, longest: int) -> Callable[[Request], Awaitable[Response]]:
    """Make a route that takes JSON and answers in JSON; another site's page may not ask, for it cannot send JSON here.

    Messages are read and answered by few threads of their own: while another program holds a project's file, they wait, and
    those that send map tiles do not.
    """
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="messages")

    def respond(token: str, body: bytes) -> Response:
        try:
            message, layout = json.loads(body), projects.resolve(token)
        except (ValueError, RecursionError):
            return _nothing()
        if layout is None or not isinstance(message, dict):
            return _nothing()
        try:
            found = answer(layout, message)
            return _nothing() if found is None else _json(found, _NEVER_KEPT)
        except PuGeoError as error:
            return _json({"problem": error.problem, "hint": error.hint}, _NEVER_KEPT, 503)

    async def receive(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _nothing()
        try:
            async with asyncio.timeout(_SLOWEST_MESSAGE_S):
                body = await _body(request, longest)
        except TimeoutError:
            words = {"problem": texts.TOO_SLOW.format(seconds=_SLOWEST_MESSAGE_S), "hint": texts.SENT_AGAIN}
            return _json(words, _LAST, 408)
        except ClientDisconnect:
            return _nothing()  # nobody reads it
        if body is None:
            return _json({"problem": texts.TOO_LONG.format(most=longest), "hint": texts.SHORTER}, _NEVER_KEPT, 413)
        token = request.path_params["token"]
        return await asyncio.get_running_loop().run_in_executor(threads, respond, token, body)

    return receive


async def _body(request: Request, longest: int) -> bytes | None:
    """Return what is sent; None if it is longer than `longest` bytes, whatever its header claims.

    The rest of a longer one is read and dropped: a browser hears no answer while it is still sending.
    """
    body, n_bytes = bytearray(), 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes <= longest:
            body += chunk
    return bytes(body) if n_bytes <= longest else None


def _bundle(request: Request) -> Response:
    if not BUNDLE.is_file():
        return _nothing()
    return FileResponse(BUNDLE, media_type="text/javascript", headers=_headers(request))


def bundle_url() -> str:
    """Return the address of the JavaScript bundle; its hash is in it, so that browsers keep it until it changes."""
    changed = BUNDLE.stat().st_mtime_ns if BUNDLE.is_file() else 0
    return f"{PREFIX}/assets/damage_view.js?v={_hash(changed)}"


@cache
def _hash(changed: int) -> str:
    return hashlib.sha256(BUNDLE.read_bytes()).hexdigest()[:16] if changed else "missing"


def _headers(request: Request) -> dict[str, str]:
    forever = "private, max-age=31536000, immutable"
    return {
        "Cache-Control": forever if request.query_params.get("v") else "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def _json(found: Mapping[str, Any], headers: Mapping[str, str], status: int = 200) -> Response:
    return Response(json.dumps(found), status, media_type="application/json", headers=headers)


def _words(words: str, status: int) -> Response:
    return Response(words, status, media_type="text/plain", headers=_NEVER_KEPT)


def _nothing() -> Response:
    return _words("Not found", 404)
