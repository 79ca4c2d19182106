"""The component without a mouse, and what map, wall and pictures show of the same building."""

from __future__ import annotations

import re

import pytest

from tests.browser.steps import ask, chip, go_to, on_page, open_view, press, queue, settle, show_wall, wait_for_frames

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def tab_to(page, name: str) -> None:
    """Press Tab until an element of this class has the focus, once there is one that it can reach."""
    page.locator(f".pugeo .{name}[tabindex='0']:visible").first.wait_for(timeout=30_000)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.locator(f".pugeo .{name}:focus").count():
            return
    raise AssertionError(f"Tab does not reach .{name}")


def drawn(page, selector: str) -> list[int]:
    """Return how many colors each picture has, once all are drawn."""
    page.wait_for_function(
        """(selector) => {
            const found = [...document.querySelectorAll("*")].find((each) => each.shadowRoot?.querySelector(".pugeo"))?.shadowRoot ?? document;
            const all = [...found.querySelectorAll(selector)];
            return all.length && all.every((each) => each.dataset.drawn);
        }""",
        arg=selector, timeout=60_000,
    )  # fmt: skip
    return page.locator(f".pugeo {selector}").evaluate_all(
        """(all) => all.map((each) => new Set(new Uint32Array(each.getContext("2d").getImageData(0, 0, each.width, each.height).data.buffer)).size)"""
    )


def test_by_keyboard_alone(page, village) -> None:
    open_view(page, village)
    before, current = village.labels(), queue(page)["current"]
    free = next(each for each in village.ids if each not in before and each not in queue(page)["ids"])
    go_to(page, free)
    page.mouse.move(2, 2)
    page.locator(".pugeo header button").first.focus()
    tab_to(page, "map")
    wait_for_frames(page, 200)
    assert page.evaluate("window.__pugeo.target") == {"id": free, "on": "map"}, (
        "the building under the cross, not the queue's"
    )
    press(page, "Enter")
    number = village.ids.index(free) + 1
    assert page.locator(".pugeo .spoken").inner_text() == f"Building {number}: damaged"
    assert on_page(page) == {**before, free: "positive"}
    center = ask(page, "look")["center"]
    press(page, "ArrowRight", "ArrowDown", "+")
    ask(page, "rest")
    moved = ask(page, "look")["center"]
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
    wait_for_frames(page, 200)  # the focus follows with the next frame
    assert queue(page)["current"] == queue(page)["ids"][1]
    assert page.locator(".pugeo .thumb:focus").get_attribute("aria-label").startswith("2. Building ")
    press(page, "2")
    assert on_page(page)[queue(page)["ids"][1]] == "not_damaged"

    press(page, "w")
    tab_to(page, "face")
    press(page, "ArrowRight")
    wait_for_frames(page, 300)
    label = page.locator(".pugeo .face:focus").get_attribute("aria-label")
    chosen = page.evaluate("window.__pugeo.selected")
    assert re.fullmatch(rf"Building {village.ids.index(chosen) + 1}, .+, rank \d+", label)
    was = on_page(page).get(chosen)
    press(page, "Space")
    assert on_page(page).get(chosen) == (None if was == "positive" else "positive"), "Space presses what has the focus"
    settle(page)
    assert village.labels() == on_page(page)


def test_one_building_on_map_wall_and_pictures(page, village) -> None:
    open_view(page, village)
    assert min(drawn(page, ".large canvas")) > 50, "the ground, not an empty canvas"
    show_wall(page)
    assert min(drawn(page, ".chip canvas")) > 50
    far = next(each for each in reversed(ask(page, "wallIds")[:12]) if each not in ask(page, "onScreen"))
    page.mouse.click(*chip(page, far))
    ask(page, "rest")
    assert far in ask(page, "onScreen"), "a click on the wall moves the map"
    last = ask(page, "wallIds")[-1]
    assert chip(page, last) is None
    page.mouse.click(*go_to(page, last))
    page.wait_for_function("(id) => window.__pugeo.chipOf(id)", arg=last, timeout=30_000)
    wait_for_frames(page, 400)
    top, box = chip(page, last)[1], page.locator(".pugeo .scroller").bounding_box()
    assert box["y"] < top < box["y"] + box["height"], "a click on the map brings its chip into view"
    assert re.match(r"\d+\.\d{5}° [NS], \d+\.\d{5}° [EW]\s*x \d+ · y \d+ px", page.locator(".pugeo .readout").inner_text())
    press(page, "g")
    page.locator(".pugeo .chip canvas").first.wait_for(state="detached", timeout=30_000)
    assert "/sheets/" in page.locator(".pugeo .chip .picture").first.get_attribute("style"), (
        "what the model gets, on request"
    )
    press(page, "g")
    settle(page)
