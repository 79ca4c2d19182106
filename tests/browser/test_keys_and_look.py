"""What keys act on is in view, outlined and named; what the map shows stays where it is under clicks, and after a reload."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from small_parts import REPOSITORY

from pu_geo.services.annotate import queueing
from pu_geo.services.damage_map import random_audits
from tests.browser.real_app import AppServer
from tests.browser.steps import (
    ask,
    chip,
    go,
    go_to,
    on_page,
    open_view,
    press,
    queue,
    see_all,
    settle,
    settled,
    show_wall,
    spot,
    spots,
    still,
    wait_for_frames,
    wait_for_view,
    wall,
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NO_TARGET = "Point at a building first"
WIDTHS = (900, 1100, 1280, 1366, 1400, 1440, 1600, 1920)
SIZES = ((1280, 720), (1440, 900), (1920, 1080))
RANKING_SERVER = """
import runpy

from pu_geo.services.annotate import ranking

first = ranking.is_ranking
ranking.is_ranking = lambda layout, patience_s: (layout.folder / "is-ranking").exists() or first(layout, patience_s)
runpy.run_path({app!r}, run_name="__main__")
"""  # its first ranking goes on for as long as a file lies in the project


def target(page) -> dict | None:
    return page.evaluate("window.__pugeo.target")


def named(page) -> str:
    wait_for_frames(page, 150)  # it is drawn with the next frame
    return page.locator(".pugeo .keys").inner_text().replace("\n", " ")


def number(page, building: str) -> str:
    """What a building is called: its place in the footprint file; its id is for the tooltip."""
    return f"Building {page.evaluate('window.__pugeo.ids()').index(building) + 1}"


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
    wait_for_frames(page, 300)


def test_keys_act_on_one_building_in_view(page, village, screenshots: Path) -> None:
    open_view(page, village)
    before, ids = village.labels(), queue(page)["ids"]
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        wait_for_frames(page, 700)
        assert target(page) == {"id": ids[0], "on": "queue"}, "without scrolling"
        box = page.locator(".pugeo .keys").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] < 30, "named in one line"
        page.screenshot(path=screenshots / f"annotate-{width}.png")
    see_all(page)
    page.mouse.move(*next(place for each, place in spots(page).items() if each not in ids))
    assert named(page) == f"Keys: {number(page, ids[0])}, in the queue"
    assert f"keys answer {number(page, ids[0]).lower()} in the queue" in page.locator(".pugeo .tooltip").inner_text()
    assert page.locator(".pugeo .large.target").count() == 1

    # S12: the key labelled the queue's building, of which nothing was on the screen.
    page.set_viewport_size({"width": 1280, "height": 180})
    wait_for_frames(page, 300)
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 700")
    wait_for_frames(page, 300)
    page.mouse.move(640, 100)
    assert target(page) is None
    press(page, "2", "Enter", "n")
    assert (queue(page)["current"], queue(page)["skipped"], on_page(page)) == (ids[0], [], before)
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 0")
    page.set_viewport_size({"width": 1400, "height": 900})
    wait_for_frames(page, 400)
    press(page, "2")
    assert on_page(page) == {**before, ids[0]: "not_damaged"}
    assert named(page) == f"Keys: {number(page, ids[1])}, in the queue"

    show_wall(page)
    see_all(page)
    building, place = next(each for each in spots(page, 40).items() if each[0] not in on_page(page))
    page.mouse.click(*place)
    assert target(page) == {"id": building, "on": "map"}
    leave_behind(page)
    assert target(page) is None
    press(page, "2", "0", "Backspace", "Enter")
    assert named(page) == NO_TARGET
    page.locator(".pugeo .wallpane").hover()  # else the scores of the click, once they come, put the chips in another order
    first, second, walked, third = wall(page)[:4]
    ask(page, "select", first)
    wait_for_frames(page, 300)  # the wall scrolls there
    page.mouse.move(*chip(page, third))
    press(page, "ArrowRight", "ArrowRight")
    assert target(page)["id"] == walked, "who walks by keys means the chip walked to, until the pointer moves"
    x, y = chip(page, third)
    page.mouse.move(x + 3, y + 3)
    assert target(page) == {"id": third, "on": "wall"}
    page.mouse.click(*chip(page, second))
    expected = on_page(page)
    page.mouse.wheel(0, 30_000)
    page.wait_for_function("window.__pugeo.chipOf(window.__pugeo.selected) === null")
    leave_behind(page)
    press(page, "1" if expected.get(second) != "positive" else "2")
    assert named(page) == NO_TARGET, "a chip that was scrolled away"
    settle(page)
    assert village.labels() == on_page(page) == expected


def test_the_look_of_the_map(page, village) -> None:
    open_view(page, village)
    see_all(page)
    line, picture = page.locator(".pugeo header"), page.locator(".pugeo .mappane")
    long = (
        ("Saved", "1 damaged"),
        ("Saving 1,234 …", "1,234 damaged"),
        ("1,234 not saved yet: no answer from the server", "x" * 90),
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wait_for_frames(page, 100)
        before = picture.bounding_box()["y"]
        for texts in long:
            for name, text in zip((".status", ".counts"), texts, strict=True):
                line.locator(name).evaluate("(element, text) => (element.textContent = text)", text)
            is_waiting = "not saved" in texts[0]
            line.locator(".status").evaluate(
                "(element, state) => (element.dataset.state = state)", "waiting" if is_waiting else "saved"
            )
            is_cut = line.evaluate("(line) => line.scrollWidth > line.clientWidth")
            assert width < 1100 or not is_cut, f"the line is cut, {width} pixels wide"
            assert picture.bounding_box()["y"] == before, f"the map moved under clicks, {width} pixels wide"
    page.set_viewport_size({"width": 1400, "height": 900})
    show_wall(page)
    see_all(page)

    place = next(place for each, place in spots(page, 40).items() if each not in on_page(page))
    page.mouse.move(*place)
    looks = []
    for key in ("a", "s", "d", "Space", "p"):
        page.keyboard.press(key)
        looks.append(ask(page, "look"))
    assert [look["view"] for look in looks] == ["pre", "swipe", "post", "post", "post"]
    assert [look["outlines"] for look in looks] == [True, True, True, False, False]
    assert looks[-1]["colorBy"] == "scores"
    press(page, "Space", "?")
    assert page.locator(".pugeo .help").get_by_text("Shift + drag").first.is_visible()
    press(page, "?")
    page.mouse.move(place[0] + 1, place[1])  # the list lay over it
    tooltip = page.locator(".pugeo .tooltip")
    tooltip.get_by_text("Not reviewed").wait_for(timeout=30_000)
    page.mouse.click(*place)
    assert "Damaged" in tooltip.inner_text(), "the tooltip knows of the click at once"

    page.keyboard.press("f")
    settle(page)
    ask(page, "rest")  # where it rests is kept
    before = ask(page, "look")
    page.reload()
    wait_for_view(page)
    after = ask(page, "look")
    assert (after["view"], after["colorBy"]) == ("side", "scores")
    assert after["resolution"] == pytest.approx(before["resolution"], abs=1e-6)
    assert after["center"] == pytest.approx(before["center"], abs=0.01), "a reload keeps the view"
    half = picture.bounding_box()["width"] / 2
    first, second = [each for each in spots(page, 60) if each not in on_page(page)][:2]
    left, right = ask(page, "twinPixelOf", first), spot(page, first)
    assert (right[0] - left[0], right[1]) == (pytest.approx(half, abs=1.5), pytest.approx(left[1], abs=1.5))
    page.mouse.click(*left)
    page.mouse.click(*ask(page, "twinPixelOf", second), button="right")
    settle(page)
    assert {each: village.labels()[each] for each in (first, second)} == {first: "positive", second: "not_damaged"}
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    ask(page, "rest")
    left, right = ask(page, "twinPixelOf", first), spot(page, first)
    assert right[0] - left[0] == pytest.approx(half, abs=1.5), "one view, shown twice"


def test_what_the_imagery_hides_and_how_the_dates_fit(page, village) -> None:
    cloudy, dark, misaligned, hazy, one_date = village.ids[100:105]
    open_view(page, village)
    show_wall(page)
    place = go_to(page, cloudy)
    page.mouse.move(*place)
    tooltip, counts = page.locator(".pugeo .tooltip"), page.locator(".pugeo .counts")
    tooltip.get_by_text("Not assessed: cloud").wait_for(timeout=30_000)
    assert "overrides it" in tooltip.inner_text()
    assert "score" not in tooltip.inner_text()
    assert "2 not assessed" in counts.inner_text()
    hidden, plain = picture(page, place), picture(page, spot(page, village.ids[121]))
    page.mouse.move(*place)
    press(page, "Space")  # without what is drawn over the picture
    assert np.abs(hidden - picture(page, place)).mean() > 15, "it is hatched"
    assert np.abs(plain - picture(page, spot(page, village.ids[121]))).mean() < 3
    page.mouse.move(*place)
    press(page, "Space")
    page.mouse.click(*place)
    settle(page)
    assert "1 not assessed" in counts.inner_text()
    red, _, blue = picture(page, place).mean(axis=(0, 1))
    assert red - blue > 40, "an answer overrides it"
    press(page, "Control+z")
    settle(page)
    np.testing.assert_allclose(picture(page, place), hidden, atol=12)

    for building, reason in ((dark, "nodata"), (misaligned, "misaligned"), (hazy, "cloud"), (one_date, None)):
        page.mouse.move(*go_to(page, building))
        wait_for_frames(page, 200)
        page.keyboard.press("3")
        marked = page.locator(".pugeo .picker .choice.on")
        assert [each.get_attribute("data-reason") for each in marked.all()] == ([reason] if reason else [])
    press(page, "b")  # the analyst knows better
    settle(page)
    reasons = {each: village.answers()[each].reason for each in (dark, misaligned, hazy, one_date)}
    assert reasons == {dark: "nodata", misaligned: "misaligned", hazy: "cloud", one_date: "no_building"}
    show = page.locator(".pugeo .wallpane select[aria-label=Show]")
    for value, expected in (("misaligned", [misaligned]), ("hidden", [cloudy])):
        show.select_option(value)
        assert wall(page) == expected

    page.keyboard.press("v")
    page.wait_for_function("window.__pugeo.arrows().arrows.length > 5")
    drawn = ask(page, "arrows")
    assert f"arrows {drawn['times']}×, longest 5.0 m" in page.locator(".pugeo .legend").inner_text()
    for arrow in drawn["arrows"]:
        along = [head - tail for head, tail in zip(arrow["head"], arrow["tail"], strict=True)]
        expected = [metres * drawn["times"] / 0.5 / 0.5 * (arrow["quality"] > 0) for metres in (3, 4)]
        assert along == pytest.approx(expected, abs=0.5), "to the east and, as screens count, down to the south"
    go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached", timeout=30_000)
    go(page, "Annotate")
    wait_for_view(page)
    page.wait_for_function("window.__pugeo.arrows().arrows.length > 0")
    button = page.locator(".pugeo button[aria-label*='arrows']")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    page.wait_for_function("window.__pugeo.arrows().arrows.length === 0")


def picture(page, place: list[float], half: int = 8) -> np.ndarray:
    """What is drawn around a place, int [H, W, 3], with the pointer elsewhere."""
    page.mouse.move(5, 5)
    wait_for_frames(page, 250)
    ask(page, "tiled")
    clip = {"x": place[0] - half, "y": place[1] - half, "width": 2 * half, "height": 2 * half}
    shot = np.frombuffer(page.screenshot(clip=clip), np.uint8)
    return cv2.imdecode(shot, cv2.IMREAD_COLOR)[..., ::-1].astype(int)


def test_nothing_moves_under_the_pointer_while_a_ranking_comes_and_goes(
    page, village, tmp_path: Path, screenshots: Path
) -> None:
    """On the map, and on the card of the building that was clicked last."""
    script, is_ranking = tmp_path / "server.py", village.layout.folder / "is-ranking"
    script.write_text(RANKING_SERVER.format(app=str(REPOSITORY / "app.py")), encoding="utf-8")
    with AppServer(tmp_path / "home", project=village.layout, script=script) as server:
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"{server.address}/annotate")
            wait_for_view(page)
            press(page, "i")
            clicked = next(building for building in village.ids if building not in on_page(page))
            middle = go_to(page, clicked)
            before = spots(page)
            is_ranking.touch()
            page.mouse.click(*middle)
            page.get_by_text("Ranking 400 buildings").wait_for(timeout=60_000)
            page.wait_for_timeout(500)
            page.screenshot(path=screenshots / f"ranking_{width}.png")
            assert {building: spot(page, building) for building in before} == before
            queueing.advance(village.layout, "ann", done=queue(page)["id"])
            is_ranking.unlink()
            page.get_by_text("Ranking 400 buildings").wait_for(state="detached", timeout=60_000)
            page.wait_for_timeout(500)
            assert {building: spot(page, building) for building in before} == before
            assert number(page, clicked) in page.locator(".pugeo .card").inner_text()


def test_a_comment_goes_on_when_the_next_queue_comes_and_none_of_its_letters_is_an_answer(page, village) -> None:
    open_view(page, village)
    press(page, "i", "1", "ArrowLeft")  # back to the building that was answered
    settle(page)
    before, first = village.labels(), queue(page)
    comment = page.locator(".pugeo .card textarea")
    comment.click()
    page.keyboard.type("next t")
    queueing.advance(village.layout, "ann", done=first["id"])
    other = next(each for each in village.ids if each not in {*before, *first["ids"]})
    village.put("bob", {other: "positive"})
    ask(page, "rerun")
    page.wait_for_function("(id) => window.__pugeo.queue().id !== id", arg=first["id"], timeout=60_000)
    page.keyboard.type("o church, 2 floors down")
    page.locator(".pugeo .card .who").click()  # which leaves the field
    settle(page)
    assert village.answers()[first["current"]].comment == "next to church, 2 floors down"
    assert village.labels() == {**before, other: "positive"}

    village.put("bob", {first["current"]: "positive"})
    comment.click()
    page.keyboard.type("and ")
    village.put("bob", {first["current"]: "cleared"})  # the field goes away
    comment.wait_for(state="hidden", timeout=60_000)
    page.keyboard.type("2 cars, 1 tree")
    page.wait_for_timeout(500)
    settle(page)
    assert village.labels() == {
        **{each: label for each, label in before.items() if each != first["current"]},
        other: "positive",
    }


@pytest.mark.parametrize("purpose", ["audit", "stop"])
@pytest.mark.parametrize("size", [(1280, 720), (1400, 900)])
def test_the_banner_of_a_check_keeps_its_height_while_one_answers(
    page, village, size: tuple[int, int], purpose: str, screenshots: Path
) -> None:
    """It grew when a check was skipped, when another analyst joined, and when all were answered; the map jumped by it."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    (run,) = [each.name for each in (village.layout.folder / "runs").iterdir()]
    if purpose == "audit":
        check = random_audits.begin_audit(village.layout, run, 8, "ann")
    else:
        check = random_audits.begin_stop_check(village.layout, "ann")
    open_view(page, village)
    banner, tops, shown = page.locator(".st-key-check-banner"), set(), set()

    def look() -> None:
        settle(page)
        settled(page)
        page.wait_for_timeout(300)
        tops.add(page.locator(".pugeo").bounding_box()["y"])
        shown.add(banner.inner_text())
        page.screenshot(path=screenshots / f"check_{purpose}_{size[0]}_{len(shown)}.png")
        has_room = (
            "([...all]) => all.every((one) => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth)"
        )
        assert page.evaluate(f"({has_room})(document.querySelectorAll('.st-key-check-banner'))"), "nothing is cut off"

    look()
    random_audits.check_queue(village.layout, "bob", check)  # so there is a button that ends it for all
    for key in "n22122222" if purpose == "audit" else "2n2":
        press(page, key)
        look()
    assert len(shown) > 1, "what it shows has changed"
    if purpose == "audit":
        press(page, "2")
        page.get_by_role("button", name="See the result").wait_for(timeout=60_000)
        look()
    assert len(tops) == 1


def test_a_refusal_moves_no_map(page, village) -> None:
    """It stood above the map until the next click, which then came down on another building."""
    open_view(page, village)
    settled(page)
    top = still(page, page.locator(".pugeo"))["y"]
    page.get_by_role("button", name="Grades").first.click()
    names = page.locator("[class*=st-key-grade-name] input")
    names.nth(0).wait_for(timeout=30_000)
    names.nth(1).fill(names.nth(0).input_value())
    page.get_by_role("button", name="Save the scale").click()
    page.get_by_text("each occurs once").wait_for(timeout=60_000)
    settled(page)
    assert page.locator(".pugeo").bounding_box()["y"] == top
