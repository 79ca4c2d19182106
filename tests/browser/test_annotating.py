"""Reasons, damage types and comments; the lasso; pre and post side by side; tooltip and help."""

from __future__ import annotations

import re

import pytest
from browser.damage_view_steps import (
    drag_lasso,
    on_page,
    on_server,
    open_view,
    queue,
    refuse,
    settle,
    spot,
    spots,
    told,
)

from pu_geo.ui.build import FRONTEND

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCRIPT = "<script>window.hit = 1</script>"


def details(app: str) -> dict[str, dict]:
    return told(app)["details"]


# Why not assessable


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (["3", "c"], "cloud"), (["3", "o"], "outside_image"), (["3", "n"], "nodata"), (["3", "m"], "misaligned"),
        (["3", "b"], "no_building"), (["3", "u"], "unclear"), (["3", "Escape", "c"], "unclear"), (["3"], "unclear"),
    ],
)  # fmt: skip
def test_one_letter_says_why_and_none_is_needed(chromium_page, app: str, keys: list[str], reason: str) -> None:
    page = chromium_page
    open_view(page, app)
    building_id, place = next(iter(spots(page).items()))
    page.mouse.move(*place)
    for key in keys:
        page.keyboard.press(key)
    settle(page)
    assert on_server(app) == on_page(page) == {building_id: "not_assessable"}
    assert details(app)[building_id]["reason"] == reason
    assert page.evaluate("(id) => window.__pugeo.details(id).reason", building_id) == reason
    assert page.locator(".pugeo .picker").is_visible() == (keys == ["3"])


def test_a_reason_and_its_answer_are_one_act(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.mouse.move(*next(iter(spots(page).values())))
    for key in ("3", "c", "Control+z"):
        page.keyboard.press(key)
    settle(page)
    assert on_server(app) == on_page(page) == {}


def test_in_the_queue_the_letter_is_for_the_building_before_and_keeps_what_that_was_shown_for(
    chromium_page, app: str
) -> None:
    page = chromium_page
    open_view(page, app, "queue=2")
    ids = queue(page)["ids"]
    page.keyboard.press("1")
    page.keyboard.press("3")  # the last one, a check: the next queue comes while the picker is open
    page.wait_for_function("window.__pugeo.queue().id === 'queue-1'", timeout=15_000)
    settle(page)
    page.keyboard.press("m")
    settle(page)
    assert on_server(app) == on_page(page) == {ids[0]: "positive", ids[1]: "not_assessable"}
    assert [(each["reason"], each["shown"], each["queue"]) for each in told(app)["sets"]] == [
        ("", "exploit", "queue-0"), ("unclear", "audit", "queue-0"), ("misaligned", "audit", "queue-0"),
    ]  # fmt: skip


def test_moving_on_in_the_queue_leaves_the_reason_unclear(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    for key in ("3", "ArrowRight", "c"):
        page.keyboard.press(key)
    settle(page)
    assert details(app)[ids[0]]["reason"] == "unclear"


# The card


def open_card(page, place: list[float]) -> None:
    page.mouse.click(*place)
    page.keyboard.press("i")
    page.locator(".pugeo .card").wait_for()


def test_types_and_comment_of_a_building_are_operations_like_clicks(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, a), (second, b) = list(spots(page).items())[-2:]  # the card covers the upper left
    open_card(page, a)
    card = page.locator(".pugeo .card")
    assert "Positive" in card.inner_text()
    card.get_by_role("button", name="roof").click()
    card.get_by_role("button", name="walls").click()
    card.locator("textarea").fill("two of 3 <b>walls</b> gone")
    page.mouse.click(*b)  # the comment was not confirmed by anything
    settle(page)
    assert on_server(app) == on_page(page) == {first: "positive", second: "positive"}
    assert details(app)[first] == {"by": "ann", "damage_types": ["roof", "walls"], "comment": "two of 3 <b>walls</b> gone"}
    assert details(app)[second] == {"by": "ann"}
    page.mouse.move(*a)
    page.keyboard.press("2")
    settle(page)
    assert details(app)[first] == {"by": "ann", "comment": "two of 3 <b>walls</b> gone"}, "types go with positives"
    page.keyboard.press("Control+z")
    settle(page)
    assert details(app)[first]["damage_types"] == ["roof", "walls"]


def test_letters_in_a_comment_are_no_shortcuts_and_escape_gives_the_keys_back(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building_id, place = next(iter(spots(page).items()))
    open_card(page, place)
    page.locator(".pugeo .card textarea").focus()
    page.keyboard.type("2 3 q cab")
    page.keyboard.press("Escape")
    settle(page)
    assert details(app)[building_id]["comment"] == "2 3 q cab"
    page.keyboard.press("2")
    settle(page)
    assert on_server(app) == {building_id: "not_damaged"}


def test_a_comment_is_kept_when_another_building_is_selected_while_it_is_written(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, place), (second, _) = list(spots(page).items())[-2:]
    open_card(page, place)
    page.locator(".pugeo .card textarea").focus()
    page.keyboard.type("half")
    page.evaluate("(id) => window.__pugeo.select(id)", second)
    settle(page)
    assert details(app)[first]["comment"] == "half"
    assert second not in details(app)


def test_a_comment_survives_a_server_that_refuses_and_a_reload_while_it_is_written(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building_id, place = next(iter(spots(page).items()))
    open_card(page, place)
    settle(page)
    refuse(app, "lock")
    page.locator(".pugeo .card textarea").focus()
    page.keyboard.type("half a sentence")
    open_view(page, app)
    refuse(app, "")
    settle(page, 30)
    assert details(app)[building_id]["comment"] == "half a sentence"


def test_texts_of_others_are_never_markup(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    nasty = next(each for each in page.evaluate("window.__pugeo.ids()") if each.startswith("<"))
    open_card(page, spot(page, nasty))
    card = page.locator(".pugeo .card")
    card.get_by_role("button", name=SCRIPT).click()
    card.locator("textarea").fill(SCRIPT)
    page.keyboard.press("Control+Enter")
    settle(page)
    page.mouse.move(*spot(page, nasty))
    page.keyboard.press("3")
    assert page.locator(".pugeo .picker .who").inner_text() == nasty
    page.keyboard.press("c")
    settle(page)
    open_view(page, app, "queue=3")
    page.evaluate("(id) => window.__pugeo.select(id)", nasty)
    page.keyboard.press("i")
    assert card.locator("b").inner_text() == nasty
    assert card.locator("textarea").input_value() == SCRIPT
    assert page.locator(".pugeo .why").inner_text().endswith("no. 0 <b>")
    assert page.evaluate("window.hit") is None
    assert page.locator(".pugeo img, .pugeo script, .pugeo .why b").count() == 0


def test_a_button_held_down_while_scores_arrive_still_counts(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building_id, place = list(spots(page).items())[-1]
    open_card(page, place)
    box = page.locator(".pugeo .card").get_by_role("button", name="roof").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    settle(page)  # the new ranking arrives and the card is drawn again
    page.mouse.up()
    settle(page)
    assert details(app)[building_id] == {"by": "ann", "damage_types": ["roof"]}


def test_a_page_that_only_shows_has_a_card_without_buttons(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building_id, place = next(iter(spots(page).items()))
    open_card(page, place)
    page.locator(".pugeo .card").get_by_role("button", name="roof").click()
    settle(page)
    open_view(page, app, "mode=view&queue=3")
    page.mouse.click(*spot(page, building_id))  # the card opens by itself where nothing is labeled
    page.locator(".pugeo .card").wait_for()
    text = page.locator(".pugeo .card").inner_text()
    assert "by ann" in text
    assert "roof" in text
    assert page.locator(".pugeo .card .choice").count() == 0
    assert page.locator(".pugeo .queuepane").is_hidden()


# Map


def test_a_lasso_marks_what_lies_in_it_as_one_act(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    box = page.locator(".pugeo .mappane").bounding_box()
    left, top, side = box["x"] + 200, box["y"] + 150, 300
    drag_lasso(page, [[left, top], [left + side, top], [left, top + side]])  # half of a square
    seen = page.evaluate("window.__pugeo.onScreen(0).map((id) => [id, window.__pugeo.pixelOf(id)])")
    inside = {each for each, (x, y) in seen if x > left and y > top and x - left + y - top < side}
    near = {each for each, (x, y) in seen if x > left - 9 and y > top - 9 and x - left + y - top < side + 9}
    page.locator(".boxbar .choice.label3").click()
    page.keyboard.press("c")
    settle(page)
    marked = on_server(app)
    assert len(inside) > 10
    assert inside <= set(marked) <= near
    assert marked == on_page(page)
    assert {details(app)[each]["reason"] for each in marked} == {"cloud"}, "one letter is enough for all"
    page.keyboard.press("Control+z")
    settle(page)
    assert on_server(app) == on_page(page) == {}


def test_side_by_side_shows_one_view_twice_and_survives_a_reload(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.mouse.move(*next(iter(spots(page).values())))
    page.keyboard.press("f")
    open_view(page, app)
    assert page.evaluate("window.__pugeo.look().view") == "side"
    page.wait_for_timeout(300)
    first, second = list(spots(page))[:2]
    left = page.evaluate("(id) => window.__pugeo.pixelOf(id, true)", first)
    right = spot(page, first)
    half = page.locator(".pugeo .mappane").bounding_box()["width"] / 2
    assert right[0] - left[0] == pytest.approx(half, abs=1.5)
    assert right[1] == pytest.approx(left[1], abs=1.5)
    page.mouse.click(*left)
    page.mouse.move(*page.evaluate("(id) => window.__pugeo.pixelOf(id, true)", second))
    page.keyboard.press("2")
    settle(page)
    assert on_server(app) == on_page(page) == {first: "positive", second: "not_damaged"}
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(600)
    left, right = page.evaluate("(id) => window.__pugeo.pixelOf(id, true)", first), spot(page, first)
    assert right[0] - left[0] == pytest.approx(half, abs=1.5)
    page.keyboard.press("d")
    page.wait_for_timeout(300)
    page.mouse.click(*spot(page, first))
    settle(page)
    assert on_server(app) == {second: "not_damaged"}


def test_the_tooltip_says_what_was_just_clicked(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    place = next(iter(spots(page).values()))
    page.mouse.move(*place)
    tooltip = page.locator(".pugeo .tooltip")
    tooltip.get_by_text("Unlabeled").wait_for()
    page.mouse.click(*place)
    assert "Positive" in tooltip.inner_text()
    page.keyboard.press("3")
    assert "Not assessable: unclear" in tooltip.inner_text()


def test_the_help_names_every_key(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.mouse.move(*next(iter(spots(page).values())))
    page.keyboard.press("?")
    named = " ".join(page.locator(".pugeo .help dt").all_inner_texts()).upper()
    sources = "".join((FRONTEND / "src" / name).read_text() for name in ("damage_view.js", "queue_pane.js"))
    used = set(re.findall(r'(?:case|name ===) "(\w|space|Escape|Backspace|Enter)"', sources)) | set("asdf123")
    assert len(used) > 15
    spoken = {"Escape": "ESC"}
    missing = [key for key in used if not re.search(rf"\b{spoken.get(key, key).upper()}\b", named)]
    assert not missing
