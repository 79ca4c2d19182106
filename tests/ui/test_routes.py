"""The HTTP routes send project files by id and nothing else."""

import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from route_parts import get
from starlette.applications import Starlette

from pu_geo.answers import building_history, ranking
from pu_geo.errors import ModelError, PuGeoError
from pu_geo.lifecycle import projects
from pu_geo.maps import exporting
from pu_geo.runs import models
from pu_geo.scenes import image_quality, outlines
from pu_geo.store.layout import Layout
from pu_geo.ui import routes as ui_routes
from pu_geo.ui import texts
from pu_geo.ui.components import scatter
from pu_geo.ui.routes import routes

TOKEN = "p-1"
JSON = {"content-type": "application/json"}
SCORES = struct.pack("<3f", 0.25, 0.5, float("nan"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "town.pugeo"
    for name, content in {
        "quicklooks/post/0/0/0.jpg": b"tile", "quicklooks/layers/sar-post/0/0/0.jpg": b"of SAR", "project.gpkg": b"labels",
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    return folder


@pytest.fixture
def app(project: Path, monkeypatch: pytest.MonkeyPatch) -> Starlette:
    """The routes of one project, and of what services give for it."""
    monkeypatch.setattr(projects, "resolve", lambda token: Layout(project) if token == TOKEN else None)
    for room, name, made in (
        (ranking, "geometry_v", lambda _: "2-b"),
        (ranking, "scores_for_browser", lambda _, score_id: SCORES if score_id in ("run-1", "like-0") else None),
        (image_quality, "shifts_for_browser", lambda _: b"12345"),
        (outlines, "first_part", lambda _: b"first"),
        (outlines, "tile", lambda _, name, n: f"{name} {n}".encode() if n < 9 else None),
        (scatter, "dots", lambda _, *which: None if "nothing" in which else " ".join(which).encode()),
        (building_history, "building_history", lambda _, place: {"building_id": "b0"} if place == 0 else None),
    ):
        monkeypatch.setattr(room, name, made)
    return Starlette(routes=routes())


@pytest.mark.parametrize(
    ("url", "content", "kind"),
    [
        ("/pugeo/p-1/tiles/post/0/0/0.jpg", b"tile", "image/jpeg"),
        ("/pugeo/p-1/tiles/layers/sar-post/0/0/0.jpg", b"of SAR", "image/jpeg"),
        ("/pugeo/p-1/outlines.bin?g=2-b", b"first", "application/octet-stream"),
        ("/pugeo/p-1/outlines/0a1b/7.bin", b"0a1b 7", "application/octet-stream"),
        ("/pugeo/p-1/scores/run-1.bin?g=2-b", SCORES, "application/octet-stream"),
        ("/pugeo/p-1/shifts.bin?g=2-b", b"12345", "application/octet-stream"),
    ],
)
def test_each_route_sends_its_file(app: Starlette, url: str, content: bytes, kind: str) -> None:
    status, headers, body = get(app, url)
    assert (status, body, headers["content-type"].split(";")[0]) == (200, content, kind)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "private, no-cache"
    _, versioned, _ = get(app, f"{url}{'&' if '?' in url else '?'}v=7")
    assert "immutable" in versioned["cache-control"]
    assert "private" in versioned["cache-control"]


def test_anything_else_is_not_found(app: Starlette, project: Path) -> None:
    (project / "quicklooks/post/0/0/5.jpg").symlink_to(project.parent / "secret.jpg")  # which leads outside
    for url in (
        "other/tiles/post/0/0/0.jpg", "other/scores/run-1.bin", "other/outlines.bin", "other/outlines/0a1b/7.bin",  # no such token
        "/outlines.bin", "../outlines.bin", "..%2f..%2fsecret/outlines.bin", "p-1/outlines/0a1b/9.bin", "p-1/outlines/0A1B/7.bin",
        "p-1/outlines/..%2f0a1b/7.bin", "p-1/outlines/../0a1b/7.bin", "p-1/outlines/0a1b/-1.bin", "p-1/outlines/0a1b/7.bin%00",
        "p-1/outlines/0a1b/99999999999999999999.bin", "p-1/outlines/0a1b.bin", "p-1/tiles/mask/0/0/0.jpg", "p-1/tiles/../0/0/0.jpg",
        "p-1/tiles/layers/0/0/0.jpg", "p-1/tiles/layers/dem/0/0/0.jpg", "p-1/tiles/layers/../0/0/0.jpg",
        "p-1/tiles/layers/..%2f../0/0/0.jpg", "p-1/tiles/layers/sar-post/99999999999999999999/0/0.jpg",
        "p-1/tiles/..%2f..%2f/0/0/0.jpg", "p-1/tiles/post/0/0/-1.jpg", "p-1/tiles/post/0/0/1.jpg", "p-1/tiles/post/0/0/5.jpg",
        "p-1/tiles/post/99999999999999999999/0/0.jpg", "p-1/tiles/post/0/0/0.jpg%00.png", "p-1/scores/run-2.bin",
        "p-1/scores/..%2frun-1.bin", "other/shifts.bin", "p-1/dots/run-1/nothing.bin", "p-1/dots/..%2Fsecret/pca.bin", "p-1/dots/run-1/P.bin", "p-1/project.gpkg", "assets/../routes.py", "p-1/jobs/..%2fsecret.log", "p-1/models/..%2fsecret",
    ):  # fmt: skip
        status, _, body = get(app, f"/pugeo/{url}")
        assert (status, b"secret" in body) == (404, False), url
    for url in ("tiles/post/{n}/0/0.jpg", "similar/{n}.f32", "story/{n}.json"):
        for digits in (10, 4301):  # more than Python reads as a number
            assert get(app, f"/pugeo/p-1/{url.format(n='9' * digits)}")[0] == 404
    status, headers, body = get(app, "/pugeo/p-1/nothing/here")
    assert (status, headers["cache-control"], body) == (404, "no-store", b"Not found"), "it never reaches Streamlit"
    assert get(app, "/pugeo/p-1/outlines.bin", "POST")[0] == 405


def test_a_tile_without_data_differs_from_one_that_is_not_here_now(app: Starlette, project: Path) -> None:
    def status(url: str) -> int:
        return get(app, f"/pugeo/{url}")[0]

    of_layer = "p-1/tiles/layers/sar-post/0/0/1.jpg"
    assert [status(url) for url in ("p-1/tiles/post/0/0/1.jpg", of_layer)] == [404, 404], "no pyramid yet"
    for folder in ("post", "layers/sar-post"):
        (project / "quicklooks" / folder / "pyramid.json").write_text("{}", encoding="utf-8")
    assert [status(url) for url in ("p-1/tiles/post/0/0/1.jpg", of_layer)] == [204, 204], "nothing a browser complains about"
    assert [status(f"{project}/tiles/post/0/0/{n}.jpg") for project, n in (("p-1", 0), ("other", 1))] == [200, 404]


@pytest.fixture
def telling(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> Starlette:
    def answer(layout: Layout, said: dict[str, Any]) -> dict[str, Any]:
        return {"project": layout.folder.name, "said": said}

    monkeypatch.setitem(ui_routes.ANSWERED, "here", (answer, ui_routes.ANSWERED["here"][1]))
    return Starlette(routes=routes())


def test_a_browser_may_tell_where_it_is_in_words_that_make_sense(telling: Starlette) -> None:
    body = b'{"session": "s", "analyst": "ann", "building": 3, "since": 0}'
    status, headers, answer = get(telling, "/pugeo/p-1/here", "POST", body, JSON)
    assert (status, headers["cache-control"]) == (200, "no-store")
    assert json.loads(answer) == {"project": "town.pugeo", "said": json.loads(body)}
    for headers in ({"content-type": "text/plain"}, {}):  # text is what another site's page can send
        assert get(telling, "/pugeo/p-1/here", "POST", b"{}", headers)[0] == 404
    for wrong in (b"[]", b"{", b"[" * 1900):
        assert get(telling, "/pugeo/p-1/here", "POST", wrong, JSON)[0] == 404


def test_a_message_that_is_long_or_never_ends_is_refused(telling: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    for claimed in ("", "2", "99999999999999999999"):  # without one it comes in chunks
        headers = {**JSON, "content-length": claimed} if claimed else JSON
        assert get(telling, "/pugeo/p-1/here", "POST", b"{}" + b" " * 1998, headers)[0] == 200
        status, _, body = get(telling, "/pugeo/p-1/here", "POST", b"{}" + b" " * 1999, headers)
        assert (status, json.loads(body)) == (413, {"problem": texts.TOO_LONG.format(most=2000), "hint": texts.SHORTER})
    monkeypatch.setattr(ui_routes, "_SLOWEST_MESSAGE_S", 0.1)
    status, headers, body = get(telling, "/pugeo/p-1/here", "POST", b"{", JSON, is_whole=False)
    assert (status, headers["connection"]) == (408, "close")
    assert "nothing of it was stored" in json.loads(body)["problem"]


def test_what_cannot_be_stored_now_says_why(app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(layout: Layout, said: object) -> None:
        raise PuGeoError("The disk is full.", "Free some space.")

    monkeypatch.setitem(ui_routes.ANSWERED, "operations", (full, 9))
    status, _, body = get(Starlette(routes=routes()), "/pugeo/p-1/operations", "POST", b"{}", JSON)
    assert (status, json.loads(body)["problem"]) == (503, "The disk is full.")


IN_ORDER = ["outlines.bin", "scores/run-1.bin", "similar/0.f32", "shifts.bin", "dots/run-1/pca.bin", "story/0.json"]


@pytest.mark.parametrize("name", IN_ORDER)
def test_the_order_of_other_footprints_is_refused(app: Starlette, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, headers, _ = get(app, f"/pugeo/{TOKEN}/{name}?v=1&g=2-b")
    assert (status, "immutable" in headers["cache-control"]) == (200, True)
    status, headers, body = get(app, f"/pugeo/{TOKEN}/{name}?v=1&g=1-a")
    assert (status, headers["cache-control"], body.decode()) == (409, "no-store", texts.FOOTPRINTS_CHANGED)
    status, headers, _ = get(app, f"/pugeo/{TOKEN}/{name}?v=1")
    assert (status, headers["cache-control"]) == (200, "no-store"), "an address that names no footprints is kept by nobody"
    while_it_is_made = iter(["1-a", "2-b"])
    monkeypatch.setattr(ranking, "geometry_v", lambda _: next(while_it_is_made))
    assert get(app, f"/pugeo/{TOKEN}/{name}?v=1&g=1-a")[0] == 409


def test_dots_are_sent_by_what_they_are_colored_by(app: Starlette) -> None:
    status, _, body = get(app, "/pugeo/p-1/dots/run-1/color.bin?by=attribute%3ADamage%20class")
    assert (status, body) == (200, b"run-1 color attribute:Damage class")


def test_a_model_and_a_log_are_sent_or_say_why_not(app: Starlette, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[[], bytes]] = [lambda: b"0", lambda: b"1"]

    def fail(error: Exception) -> bytes:
        raise error

    monkeypatch.setattr(models, "model_file", lambda *_: made.pop(0)())
    for content in (b"0", b"1"):
        status, headers, body = get(app, "/pugeo/p-1/models/run-1?v=1")
        assert (status, body, headers["cache-control"]) == (200, content, "no-store")
        assert headers["content-disposition"].startswith('attachment; filename="run-1.')
    errors = (ModelError("It is damaged.", "Train again."), OSError(28, "No space left on device"))
    made += [lambda error=error: fail(error) for error in errors]
    status, headers, body = get(app, "/pugeo/p-1/models/run-1")
    assert (status, body.decode(), headers.get("content-disposition")) == (503, "It is damaged. Train again.", None)
    status, _, body = get(app, "/pugeo/p-1/models/run-1")
    assert (status, b"could not be made: No space left on device. See that" in body) == (503, True)
    (project / "jobs" / "j-1").mkdir(parents=True)
    (project / "jobs" / "j-1" / "spec.json").write_text("{}", encoding="utf-8")
    status, headers, _ = get(app, "/pugeo/p-1/jobs/j-1.log")
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="j-1.log"')
    assert get(app, "/pugeo/p-1/jobs/j-2.log")[0] == 503


def test_a_report_opens_without_scripts_and_files_of_a_version_are_kept(app: Starlette, project: Path) -> None:
    for name, content in {"v1/report.html": b"<p>report", "v1/damage_map.csv": b"a,b", "secret": b"x"}.items():
        (project / "exports" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "exports" / name).write_bytes(content)
    status, headers, content = get(app, "/pugeo/p-1/exports/v1/report.html")
    assert (status, content, "content-disposition" in headers) == (200, b"<p>report", False)
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "default-src 'none'" in policy
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy
    for url, name in (("damage_map.csv", "v1_damage_map.csv"), ("report.html?download=1", "v1_report.html")):
        status, headers, _ = get(app, f"/pugeo/p-1/exports/v1/{url}")
        assert (status, headers["content-disposition"]) == (200, f'attachment; filename="{name}"')
    status, headers, content = get(app, "/pugeo/p-1/exports/v1.zip")
    assert (status, content[:2], headers["cache-control"]) == (200, b"PK", "no-store")
    assert headers["content-disposition"] == 'attachment; filename="damage_map_v1.zip"'
    for url in (
        "p-1/exports/v1/..%2fsecret", "p-1/exports/v2/report.html", "p-1/exports/v2.zip", "p-1/exports/..zip", "p-2/exports/v1.zip",
        "p-2/exports/v1/report.html", "p-1/exports/v1/.lock",
    ):  # fmt: skip
        assert get(app, f"/pugeo/{url}")[0] == 404, url


def test_a_zip_that_cannot_be_made_leaves_no_file(app: Starlette, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for error, status in ((OSError(28, "No space left on device"), 503), (FileNotFoundError(2, "gone"), 404)):

        def fail(layout: Layout, version: str, out: Path, error: Exception = error) -> bool:
            out.write_bytes(b"half")
            raise error

        monkeypatch.setattr(exporting, "write_zip", fail)
        found, _, content = get(app, "/pugeo/p-1/exports/v1.zip")
        assert found == status
        assert status == 404 or b"No space left on device. See that" in content
        assert not list((tmp_path / "temporary").iterdir())
