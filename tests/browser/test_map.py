"""The map of Annotate: its views, what the imagery hides and how the dates fit, and a named layer over it."""

import cv2
import numpy as np
import pytest

from tests.browser import steps
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import CLOUDY, LIGHT, MISALIGNED, SIDE_PX
from tests.browser.steps import ask, at_rest, press, settle

pytestmark = [pytest.mark.browser, pytest.mark.ci]
LIGHT_VIRIDIS = (112, 207, 87)  # cv2.applyColorMap of it, COLORMAP_VIRIDIS
PITCH_PX = SIDE_PX / 20  # half of the way between two of 20 x 20 houses, where a grid pixel is two of the window


def picture(page, place: list[float], half: int = 8) -> np.ndarray:
    """What is drawn around a place, int [H, W, 3], with the pointer elsewhere."""
    page.mouse.move(5, 5)
    at_rest(page)
    ask(page, "tiled")
    clip = {"x": place[0] - half, "y": place[1] - half, "width": 2 * half, "height": 2 * half}
    shot = np.frombuffer(page.screenshot(clip=clip), np.uint8)
    return cv2.imdecode(shot, cv2.IMREAD_COLOR)[..., ::-1].astype(int)


def test_views_by_keys_are_kept_over_a_reload_and_both_dates_take_clicks(page, village) -> None:
    steps.open_view(page, village)
    steps.show_wall(page)
    steps.see_all(page)
    place = next(place for each, place in steps.spots(page, 40).items() if each not in steps.on_page(page))
    page.mouse.move(*place)
    looks = []
    for key in ("a", "s", "d", "Space", "p"):
        page.keyboard.press(key)
        looks.append(ask(page, "look"))
    assert [look["view"] for look in looks] == ["pre", "swipe", "post", "post", "post"]
    assert [look["outlines"] for look in looks] == [True, True, True, False, False]
    assert looks[-1]["colorBy"] == "scores"
    press(page, "Space")
    page.mouse.click(*place)
    assert "Damaged" in page.locator(".pugeo .tooltip").inner_text(), "the tooltip knows of the click at once"

    page.keyboard.press("f")
    settle(page)
    at_rest(page)  # where it rests is kept
    before = ask(page, "look")
    page.reload()
    steps.wait_for_view(page)
    after = ask(page, "look")
    assert (after["view"], after["colorBy"]) == ("side", "scores")
    assert after["resolution"] == pytest.approx(before["resolution"], abs=1e-6)
    assert after["center"] == pytest.approx(before["center"], abs=0.01), "a reload keeps the view"
    half = page.locator(".pugeo .mappane").bounding_box()["width"] / 2
    first, second = [each for each in steps.spots(page, 60) if each not in steps.on_page(page)][:2]
    page.mouse.click(*ask(page, "twinPixelOf", first))
    page.mouse.click(*ask(page, "twinPixelOf", second), button="right")
    settle(page)
    assert {each: village.labels()[each] for each in (first, second)} == {first: "positive", second: "not_damaged"}
    page.mouse.wheel(0, -300)
    page.wait_for_function("(old) => window.__pugeo.look().resolution !== old", arg=after["resolution"])
    at_rest(page)
    left, right = ask(page, "twinPixelOf", first), steps.spot(page, first)
    assert (right[0] - left[0], right[1]) == pytest.approx((half, left[1]), abs=1.5), "one view, twice"


def test_what_the_imagery_hides_how_the_dates_fit_and_a_layer(page, village, has_layer: dict[str, bool]) -> None:
    steps.open_view(page, village)
    steps.show_wall(page)
    place = steps.go_to(page, village.ids[CLOUDY])
    page.mouse.move(*place)
    tooltip = page.locator(".pugeo .tooltip")
    tooltip.get_by_text("Not assessed: cloud").wait_for()
    assert "score" not in tooltip.inner_text()
    hidden = picture(page, place)
    page.mouse.move(*place)
    press(page, "Space")  # without what is drawn over the picture
    assert np.abs(hidden - picture(page, place)).mean() > 15, "it is hatched"
    page.mouse.move(*place)
    press(page, "Space")
    page.mouse.click(*place)
    settle(page)
    red, _, blue = picture(page, place).mean(axis=(0, 1))
    assert red - blue > 40, "an answer overrides it"
    misaligned = village.ids[MISALIGNED]
    steps.select(page, steps.go_to(page, misaligned))
    press(page, "3")
    reason = page.locator(".pugeo .picker .choice.on").get_attribute("data-reason")
    assert reason == "misaligned", "as the imagery makes likely"
    settle(page)
    assert steps.on_wall(page, "Show", "misaligned") == [misaligned]
    press(page, "v")
    page.wait_for_function("window.__pugeo.arrows().arrows.length > 5")
    drawn = ask(page, "arrows")
    for arrow in drawn["arrows"]:
        along = [head - tail for head, tail in zip(arrow["head"], arrow["tail"], strict=True)]
        expected = [metres * drawn["times"] / 0.5 / 0.5 * (arrow["quality"] > 0) for metres in (3, 4)]
        assert along == pytest.approx(expected, abs=0.5), "to the east and, as screens count, down to the south"
    press(page, "v")
    _over_the_map(page, village, has_layer)
    _in_pictures(page, village, has_layer)


def _over_the_map(page, village, has_layer: dict[str, bool]) -> None:
    box = page.get_by_role("group", name="Layer over the imagery")
    choice, strength = box.get_by_label("Layer", exact=True), box.get_by_label("Opacity of the layer")
    east, west = (next(each for each in village.ids[150:] if has_layer[each] is has) for has in (True, False))
    color = lambda place: picture(page, place, 1)[1, 1]  # noqa: E731
    is_near = lambda found, wanted: np.abs(found - wanted).max() <= 6  # noqa: E731  # JPEG

    def beside(building: str) -> list[float]:
        """Bring a building to the middle; return a place of the window halfway to the next one: grass, no roof."""
        x, y = steps.go_to(page, building)
        return [x + PITCH_PX, y]

    there = beside(west)
    page.mouse.move(there[0] + 40, there[1] + 40)
    press(page, "Space")  # without outlines
    imagery = color(there)
    choice.select_option("sar-post")
    assert (color(there) == imagery).all(), "where a layer has no data, the imagery shows"
    there = beside(east)
    assert not is_near(color(there), LIGHT), "at 80 % the imagery shines through"
    strength.fill("100")
    assert is_near(color(there), LIGHT)
    box.get_by_role("button", name="Viridis").click()
    assert is_near(color(there), LIGHT_VIRIDIS)
    strength.fill("85")
    strength.focus()
    press(page, "Tab", "Shift+Tab", *["ArrowRight"] * 3)  # back to the slider, by keyboard
    assert (strength.input_value(), strength.get_attribute("aria-valuetext")) == ("100", "100 %")
    page.mouse.move(there[0] + 40, there[1] + 40)
    press(page, "e")
    assert (choice.input_value(), page.locator(".pugeo .spoken").inner_text()) == ("", "No layer")
    press(page, "e", "s")
    frame = page.locator(".pugeo .mappane").bounding_box()
    left, right = ([frame["x"] + frame["width"] * share, frame["y"] + frame["height"] * 0.6] for share in (0.47, 0.53))
    assert is_near(color(right), LIGHT_VIRIDIS), "with the swipe a layer lies on the side of its date"
    assert not is_near(color(left), LIGHT_VIRIDIS)
    settle(page)
    steps.open_view(page, village)
    assert (choice.input_value(), strength.input_value()) == ("sar-post", "100"), "kept over a reload"


def _in_pictures(page, village, has_layer: dict[str, bool]) -> None:
    steps.on_wall(page, "Show", "all")
    shown = steps.on_wall(page, "Order", "id")[:12]
    assert len({has_layer[building] for building in shown}) == 2, "both kinds are compared"
    for building in shown:
        cell = page.locator(f'.pugeo .chip[data-building="{village.ids.index(building)}"]')
        assert cell.locator(".lacking").count() == (0 if has_layer[building] else 1)
    page.get_by_role("button", name="Queue", exact=True).click()
    steps.until(lambda: page.locator(".pugeo .large figcaption").all_inner_texts() == ["Pre", "Post", "sar-post"], page=page)
    assert_accessible(page)
    first = steps.queue(page)["current"]
    press(page, "e")
    page.get_by_label("Layer", exact=True).click()
    page.get_by_label("Layer", exact=True).select_option("sar-post")
    press(page, "Escape", "2")
    settle(page)
    assert village.labels()[first] == "not_damaged", "after a choice by mouse, the next key answers"
