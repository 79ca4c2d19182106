"""What the imagery hides looks otherwise until somebody answers it; arrows say how far pre and post are apart."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from browser.damage_view_steps import on_page, on_server, open_view, settle, spot, spots, told

CLOUDY, DARK, MISALIGNED, HAZY, ONE_DATE = (f"b{i:05d}" for i in range(100, 105))
RESOLUTION = 0.5  # grid pixels per screen pixel at which each house has an arrow of its own
SHIFT_M, GSD_M = np.array([3.0, 4.0]), 0.5  # to the east and to the south
FAR = 4.0  # grid pixels per screen pixel at which houses share arrows


def go_to(page, building_id: str, resolution: float = RESOLUTION) -> list[float]:
    x, y = page.evaluate("(id) => window.__pugeo.gridCenter(id)", building_id)
    page.evaluate("([x, y, r]) => window.__pugeo.setView([x, y], r)", [x, y, resolution])
    page.wait_for_timeout(700)  # tiles, and the drawing of another frame
    return spot(page, building_id)


def picture(page, place: list[float], half: int = 8) -> np.ndarray:
    """What is drawn around a place, int [H, W, 3]; the pointer is led away first."""
    page.mouse.move(5, 5)
    page.wait_for_timeout(250)
    x, y = place
    shot = page.screenshot(clip={"x": x - half, "y": y - half, "width": 2 * half, "height": 2 * half})
    return cv2.imdecode(np.frombuffer(shot, np.uint8), cv2.IMREAD_COLOR)[..., ::-1].astype(int)


def grayness(colors: np.ndarray) -> float:
    """Mean distance between the color bands."""
    return float((colors.max(axis=2) - colors.min(axis=2)).mean())


def arrows(page) -> dict:
    return page.evaluate("window.__pugeo.arrows()")


def with_arrows(page, app: str, query: str = "seen=1") -> None:
    open_view(page, app, query)
    page.locator(".pugeo button[aria-label*='Arrows']").click()
    page.wait_for_timeout(300)


def test_a_hidden_building_is_hatched_until_an_answer_overrides_it(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1")
    place = go_to(page, CLOUDY)
    hidden, plain = picture(page, place), picture(page, spot(page, "b00120"))
    assert grayness(hidden) < 0.5 * grayness(plain)
    page.mouse.move(*place)
    tooltip = page.locator(".pugeo .tooltip")
    tooltip.get_by_text("Not assessed: cloud").wait_for()
    assert "overrides it" in tooltip.inner_text()
    assert "score" not in tooltip.inner_text()
    assert "2 not assessed" in page.locator(".pugeo .counts").inner_text()
    page.mouse.click(*place)
    settle(page)
    assert on_server(app) == {CLOUDY: "positive"}
    assert "1 not assessed" in page.locator(".pugeo .counts").inner_text()
    assert "the imagery says: cloud; the answer counts" in tooltip.inner_text()
    red, _, blue = picture(page, place).mean(axis=(0, 1))
    assert red - blue > 60
    page.keyboard.press("Control+z")
    page.wait_for_function("(id) => window.__pugeo.seen(id).hidden", arg=CLOUDY)
    np.testing.assert_allclose(picture(page, place), hidden, atol=12)


def test_a_hidden_building_has_no_score_on_the_damage_map(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1&mode=view&color=scores")
    assert page.evaluate("(id) => window.__pugeo.score(id)", CLOUDY) is None
    assert page.evaluate("(id) => window.__pugeo.score(id)", HAZY) is not None
    assert "Not assessed: cloud, no data" in page.locator(".pugeo .legend").inner_text()
    colors = picture(page, go_to(page, CLOUDY))
    assert grayness(colors) < 0.5 * grayness(picture(page, spot(page, "b00120")))


@pytest.mark.parametrize(
    ("building", "reason"), [(CLOUDY, "cloud"), (DARK, "nodata"), (MISALIGNED, "misaligned"), (HAZY, "cloud")]
)
def test_not_assessable_is_explained_by_what_the_imagery_says(chromium_page, app: str, building: str, reason: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1")
    page.mouse.move(*go_to(page, building))
    page.wait_for_timeout(200)
    page.keyboard.press("3")
    marked = page.locator(".pugeo .picker .choice.on")
    assert marked.get_attribute("data-reason") == reason
    settle(page)
    assert told(app)["details"][building]["reason"] == reason  # without another key
    page.keyboard.press("8")
    settle(page)
    assert told(app)["details"][building]["reason"] == "no_building"  # the analyst knows better


def test_others_stay_unclear_unless_somebody_says_more(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1")
    page.mouse.move(*go_to(page, ONE_DATE))
    page.keyboard.press("3")
    assert page.locator(".pugeo .picker .choice.on").count() == 0
    settle(page)
    assert told(app)["details"][ONE_DATE]["reason"] == "unclear"


def test_the_wall_shows_those_that_could_not_be_aligned(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1")
    show = page.locator(".pugeo .wallpane select[aria-label=Show]")
    show.select_option("misaligned")
    page.wait_for_function("window.__pugeo.wallIds().length === 1")
    assert page.evaluate("window.__pugeo.wallIds()") == [MISALIGNED]
    show.select_option("hidden")
    page.wait_for_function("window.__pugeo.wallIds().length === 2")
    assert sorted(page.evaluate("window.__pugeo.wallIds()")) == [CLOUDY, DARK]
    assert page.locator(".pugeo .chip.unseen").count() == 2
    page.mouse.move(*go_to(page, MISALIGNED))
    page.locator(".pugeo .tooltip").get_by_text("could not be aligned").wait_for()


def test_each_house_has_an_arrow_to_where_it_is_now(chromium_page, app: str) -> None:
    page = chromium_page
    with_arrows(page, app)
    go_to(page, "b00110")
    drawn = arrows(page)
    times = drawn["times"]
    assert times >= 2
    text = page.locator(".pugeo .legend").inner_text()
    assert f"arrows {times}×, longest 5.0 m" in text
    shown = [each for each in drawn["arrows"] if each["quality"] > 0]
    assert len(shown) > 5
    for each in shown:
        along = np.subtract(each["head"], each["tail"])
        np.testing.assert_allclose(along, times * SHIFT_M / GSD_M / RESOLUTION, atol=0.5)  # screen y goes down, to the south
        assert each["n"] == 1
    middles = page.evaluate("window.__pugeo.onScreen(0).map((id) => window.__pugeo.centerOf(id))")
    away = np.array([min(np.hypot(*np.subtract(each["head"], middle)) for middle in middles) for each in shown])
    assert (away < 1).sum() > 3  # heads lie on houses; frames reach beyond the screen


def test_an_arrow_is_drawn_in_the_color_of_its_quality(chromium_page, app: str) -> None:
    page = chromium_page
    with_arrows(page, app)
    sure, unsure = "b00118", "b00101"  # far to the right, far to the left
    found = {}
    for building in (sure, unsure):
        head = go_to(page, building)
        each = min(arrows(page)["arrows"], key=lambda one: np.hypot(*np.subtract(one["head"], head)))
        middle = np.add(each["head"], each["tail"]) / 2
        found[building] = picture(page, middle.tolist(), half=1).mean(axis=(0, 1))
    (red, _, blue), (red2, _, blue2) = found[sure], found[unsure]
    assert red > blue + 60, "yellow: sure"
    assert blue2 > red2 + 20, "blue: hardly"


def test_where_it_failed_there_is_a_hollow_dot_and_where_one_date_is_missing_nothing(chromium_page, app: str) -> None:
    page = chromium_page
    with_arrows(page, app)
    place = go_to(page, MISALIGNED)
    failed = [each for each in arrows(page)["arrows"] if each["quality"] == 0]
    assert len(failed) == 1
    np.testing.assert_allclose(failed[0]["head"], place, atol=1)
    around = picture(page, place, half=6)
    ring = around[6, [1, 2, 10]].mean(axis=-1)  # 4 pixels from its middle
    assert ring.min() < 80
    assert around[5:7, 5:7].mean() > ring.min() + 40  # hollow
    go_to(page, ONE_DATE)
    middle = page.evaluate("(id) => window.__pugeo.centerOf(id)", ONE_DATE)
    assert all(np.hypot(*np.subtract(each["head"], middle)) > 3 for each in arrows(page)["arrows"])


def test_zoomed_out_houses_share_arrows(chromium_page, app: str) -> None:
    page = chromium_page
    with_arrows(page, app)
    go_to(page, "b00210", FAR)
    drawn = arrows(page)
    heads = np.array([each["head"] for each in drawn["arrows"]])
    assert sum(each["n"] for each in drawn["arrows"]) == 398  # of 400; one failed, and one date does not show another
    assert len(heads) < 120
    assert max(each["n"] for each in drawn["arrows"]) > 3
    for each in drawn["arrows"]:
        np.testing.assert_allclose(
            np.subtract(each["head"], each["tail"]), drawn["times"] * SHIFT_M / GSD_M / FAR, atol=0.5
        )  # the mean of equal shifts


def test_arrows_stay_after_a_rerun_and_a_reload_until_they_are_switched_off(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "seen=1")
    assert arrows(page)["arrows"] == []
    page.mouse.move(*next(iter(spots(page).values())))
    page.keyboard.press("v")
    page.wait_for_function("window.__pugeo.arrows().arrows.length > 0")
    page.get_by_text("Elsewhere").click()
    page.locator(".pugeo").wait_for(state="detached")
    page.get_by_text("Elsewhere").click()
    page.wait_for_function("window.__pugeo.ready && window.__pugeo.arrows().arrows.length > 0")
    page.reload()
    page.wait_for_function("window.__pugeo && window.__pugeo.ready && window.__pugeo.arrows().arrows.length > 0")
    button = page.locator(".pugeo button[aria-label*='Arrows']")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    page.wait_for_function("window.__pugeo.arrows().arrows.length === 0")
    assert "arrows" not in page.locator(".pugeo .legend").inner_text()


def test_a_project_that_is_not_aligned_offers_no_arrows(chromium_page, app: str) -> None:
    page = chromium_page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "shifts" in request.url else None)
    open_view(page, app)
    assert page.locator(".pugeo button[aria-label*='Arrows']").is_hidden()
    page.mouse.move(*next(iter(spots(page).values())))
    page.keyboard.press("v")
    page.wait_for_timeout(200)
    assert page.evaluate("window.__pugeo.look().arrows") is False
    assert asked == []
    assert page.locator(".pugeo .wallpane select[aria-label=Show] option[value=misaligned]").count() == 0
    assert on_page(page) == {}
