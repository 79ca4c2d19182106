"""What is set on the page is set on the server: the damage view in a real browser, against a small app."""

from __future__ import annotations

import sys
import time

import pytest
from browser.damage_view_steps import (
    CLICKS,
    click_some,
    drag_box,
    on_page,
    on_server,
    open_view,
    refuse,
    settle,
    spots,
    told,
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.slow]
BY_RUNS = "here="  # without an analyst, operations travel with runs of the page


@pytest.mark.parametrize(("how", "query"), [("pixelOf", ""), ("chipOf", ""), ("pixelOf", BY_RUNS)])
@pytest.mark.parametrize("spacing_ms", [0, 30, 100])
def test_every_click_reaches_the_server(chromium_page, app: str, spacing_ms: int, how: str, query: str) -> None:
    page = chromium_page
    open_view(page, app, query)
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


@pytest.mark.parametrize("query", ["", BY_RUNS])
def test_clicks_that_the_server_refuses_wait_and_survive_a_reload(chromium_page, app: str, query: str) -> None:
    page = chromium_page
    open_view(page, app, query)
    refuse(app, "disk")
    places = click_some(page)
    page.wait_for_function("window.__pugeo.status === 'waiting'", timeout=10_000)
    assert "The disk is full." in page.locator(".pugeo .status").inner_text()
    assert on_server(app) == {}
    open_view(page, app, query)  # a reload, with three operations unacknowledged
    page.wait_for_function("window.__pugeo.pending() === 3", timeout=10_000)
    refuse(app, "")
    settle(page, 30)
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")


def test_a_database_error_is_said_and_nothing_is_acknowledged(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, BY_RUNS)
    refuse(app, "lock")
    places = click_some(page)
    status = page.locator(".pugeo .status")
    status.get_by_text("not saved, trying again").wait_for(timeout=2_000)  # before any retry: the server said so
    assert "database is locked" in status.inner_text()
    assert page.evaluate("window.__pugeo.pending()") == 3
    refuse(app, "")
    settle(page)
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")
    assert status.inner_text() == "Saved"


@pytest.mark.parametrize("how", ["disk", ""])
def test_clicks_survive_a_change_of_page_inside_the_app(chromium_page, app: str, how: str) -> None:
    page = chromium_page
    open_view(page, app)
    refuse(app, how)
    places = click_some(page)
    elsewhere = page.get_by_text("Elsewhere")
    elsewhere.click()
    page.locator(".pugeo").wait_for(state="detached")
    refuse(app, "")
    elsewhere.click()
    page.locator(".pugeo").wait_for()
    settle(page)
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")


def test_waiting_clicks_are_taken_over_from_a_closed_tab_and_not_from_a_living_one(chromium_page, app: str) -> None:
    first, context = chromium_page, chromium_page.context
    open_view(first, app)
    refuse(app, "disk")
    places = click_some(first)
    session = first.evaluate("window.__pugeo.session()")
    second = context.new_page()
    open_view(second, app)
    second.wait_for_timeout(3_000)  # it looks twice
    assert second.evaluate("window.__pugeo.pending()") == 0
    second.close()
    first.evaluate("window.stop()")
    first.goto("about:blank")  # as good as closed
    third = context.new_page()
    open_view(third, app, "mode=view")
    assert third.evaluate("window.__pugeo.pending()") == 0, "a page that cannot label leaves them to one that can"
    open_view(third, app)
    third.wait_for_function("window.__pugeo.pending() === 3", timeout=10_000)
    refuse(app, "")
    settle(third)
    assert on_server(app) == on_page(third) == dict.fromkeys(places, "positive")
    assert told(app)["operations"] == [f"{session}-{n}" for n in (1, 2, 3)], "under their old ids"
    assert third.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('pugeo:log:'))") == []


@pytest.mark.parametrize(("days", "kept"), [(6.9, True), (7.1, False)])
def test_waiting_clicks_are_forgotten_after_a_week(chromium_page, app: str, days: float, kept: bool) -> None:
    page = chromium_page
    op = {"n": 5, "op": "old-5", "building_id": "b00003", "label": "positive", "screen": "map"}
    page.goto(f"{app}/_stcore/health")
    page.evaluate(
        "([at, op]) => localStorage.setItem('pugeo:log:harness-1:old', JSON.stringify({at, ops: [op]}))",
        [(time.time() - days * 24 * 3600) * 1000, op],
    )
    open_view(page, app)
    page.wait_for_function("localStorage.getItem('pugeo:log:harness-1:old') === null", timeout=5_000)
    settle(page)
    page.wait_for_timeout(300)
    assert told(app)["operations"] == (["old-5"] if kept else [])


def test_box_is_one_act_and_one_undo(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    corners = list(spots(page, n=400).values())
    drag_box(page, corners[0], corners[45])
    page.locator(".boxbar .choice.label1").click()
    settle(page)
    assert len(on_server(app)) > 1
    assert on_server(app) == on_page(page)
    page.keyboard.press("Control+z")
    settle(page)
    assert on_server(app) == on_page(page) == {}


def test_box_is_written_and_sent_once(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.evaluate("""() => {
      window.writes = 0;
      const set = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) { window.writes += key.startsWith("pugeo:log:"); set.call(this, key, value); };
    }""")
    corners = list(spots(page, n=400).values())
    drag_box(page, corners[0], corners[45])
    page.locator(".boxbar .choice.label1").click()
    settle(page)
    assert len(on_server(app)) > 10
    assert page.evaluate("window.writes") == 1, "a write for each building froze the browser"


def test_view_mode_takes_no_labels_and_a_selection_does_not_run_the_page(chromium_page, app: str) -> None:
    page = chromium_page
    sent = []
    page.on("websocket", lambda link: link.on("framesent", lambda frame: sent.append(frame)))
    open_view(page, app, "mode=view")
    before = len(sent)
    assert before > 0
    building_id, spot = next(iter(spots(page).items()))
    page.mouse.click(*spot)
    page.mouse.click(*spot, button="right")
    page.keyboard.press("3")
    page.wait_for_timeout(600)
    assert page.evaluate("window.__pugeo.selected") == building_id
    assert len(sent) == before
    assert on_page(page) == on_server(app) == {}


def test_a_building_id_is_text_and_never_markup(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    nasty = next(each for each in page.evaluate("window.__pugeo.ids()") if each.startswith("<"))
    page.mouse.move(*page.evaluate("(id) => window.__pugeo.pixelOf(id)", nasty))
    assert page.locator(".pugeo .tooltip b").inner_text() == nasty
    page.mouse.down()
    page.mouse.up()
    page.keyboard.press("l")
    settle(page)
    page.wait_for_timeout(500)  # the wall has scrolled there
    page.mouse.move(*page.evaluate("(id) => window.__pugeo.chipOf(id)", nasty))
    page.locator(".pugeo .preview b").wait_for()
    assert page.locator(".pugeo .preview b").inner_text() == nasty
    assert page.evaluate("window.hit") is None
    assert page.locator(".pugeo img").count() == 0
    assert on_server(app) == {nasty: "positive"}


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


def test_arrows_walk_the_chips_and_enter_marks(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    first, second = page.evaluate("window.__pugeo.wallIds()")[:2]
    page.mouse.move(*page.evaluate("(id) => window.__pugeo.chipOf(id)", first))
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    settle(page)
    assert on_server(app) == on_page(page) == {second: "positive"}


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


@pytest.mark.parametrize("width", [900, 1100, 1280, 1366, 1400, 1440, 1600, 1920])
def test_the_map_does_not_move_under_clicks_whatever_the_line_above_it_says(chromium_page, app: str, width: int) -> None:
    """The line broke in two while clicks were saved, on some widths, and the next click fell on other ground."""
    page = chromium_page
    page.set_viewport_size({"width": width, "height": 900})
    open_view(page, app)
    line, picture = page.locator(".pugeo header"), page.locator(".pugeo .mappane")
    before = picture.bounding_box()["y"]
    for status, counts in (
        ("Saved", "1 positive"),
        ("Saving 1,234 …", "1,234 positive"),
        ("offline? 1,234 waiting", "x" * 90),
    ):
        for name, text in ((".status", status), (".counts", counts)):
            line.locator(name).evaluate("(element, text) => (element.textContent = text)", text)
        assert picture.bounding_box()["y"] == before
