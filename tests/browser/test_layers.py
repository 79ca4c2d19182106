"""A named layer over the imagery, by mouse and keyboard: its strength and colors, what has no data there, and pictures of a building."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.browser.conftest import LIGHT, SIDE_PX
from tests.browser.steps import ask, go_to, on_page, open_view, press, see_all, settle, show_wall, wait_for_frames, wall

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LIGHT_VIRIDIS = (112, 207, 87)  # cv2.applyColorMap of it, COLORMAP_VIRIDIS
PITCH_PX = SIDE_PX / 20  # half of the way between two of 20 x 20 houses, where a grid pixel is two of the window
SIZES = ((1280, 800), (1440, 900), (1920, 1080))


def color_at(page, place: list[float]) -> tuple[int, ...]:
    """Return red, green and blue of a pixel of the window."""
    wait_for_frames(page, 500)
    ask(page, "tiled")
    pixels = cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR)
    return tuple(pixels[round(place[1]), round(place[0])][::-1].tolist())


def beside(page, building: str) -> list[float]:
    """Bring a building to the middle of the map; return a place of the window halfway to the next one: grass, no roof."""
    x, y = go_to(page, building)
    return [x + PITCH_PX, y]


def is_near(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return bool(np.abs(np.subtract(found, wanted)).max() <= 6)  # JPEG


def test_a_layer_over_the_map(page, village, has_layer: dict[str, bool], screenshots: Path) -> None:
    open_view(page, village)
    east, west = (next(each for each in village.ids[150:] if has_layer[each] is has) for has in (True, False))
    box = page.get_by_role("group", name="Layer over the imagery")
    choice, strength = box.get_by_label("Layer", exact=True), box.get_by_label("Opacity of the layer")
    assert choice.input_value() == ""
    assert not strength.is_visible()

    there = beside(page, west)
    page.mouse.move(there[0] + 40, there[1] + 40)
    press(page, "Space")  # without outlines
    imagery = color_at(page, there)
    choice.select_option("sar-post")
    assert color_at(page, there) == imagery, "where a layer has no data, the imagery shows"
    there = beside(page, east)
    half = color_at(page, there)
    strength.fill("100")
    assert is_near(color_at(page, there), (LIGHT,) * 3)
    assert not is_near(half, (LIGHT,) * 3), "at 80 % the imagery shines through"
    box.get_by_role("button", name="Viridis").click()
    assert is_near(color_at(page, there), LIGHT_VIRIDIS)
    assert "−22 dB" in page.locator(".pugeo .legend").inner_text()
    strength.fill("0")
    without = color_at(page, there)
    assert not is_near(without, LIGHT_VIRIDIS)

    strength.focus()
    press(page, "Tab", "Shift+Tab")  # back to the slider, by keyboard
    press(page, *["ArrowRight"] * 3)
    assert strength.input_value() == "15"
    assert strength.get_attribute("aria-valuetext") == "15 %"
    strength.fill("100")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        wait_for_frames(page, 500)
        inside, zoom = box.bounding_box(), page.locator(".pugeo .mappane .zoom").bounding_box()
        assert inside["x"] + inside["width"] <= zoom["x"], "it covers no button"
        page.screenshot(path=screenshots / f"layer-{width}.png")

    there = beside(page, east)
    page.mouse.move(there[0] + 40, there[1] + 40)
    press(page, "e")
    assert (choice.input_value(), page.locator(".pugeo .spoken").inner_text()) == ("", "No layer")
    assert not is_near(color_at(page, there), LIGHT_VIRIDIS)
    press(page, "e")
    assert choice.input_value() == "sar-post"
    open_view(page, village)
    assert (choice.input_value(), strength.input_value()) == ("sar-post", "100"), "kept over a reload"


def test_with_the_swipe_a_layer_lies_on_the_side_of_its_date(page, village, has_layer: dict[str, bool]) -> None:
    open_view(page, village)
    box = page.get_by_role("group", name="Layer over the imagery")
    box.get_by_label("Layer", exact=True).select_option("sar-post")
    box.get_by_label("Opacity of the layer").fill("100")
    east = next(each for each in village.ids[150:] if has_layer[each])
    go_to(page, east)
    page.get_by_role("button", name="Swipe", exact=True).click()
    frame = page.locator(".pugeo .mappane").bounding_box()
    left, right = ([frame["x"] + frame["width"] * share, frame["y"] + frame["height"] * 0.6] for share in (0.47, 0.53))
    assert is_near(color_at(page, right), (LIGHT,) * 3)
    assert not is_near(color_at(page, left), (LIGHT,) * 3)
    assert page.locator(".pugeo .tag").all_inner_texts() == ["Pre", "Post · sar-post"]


def test_pictures_of_a_building_show_the_layer_and_keys_go_on_answering(page, village, has_layer: dict[str, bool]) -> None:
    open_view(page, village)
    see_all(page)
    box = page.get_by_role("group", name="Layer over the imagery")
    box.get_by_label("Layer", exact=True).click()
    box.get_by_label("Layer", exact=True).select_option("sar-post")
    first = ask(page, "queue")["current"]
    wait_for_frames(page)
    assert page.locator(".pugeo .large figcaption").all_inner_texts() == ["Pre", "Post", "sar-post"]
    before = len(on_page(page))
    press(page, "Escape", "2")
    assert len(on_page(page)) == before + 1, "after a choice by mouse, the next key answers"
    settle(page)
    assert village.labels()[first] == "not_damaged"

    show_wall(page)
    page.get_by_label("Order", exact=True).select_option("id")
    wait_for_frames(page, 600)
    shown = wall(page)[:12]
    chips = {each: page.locator(f'.pugeo .chip[data-building="{village.ids.index(each)}"]') for each in shown}
    for building, cell in chips.items():
        assert cell.locator(".lacking").count() == (0 if has_layer[building] else 1)
    assert len({has_layer[building] for building in shown}) == 2, "both kinds were compared"
    assert page.locator(".pugeo .lacking").first.inner_text() == "no sar-post here"


def test_without_layers_there_is_no_control(page, village) -> None:
    open_view(page, village)
    assert not page.locator(".pugeo .layerbox").is_visible()
    press(page, "e")
    assert page.locator(".pugeo .large figcaption").all_inner_texts() == ["Pre", "Post"]
