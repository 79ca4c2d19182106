"""What a key would label is in sight, outlined and named; where nothing is, a key labels nothing and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.damage_view_steps import chip, on_page, on_server, open_view, queue, settle, spot, spots, told

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NO_TARGET = "Point at a building first"


def target(page) -> dict | None:
    return page.evaluate("window.__pugeo.target")


def named(page) -> str:
    page.wait_for_timeout(150)  # it is drawn with the next frame
    return page.locator(".pugeo .keys").inner_text().replace("\n", " ")


def leave_behind(page) -> None:
    """Move the map to where no building is, and the pointer over it."""
    page.evaluate(
        """() => {
            const view = window.__pugeo, centers = view.ids().map((id) => view.gridCenter(id));
            const away = ([x, y]) => Math.min(...centers.map(([a, b]) => Math.hypot(a - x, b - y)));
            const places = Array.from({length: 900}, (_, k) => [25 + 50 * (k % 30), 25 + 50 * Math.floor(k / 30)]);
            view.setView(places.sort((a, b) => away(b) - away(a))[0], 0.02);
        }"""
    )
    box = page.locator(".pugeo .mappane").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(300)


def test_a_key_does_not_label_a_selected_building_that_the_map_left_behind(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building, place = next(iter(spots(page).items()))
    page.mouse.click(*place)
    settle(page)
    assert target(page) == {"id": building, "on": "map"}
    assert building in named(page)
    leave_behind(page)
    assert target(page) is None
    for key in ("2", "0", "Backspace", "Enter"):
        page.keyboard.press(key)
    assert named(page) == NO_TARGET
    settle(page)
    assert on_server(app) == on_page(page) == {building: "positive"}


def test_a_chip_that_was_scrolled_away_is_not_labelled(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    first, second = page.evaluate("window.__pugeo.wallIds()")[:2]
    page.mouse.click(*chip(page, first))
    page.mouse.move(*chip(page, second))
    assert target(page) == {"id": second, "on": "wall"}
    page.mouse.wheel(0, 30_000)
    page.wait_for_function("window.__pugeo.chipOf(window.__pugeo.selected) === null")
    leave_behind(page)
    page.keyboard.press("2")
    assert named(page) == NO_TARGET
    settle(page)
    assert on_server(app) == on_page(page) == {first: "positive"}


def test_with_the_queue_open_the_map_says_that_keys_answer_the_queue(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    page.wait_for_timeout(600)  # the map has come to rest
    ids = queue(page)["ids"]
    other = next(each for each in spots(page) if each not in ids)
    page.mouse.move(*spot(page, other))
    assert target(page) == {"id": ids[0], "on": "queue"}
    assert named(page) == f"Keys: {ids[0]}, in the queue"
    assert f"keys answer {ids[0]} in the queue" in page.locator(".pugeo .tooltip").inner_text()
    assert page.locator(".pugeo .large.target").count() == 1
    page.keyboard.press("2")
    settle(page)
    assert on_server(app) == on_page(page) == {ids[0]: "not_damaged"}
    assert [(each["building_id"], each["shown"]) for each in told(app)["sets"]] == [(ids[0], "exploit")]
    assert named(page) == f"Keys: {ids[1]}, in the queue"


def test_hover_on_the_map_queue_open_and_its_picture_out_of_the_window_labels_nothing(chromium_page, app: str) -> None:
    """S12: the key labelled the queue's building, of which nothing was on the screen."""
    page = chromium_page
    page.set_viewport_size({"width": 1280, "height": 420})
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    page.wait_for_timeout(600)
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 500")
    page.wait_for_timeout(300)
    on_screen = {each: place for each, place in spots(page).items() if 10 < place[1] < 400 and each not in ids}
    page.mouse.move(*next(iter(on_screen.values())))
    assert target(page) is None
    for key in ("2", "Enter", "n"):
        page.keyboard.press(key)
    assert queue(page)["current"] == ids[0]
    assert queue(page)["skipped"] == []
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 0")
    page.wait_for_timeout(200)
    assert on_page(page) == {}
    page.keyboard.press("2")
    settle(page)
    assert on_server(app) == on_page(page) == {ids[0]: "not_damaged"}


def test_who_walks_by_keys_means_the_chip_walked_to_until_the_pointer_moves(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    first, second, third = page.evaluate("window.__pugeo.wallIds()")[:3]
    page.mouse.move(*chip(page, third))
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert target(page)["id"] == second
    page.keyboard.press("2")
    x, y = chip(page, third)
    page.mouse.move(x + 3, y + 3)
    assert target(page) == {"id": third, "on": "wall"}
    page.keyboard.press("1")
    settle(page)
    assert on_server(app) == on_page(page) == {second: "not_damaged", third: "positive"}
    assert first not in on_page(page)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (1920, 1080)])
def test_the_target_is_on_the_screen_and_named_in_one_line(
    chromium_page, app: str, screenshots: Path, width: int, height: int
) -> None:
    page = chromium_page
    page.set_viewport_size({"width": width, "height": height})
    open_view(page, app, "queue=6")
    page.wait_for_timeout(700)
    assert target(page) is not None, "without scrolling"
    box = page.locator(".pugeo .keys").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["height"] < 30
    page.mouse.move(*next(iter(spots(page).values())))
    page.wait_for_timeout(300)
    page.screenshot(path=screenshots / f"target-queue-{width}.png")
    page.keyboard.press("w")
    page.wait_for_timeout(400)
    page.mouse.move(*next(iter(spots(page).values())))
    page.wait_for_timeout(300)
    page.screenshot(path=screenshots / f"target-map-{width}.png")
