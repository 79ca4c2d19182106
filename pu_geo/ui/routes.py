"""HTTP routes for the browser component: map tiles, footprints, chip sheets, scores, exported versions, and the bundle itself.

Only files whose names are put together here from checked parts are sent, and only from inside the project folder that the
token stands for. The routes have no login of their own: `guard.py` lets in only browsers that opened the app's address.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from pu_geo.errors import PuGeoError
from pu_geo.ui import texts

PREFIX = "/pugeo"
BUNDLE = Path(__file__).parent / "frontend" / "dist" / "damage_view.js"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ID = re.compile(r"[a-z0-9_-]{1,64}")
_LAYERS = ("pre", "post")
_HIGHEST = 10**7  # of tile and sheet numbers
_LONGEST_HERE, _LONGEST_OPERATIONS = 2_000, 2_000_000  # bytes; `posts.js` sends more in several messages
_SLOWEST_MESSAGE_S = 15.0
_AT_ONCE = 4  # messages of one kind that are stored or read at the same time; further ones wait, and map tiles do not
_NOT_PACKED = "The files cannot be packed: {why}. Make room on this machine's disk, or copy them from the project's folder."
_NEVER_KEPT = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LAST = {
    **_NEVER_KEPT,
    "Connection": "close",
}  # the rest of a message that was not read to its end would be taken for the next
# A report is shown as a page of its own: it may neither run scripts, load anything, nor reach what else this server has.
_SANDBOX = "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


@dataclass(frozen=True)
class Download:
    """What a button downloads. `make` returns it."""

    make: Callable[[], bytes | str]
    file_name: str
    media_type: str


Answering = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


def routes(
    resolve: Callable[[str], Path | None],
    scores: Callable[[str, str], bytes | None],
    others_here: Answering | None = None,
    operations: Answering | None = None,
    building_history: Callable[[str, int], Mapping[str, Any] | None] | None = None,
    shifts: Callable[[str], bytes | None] | None = None,
    dots: Callable[[str, str, str, str], bytes | None] | None = None,
    version_file: Callable[[str, str, str], Path | None] | None = None,
    write_zip: Callable[[str, str, Path], object] | None = None,
    geometry_v: Callable[[str], str | None] | None = None,
    downloads: Callable[[str], Download | None] | None = None,
    outlines: Callable[[str], bytes | None] | None = None,
    outline_tile: Callable[[str, str, int], bytes | None] | None = None,
) -> list[Route]:
    """Build the routes that `st.App(routes=...)` takes.

    All are called in worker threads, and return None for a token that nobody handed out and for what does not exist.

    Args:
        resolve: token to project folder.
        scores: (token, score_id) to little-endian float32 bytes, one number a building of the footprint file, NaN where
            there is none. "like-7" asks how far each one is from building 7 of that file.
        others_here: (token, where a browser is) to what it does not know yet; see `services.annotate.presence`.
        operations: (token, operations of a browser) to how far they are stored; see `labeling.store_operations`. Raises
            PuGeoError where they cannot be stored now.
        building_history: (token, place of a building) to what is known of it.
        shifts: token to the shifts of all buildings, see `image_quality.shifts_for_browser`.
        dots: (token, run, what, by) to numbers of the dots of a scatter, see `components.scatter`.
        version_file: (token, version, name) to the file of an exported version, see `exporting.version_file`.
        write_zip: (token, version, file to write); see `exporting.write_zip`.
        geometry_v: token to the name of the footprints' state, see `ranking.geometry_v`. What is sent in their order is asked for with it,
            `g` in the address, and refused once it is another.
        downloads: name of a button to what it downloads, see `components.download`.
        outlines: token to what the map needs of all buildings before it fetches outlines, see `annotate.outlines`.
        outline_tile: (token, hash of all outlines, number) to a map tile of outlines.
    """
    sent = _Sender(
        resolve, scores, shifts, building_history, dots, version_file, write_zip, geometry_v, outlines, outline_tile
    )
    project = PREFIX + "/{token}"
    register_url_convertor("count", _Count())
    return [
        Route(PREFIX + "/assets/damage_view.js", _bundle),
        Route(PREFIX + "/downloads/{name}", _download(downloads)),
        Route(project + "/tiles/{layer}/{z:count}/{x:count}/{y:count}.jpg", sent.tile),
        Route(project + "/tiles/layers/{name}/{z:count}/{x:count}/{y:count}.jpg", sent.layer_tile),
        Route(project + "/outlines.bin", sent.outlines),
        Route(project + "/outlines/{name}/{n:count}.bin", sent.outline_tile),
        Route(project + "/sheets/{chip_set}/{n:count}.jpg", sent.sheet),
        Route(project + "/scores/{score_id}.bin", sent.scores),
        Route(project + "/shifts.bin", sent.shifts),
        Route(project + "/dots/{run_id}/{what}.bin", sent.dots),
        Route(project + "/exports/{version}.zip", sent.version_zip),
        Route(project + "/exports/{version}/{name}", sent.version),
        Route(project + "/similar/{building:count}.f32", sent.similar),
        Route(project + "/story/{building:count}.json", sent.history),
        Route(project + "/here", _answering(others_here, _LONGEST_HERE), methods=["POST"]),
        Route(project + "/operations", _answering(operations, _LONGEST_OPERATIONS), methods=["POST"]),
        Route(PREFIX + "/{rest:path}", _unknown),  # else Streamlit would answer with its page
    ]


def _or_not_now(respond: Callable[[_Sender, Request], Response]) -> Callable[[_Sender, Request], Response]:
    """Make a route answer 503 where the project is held by another program, is damaged, or has lost a file."""

    @wraps(respond)
    def answer(sender: _Sender, request: Request) -> Response:
        try:
            return respond(sender, request)
        except PuGeoError as error:
            return Response(f"{error.problem} {error.hint}", 503, media_type="text/plain", headers=_NEVER_KEPT)

    return answer


def _in_footprint_order(respond: Callable[[_Sender, Request], Response]) -> Callable[[_Sender, Request], Response]:
    """Make a route answer 409 where the footprints are not those of the address, or change meanwhile: their order may be another.

    An address without `g` is answered, and no browser keeps the answer.
    """

    @wraps(respond)
    def answer(sender: _Sender, request: Request) -> Response:
        if sender.geometry_v_of is None or sender._folder(request) is None:
            return respond(sender, request)
        token, named = request.path_params["token"], request.query_params.get("g")
        before = sender.geometry_v_of(token)
        found = respond(sender, request) if named in (None, before) else None
        if found is None or sender.geometry_v_of(token) != before:
            return Response(texts.FOOTPRINTS_CHANGED, 409, media_type="text/plain", headers=_NEVER_KEPT)
        if named is None and found.status_code == 200:
            found.headers["Cache-Control"] = _NEVER_KEPT["Cache-Control"]
        return found

    return answer


@dataclass(frozen=True)
class _Sender:
    """Answers for projects. Plain methods, not coroutines: Starlette runs them in threads, so a slow disk holds up nobody."""

    resolve: Callable[[str], Path | None]
    scores_of: Callable[[str, str], bytes | None]
    shifts_of: Callable[[str], bytes | None] | None
    history_of: Callable[[str, int], Mapping[str, Any] | None] | None
    dots_of: Callable[[str, str, str, str], bytes | None] | None
    file_of: Callable[[str, str, str], Path | None] | None
    zip_of: Callable[[str, str, Path], object] | None
    geometry_v_of: Callable[[str], str | None] | None
    outlines_of: Callable[[str], bytes | None] | None
    outline_tile_of: Callable[[str, str, int], bytes | None] | None

    @_or_not_now
    def version(self, request: Request) -> Response:
        """Send a file of an exported version: the report to be read, all else to be kept."""
        version, name = request.path_params["version"], request.path_params["name"]
        if self.file_of is None or self._folder(request) is None:
            return _nothing()
        path = self.file_of(request.path_params["token"], version, name)
        if path is None:
            return _nothing()
        if path.suffix == ".html" and "download" not in request.query_params:
            return FileResponse(
                path, media_type="text/html", headers={**_headers(request), "Content-Security-Policy": _SANDBOX}
            )
        return FileResponse(
            path, media_type="application/octet-stream", filename=f"{version}_{name}", headers=_headers(request)
        )

    def version_zip(self, request: Request) -> Response:
        version = request.path_params["version"]
        if self.zip_of is None or self._folder(request) is None:
            return _nothing()
        path = None
        try:
            with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
                path = Path(file.name)
            self.zip_of(request.path_params["token"], version, path)
        except BaseException as error:
            if path is not None:
                path.unlink(missing_ok=True)
            if isinstance(error, PuGeoError | FileNotFoundError):
                return _nothing()
            if isinstance(error, OSError):
                return Response(
                    _NOT_PACKED.format(why=error.strerror or error), 503, media_type="text/plain", headers=_NEVER_KEPT
                )
            raise
        gone = BackgroundTask(path.unlink, missing_ok=True)
        return FileResponse(
            path, media_type="application/zip", filename=f"damage_map_{version}.zip", headers=_NEVER_KEPT, background=gone
        )

    @_or_not_now
    def tile(self, request: Request) -> Response:
        layer = request.path_params["layer"]
        return self._tile(request, layer) if layer in _LAYERS else _nothing()

    @_or_not_now
    def layer_tile(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self._tile(request, f"layers/{name}") if _ID.fullmatch(name) else _nothing()

    def _tile(self, request: Request, layer: str) -> Response:
        z, x, y = (request.path_params[name] for name in ("z", "x", "y"))
        if max(z, x, y) > _HIGHEST:
            return _nothing()
        answer = self._file(request, f"quicklooks/{layer}/{z}/{x}/{y}.jpg", "image/jpeg")
        folder = self._folder(request)
        if answer.status_code == 404 and folder and (folder / "quicklooks" / layer / "pyramid.json").is_file():
            answer.headers["Pu-Geo-Empty"] = "1"  # not a project or pyramid that is gone: there is no data here
        return answer

    @_or_not_now
    @_in_footprint_order
    def outlines(self, request: Request) -> Response:
        if self.outlines_of is None or self._folder(request) is None:
            return _nothing()
        return _bytes(request, self.outlines_of(request.path_params["token"]))

    @_or_not_now
    def outline_tile(self, request: Request) -> Response:
        token, name, n = (request.path_params[each] for each in ("token", "name", "n"))
        if self.outline_tile_of is None or not _ID.fullmatch(name) or n > _HIGHEST or self._folder(request) is None:
            return _nothing()
        return _bytes(request, self.outline_tile_of(token, name, n))

    @_or_not_now
    def sheet(self, request: Request) -> Response:
        chip_set, n = request.path_params["chip_set"], request.path_params["n"]
        if not _ID.fullmatch(chip_set) or n > _HIGHEST:
            return _nothing()
        return self._file(request, f"chips/{chip_set}.sheets/{n:04d}.jpg", "image/jpeg")

    @_or_not_now
    @_in_footprint_order
    def similar(self, request: Request) -> Response:
        return self._numbers(request, f"like-{request.path_params['building']}")

    @_or_not_now
    @_in_footprint_order
    def scores(self, request: Request) -> Response:
        return self._numbers(request, request.path_params["score_id"])

    @_or_not_now
    @_in_footprint_order
    def shifts(self, request: Request) -> Response:
        if self.shifts_of is None or self._folder(request) is None:
            return _nothing()
        return _bytes(request, self.shifts_of(request.path_params["token"]))

    @_or_not_now
    @_in_footprint_order
    def dots(self, request: Request) -> Response:
        token, run_id, what = (request.path_params[name] for name in ("token", "run_id", "what"))
        is_known = _ID.fullmatch(run_id) and _ID.fullmatch(what) and self._folder(request)
        if self.dots_of is None or not is_known:
            return _nothing()
        return _bytes(request, self.dots_of(token, run_id, what, request.query_params.get("by", "")))

    @_or_not_now
    @_in_footprint_order
    def history(self, request: Request) -> Response:
        token, place = request.path_params["token"], request.path_params["building"]
        if self.history_of is None or not _TOKEN.fullmatch(token) or place > _HIGHEST:
            return _nothing()
        return _json(self.history_of(token, place), _headers(request))

    def _numbers(self, request: Request, score_id: str) -> Response:
        if not _ID.fullmatch(score_id) or self._folder(request) is None:
            return _nothing()
        return _bytes(request, self.scores_of(request.path_params["token"], score_id))

    def _folder(self, request: Request) -> Path | None:
        token = request.path_params["token"]
        return self.resolve(token) if _TOKEN.fullmatch(token) else None

    def _file(self, request: Request, name: str, media_type: str) -> Response:
        folder = self._folder(request)
        if folder is None:
            return _nothing()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or not (
            path.is_file() and os.access(path, os.R_OK)
        ):  # a link inside must not lead outside
            return _nothing()
        return FileResponse(path, media_type=media_type, headers=_headers(request))


def _answering(answer: Answering | None, longest: int) -> Callable[[Request], Awaitable[Response]]:
    """Make a route that takes JSON and answers in JSON; another site's page may not ask, for it cannot send JSON here.

    Messages are read and answered by few threads of their own: while another program holds a project's file, they wait, and
    those that send map tiles do not.
    """
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="messages")

    def respond(token: str, body: bytes) -> Response:
        message = _decoded(body)
        if answer is None or message is None:
            return _nothing()
        try:
            return _json(answer(token, message), _NEVER_KEPT)
        except PuGeoError as error:
            return _json({"problem": error.problem, "hint": error.hint}, _NEVER_KEPT, 503)

    async def receive(request: Request) -> Response:
        token = request.path_params["token"]
        if answer is None or not _is_json(request) or not _TOKEN.fullmatch(token):
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


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"


class _Count(Convertor[int]):
    """A number in an address. Python refuses to read one of thousands of digits, so longer ones are no address of ours."""

    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _bundle(request: Request) -> Response:
    if not BUNDLE.is_file():
        return _nothing()
    return FileResponse(BUNDLE, media_type="text/javascript", headers=_headers(request))


def _download(find: Callable[[str], Download | None] | None) -> Callable[[Request], Response]:
    """Make the route of files that a button makes; words where it cannot be made, or where nobody has the button any more."""

    def respond(request: Request) -> Response:
        found = find(request.path_params["name"]) if find is not None else None
        if found is None:
            return Response(texts.NO_DOWNLOAD, 404, media_type="text/plain", headers=_NEVER_KEPT)
        try:
            content = found.make()
        except PuGeoError as error:
            return Response(f"{error.problem} {error.hint}", 503, media_type="text/plain", headers=_NEVER_KEPT)
        except OSError as error:
            words = texts.NOT_MADE.format(why=error.strerror or error)
            return Response(words, 503, media_type="text/plain", headers=_NEVER_KEPT)
        name = f"attachment; filename*=UTF-8''{quote(found.file_name, safe='')}"
        return Response(content, media_type=found.media_type, headers=_NEVER_KEPT | {"Content-Disposition": name})

    return respond


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


def _json(found: Mapping[str, Any] | None, headers: Mapping[str, str], status: int = 200) -> Response:
    if found is None:
        return _nothing()
    return Response(json.dumps(found), status, media_type="application/json", headers=headers)


def _bytes(request: Request, content: bytes | None) -> Response:
    """Send numbers as they are: the server would take seconds to compress 30 MB that it sends to a browser on this machine."""
    if content is None:
        return _nothing()
    plain = {"Content-Encoding": "identity"}
    return Response(content, media_type="application/octet-stream", headers=_headers(request) | plain)


def _unknown(request: Request) -> Response:
    return _nothing()


def _nothing() -> Response:
    return Response("Not found", 404, media_type="text/plain", headers=_NEVER_KEPT)
