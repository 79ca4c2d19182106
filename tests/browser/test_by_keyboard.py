"""The component without a mouse; and what keys act on is in view, or they do nothing."""

import re

import pytest

from tests.browser import steps
from tests.browser.steps import at_rest, on_page, press, queue

pytestmark = [pytest.mark.browser, pytest.mark.ci]


def tab_to(page, name: str) -> None:
    """Press Tab until an element of this class has the focus, once there is one that it can reach."""
    page.locator(f".pugeo .{name}[tabindex='0']:visible").first.wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.locator(f".pugeo .{name}:focus").count():
            return
    raise AssertionError(f"Tab does not reach .{name}")


def target(page) -> dict | None:
    return page.evaluate("window.__pugeo.target")


def _out_of_sight(page, current: str) -> None:
    """A key labelled the queue's building, of which nothing was on the screen: here the page is as low as its toolbar."""
    page.set_viewport_size({"width": 1280, "height": 180})
    at_rest(page)
    page.mouse.move(640, 100)
    at_rest(page)
    assert target(page) is None
    labeled = on_page(page)
    press(page, "2", "Enter", "n")
    assert (queue(page)["current"], queue(page)["skipped"], on_page(page)) == (current, [], labeled)
    page.set_viewport_size({"width": 1400, "height": 900})
    at_rest(page)
    assert target(page) == {"id": current, "on": "queue"}


def test_by_keyboard_alone(page, village) -> None:
    steps.open_view(page, village)
    before, current = village.labels(), queue(page)["current"]
    _out_of_sight(page, current)
    free = next(each for each in village.ids if each not in before and each not in queue(page)["ids"])
    steps.go_to(page, free)
    page.mouse.move(2, 2)
    page.locator(".pugeo header button").first.focus()
    tab_to(page, "map")
    at_rest(page)
    assert target(page) == {"id": free, "on": None}, "the building under the cross, not the queue's"
    press(page, "Enter")
    assert page.locator(".pugeo .spoken").inner_text() == f"Building {village.ids.index(free) + 1}: damaged"
    assert on_page(page) == {**before, free: "positive"}
    center = steps.ask(page, "look")["center"]
    press(page, "ArrowRight", "ArrowDown", "+")
    at_rest(page)
    moved = steps.ask(page, "look")["center"]
    assert moved[0] > center[0]
    assert moved[1] < center[1]
    assert queue(page)["current"] == current, "arrows moved the map alone"

    tab_to(page, "splitter")
    width = page.locator(".pugeo .side").bounding_box()["width"]
    press(page, "ArrowLeft", "ArrowLeft")
    assert page.locator(".pugeo .side").bounding_box()["width"] > width + 20
    press(page, "Enter")
    assert page.locator(".pugeo .side").is_hidden()
    press(page, "h")
    tab_to(page, "thumb")
    press(page, "ArrowRight")
    page.locator(".pugeo .thumb:focus[aria-label^='2. Building ']").wait_for()  # the focus follows with the next frame
    second = queue(page)["ids"][1]
    assert queue(page)["current"] == second
    press(page, "2")
    assert on_page(page)[second] == "not_damaged"

    press(page, "w")
    tab_to(page, "face")
    press(page, "ArrowRight")
    at_rest(page)
    label = page.locator(".pugeo .face:focus").get_attribute("aria-label")
    chosen = page.evaluate("window.__pugeo.selected")
    assert re.fullmatch(rf"Building {village.ids.index(chosen) + 1}, .+, rank \d+", label)
    was = on_page(page).get(chosen)
    press(page, "Space")
    assert on_page(page).get(chosen) == (None if was == "positive" else "positive"), "Space presses what has the focus"
    steps.settle(page)
    assert village.labels() == on_page(page)
