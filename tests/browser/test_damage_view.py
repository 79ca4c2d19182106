"""What is set on the page is set on the server: the damage view in a real browser, against a small app."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
HERE = Path(__file__).parent
CLICKS = 10


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("make_project", HERE / "make_project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_project(tmp_path_factory.mktemp("damage-view") / "project", n=400, side=1500)


@pytest.fixture(scope="module")
def running_app(chromium, start_app, project: Path) -> str:
    return start_app(HERE / "harness_app.py", str(project), log=project.parent / "app.log")


@pytest.fixture
def app(running_app: str) -> str:
    """The app without any labels."""
    urllib.request.urlopen(f"{running_app}/harness/set?reset=1").close()
    return running_app


def open_view(page, app: str, query: str = "") -> None:
    page.goto(f"{app}/?{query}")
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
    page.wait_for_timeout(400)  # the first frames: fit, tiles


def on_server(app: str) -> dict[str, str]:
    with urllib.request.urlopen(f"{app}/harness/labels") as answer:
        return json.load(answer)["labels"]


def on_page(page) -> dict[str, str]:
    return page.evaluate("window.__pugeo.labels()")


def settle(page, seconds: float = 15) -> None:
    page.wait_for_function("window.__pugeo.pending() === 0", timeout=seconds * 1000)


def spots(page, how: str = "pixelOf", n: int = CLICKS) -> dict[str, list[float]]:
    """Where the first `n` buildings are that can be clicked, by building id."""
    listed = "onScreen(60)" if how == "pixelOf" else "wallIds().slice(0, 12)"
    found = page.evaluate(f"window.__pugeo.{listed}.map((id) => [id, window.__pugeo.{how}(id)])")
    step = max(1, len(found) // n) if how == "pixelOf" else 1  # spread over the map
    return dict(found[::step][:n])


@pytest.mark.parametrize("how", ["pixelOf", "chipOf"])
@pytest.mark.parametrize("spacing_ms", [0, 30, 100])
def test_every_click_reaches_the_server(chromium_page, app: str, spacing_ms: int, how: str) -> None:
    page = chromium_page
    open_view(page, app)
    places = spots(page, how)
    assert len(places) == CLICKS
    for x, y in places.values():
        page.mouse.click(x, y)
        if spacing_ms:
            time.sleep(spacing_ms / 1000)
    expected = dict.fromkeys(places, "positive")
    assert on_page(page) == expected, "the page shows a click at once"
    settle(page)
    assert on_server(app) == expected
    assert on_page(page) == expected


def test_second_click_clears_and_right_click_says_not_damaged(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, a), (second, b), (third, c) = list(spots(page).items())[:3]
    page.mouse.click(*a)
    page.mouse.click(*a)
    page.mouse.click(*b, button="right")
    page.mouse.move(*c)
    page.keyboard.press("3")
    settle(page)
    assert on_server(app) == on_page(page) == {second: "not_damaged", third: "not_assessable"}
    assert first not in on_page(page)


def test_undo_and_redo_are_decided_by_the_server(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    places = spots(page, n=3)
    for spot in places.values():
        page.mouse.click(*spot)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    settle(page)
    ids = list(places)
    assert on_server(app) == on_page(page) == {ids[0]: "positive"}
    page.keyboard.press("Control+Shift+Z")
    settle(page)
    assert on_server(app) == on_page(page) == dict.fromkeys(ids[:2], "positive")


def test_reload_keeps_labels_and_view(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    places = spots(page, n=4)
    for spot in places.values():
        page.mouse.click(*spot)
    settle(page)
    page.evaluate("window.__pugeo.setView([700, 650], 0.7)")
    page.wait_for_timeout(300)
    before = page.evaluate("window.__pugeo.look()")
    open_view(page, app)
    assert on_page(page) == on_server(app) == dict.fromkeys(places, "positive")
    after = page.evaluate("window.__pugeo.look()")
    assert after["center"] == pytest.approx(before["center"], abs=0.01)
    assert after["resolution"] == pytest.approx(before["resolution"], abs=1e-6)


def test_clicks_that_the_server_refuses_wait_and_survive_a_reload(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    urllib.request.urlopen(f"{app}/harness/set?refuse=1").close()
    places = spots(page, n=3)
    for spot in places.values():
        page.mouse.click(*spot)
    page.wait_for_function("window.__pugeo.status === 'waiting'", timeout=10_000)
    assert "The disk is full." in page.locator(".pugeo .status").inner_text()
    assert on_server(app) == {}
    open_view(page, app)  # a reload, with three operations unacknowledged
    urllib.request.urlopen(f"{app}/harness/set?refuse=0").close()
    settle(page, 30)
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")


def test_box_is_one_act_and_one_undo(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    corners = list(spots(page, n=400).values())
    (x0, y0), (x1, y1) = corners[0], corners[45]
    page.keyboard.down("Shift")
    page.mouse.move(min(x0, x1) - 12, min(y0, y1) - 12)
    page.mouse.down()
    page.mouse.move(max(x0, x1) + 12, max(y0, y1) + 12, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator(".boxbar .choice.label1").click()
    settle(page)
    assert len(on_server(app)) > 1
    assert on_server(app) == on_page(page)
    page.keyboard.press("Control+z")
    settle(page)
    assert on_server(app) == on_page(page) == {}


def test_view_mode_takes_no_labels_and_tells_the_selection(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "mode=view")
    building_id, spot = next(iter(spots(page).items()))
    page.mouse.click(*spot)
    page.mouse.click(*spot, button="right")
    page.keyboard.press("3")
    page.get_by_text(f"selected: {building_id}").wait_for(timeout=10_000)
    assert on_page(page) == on_server(app) == {}


def test_keys_change_the_look_and_streamlit_does_not_hear_them(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.mouse.move(*next(iter(spots(page).values())))
    looks = []
    for key in ("a", "s", "d", "Space", "p"):
        page.keyboard.press(key)
        look = page.evaluate("window.__pugeo.look()")
        looks.append((look["view"], look["outlines"], look["colorBy"]))
    assert [view for view, _, _ in looks[:3]] == ["pre", "swipe", "post"]
    assert looks[3][1] is False
    assert looks[4][2] == "scores"


def test_arrows_walk_the_queue_and_enter_marks(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=1")
    assert page.evaluate("window.__pugeo.wallIds()") == ["b00007", "b00003", "b00011"]
    page.mouse.move(*page.evaluate("window.__pugeo.chipOf('b00007')"))
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    settle(page)
    assert on_server(app) == on_page(page) == {"b00003": "positive"}


def test_a_click_costs_a_few_kilobytes(chromium_page, app: str) -> None:
    page = chromium_page
    received = []
    page.on("websocket", lambda link: link.on("framereceived", lambda frame: received.append(len(frame))))
    open_view(page, app)
    places = list(spots(page).values())
    page.mouse.click(*places[0])
    settle(page)
    page.wait_for_timeout(500)
    before = sum(received)
    for spot in places[1:6]:
        page.mouse.click(*spot)
        settle(page)
        page.wait_for_timeout(200)
    per_click = (sum(received) - before) / 5
    sys.stdout.write(f"{per_click / 1024:.1f} kB a click\n")
    assert 0 < per_click < 12 * 1024
