"""Every screen once: axe-core finds nothing serious on it, nor in what opens over it, and three window sizes hold it."""

import pytest

from pu_geo.ui.imagery import texts as imagery_texts
from tests.browser.accessibility import assert_accessible
from tests.browser.steps import READY, at_rest, queue, settle, settled

pytestmark = [pytest.mark.browser, pytest.mark.ci]
SCREENS = {
    "": ("Browse for another project",), "imagery": (imagery_texts.FEATURES,), "annotate": ("Grades", "Queue settings"),
    "train": ("Settings", "Rename"), "research": ("Settings",), "explore": (), "damage_map": ("Export",),
}  # fmt: skip
"""Screen -> buttons that open something over it."""
WITH_VIEW = ("annotate", "explore", "damage_map")
SIZES = ((1280, 720), (1440, 900), (1920, 1080))
LONGEST = ("1,234 not saved yet: no answer from the server", "x" * 90)
"""What the line above the map may have to say."""


def is_open(page, village, screen: str) -> None:
    """Open a screen and wait until it is drawn."""
    page.goto(village.url(screen))
    page.locator(".st-key-title-bar").wait_for()
    if screen in WITH_VIEW:
        page.wait_for_function(READY)
        at_rest(page)
        settle(page)  # the view asks for another run once it is ready
    settled(page)


def unfold(page, title: str) -> None:
    """Open a step of the Imagery screen, unless it is open."""
    if page.locator("details", has_text=title).get_attribute("open") is None:
        page.get_by_text(title).click()


def test_no_serious_finding_on_any_screen_nor_in_what_opens_over_it(page, village, has_layer) -> None:
    for screen, buttons in SCREENS.items():
        is_open(page, village, screen)
        if screen == "imagery":
            unfold(page, "1 · Scenes")
            page.get_by_role("tab", name=imagery_texts.LAYERS).click()
            unfold(page, "3 · Chips")
        assert_accessible(page)
        for button in buttons:
            page.get_by_test_id("stMain").get_by_role("button", name=button).first.click()
            opened = page.get_by_test_id("stPopoverBody").or_(page.get_by_role("dialog")).first
            opened.wait_for()
            assert_accessible(page, button)
            page.keyboard.press("Escape")
            opened.wait_for(state="hidden")


def test_each_screen_fits_windows_of_three_sizes(page, village, has_layer) -> None:
    for screen in SCREENS:
        is_open(page, village, screen)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            if screen in WITH_VIEW:
                at_rest(page)
                box = page.locator(".pugeo").bounding_box()
                assert 0 <= box["x"] < box["x"] + box["width"] <= width
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{screen} scrolls to the side"
            if screen == "annotate":
                _fits(page, width)


def _fits(page, width: int) -> None:
    """What Annotate must have in the window, without scrolling."""
    assert page.evaluate("window.__pugeo.target") == {"id": queue(page)["current"], "on": "queue"}
    keys = page.locator(".pugeo .keys").bounding_box()
    assert 0 <= keys["x"] < keys["x"] + keys["width"] <= width
    layers, zoom = (page.locator(f".pugeo .mappane {name}").bounding_box() for name in (".layerbox", ".zoom"))
    assert zoom["y"] + zoom["height"] <= layers["y"], "it covers no button"
    line, picture = page.locator(".pugeo header"), page.locator(".pugeo .mappane")
    before = picture.bounding_box()["y"]
    for name, words in zip((".status", ".counts"), LONGEST, strict=True):
        line.locator(name).evaluate("(element, words) => (element.textContent = words)", words)
    line.locator(".status").evaluate("(element) => (element.dataset.state = 'waiting')")
    assert not line.evaluate("(line) => line.scrollWidth > line.clientWidth"), f"the line is cut, {width} pixels wide"
    assert picture.bounding_box()["y"] == before, f"the map moved under clicks, {width} pixels wide"
