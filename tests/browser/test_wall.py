"""The wall of chips: its orders and filters, chips like a chosen one, a larger picture; with a map and without."""

from __future__ import annotations

import urllib.request

import pytest
from browser.damage_view_steps import chip, on_page, on_server, open_view, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def wall_ids(page) -> list[str]:
    return page.evaluate("window.__pugeo.wallIds()")


def choose(page, label: str, value: str) -> list[str]:
    page.get_by_label(label, exact=True).select_option(value)
    return wall_ids(page)


def test_orders_of_the_wall_without_a_map(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "panes=wall")
    scores = {
        each: page.evaluate("(id) => window.__pugeo.score(id)", each) for each in page.evaluate("window.__pugeo.ids()")
    }
    by_score = [scores[each] for each in choose(page, "Order", "score")]
    assert by_score == sorted(by_score, reverse=True)
    doubts = [abs(scores[each] - 0.5) for each in choose(page, "Order", "uncertain")]
    assert doubts == sorted(doubts)
    assert choose(page, "Order", "id") == sorted(scores)
    width = page.locator(".pugeo .wallpane").bounding_box()["width"]
    assert width > 0.95 * page.locator(".pugeo").bounding_box()["width"], "the wall has all the room"
    first, second = wall_ids(page)[:2]
    page.mouse.click(*chip(page, first))
    page.mouse.click(*chip(page, second), button="right")
    settle(page)
    assert on_server(app) == on_page(page) == {first: "positive", second: "not_damaged"}


def test_filters_of_the_wall(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "conflicts=1")
    ids = wall_ids(page)[:3]
    for building_id, key in zip(ids, "123", strict=True):
        page.mouse.move(*chip(page, building_id))
        page.keyboard.press(key)
    assert choose(page, "Show", "positive") == ids[:1]
    assert choose(page, "Show", "not_damaged") == ids[1:2]
    assert choose(page, "Show", "not_assessable") == ids[2:]
    assert len(choose(page, "Show", "unlabeled")) == 400 - 3
    assert set(choose(page, "Show", "conflicts")) == {"b00002", "b00005"}
    settle(page)
    open_view(page, app, "conflicts=1")
    assert set(wall_ids(page)) == {"b00002", "b00005"}, "the choice survives a reload"
    open_view(page, app)
    assert len(wall_ids(page)) == 400
    assert page.locator(".pugeo option[value=conflicts]").count() == 0


def test_chips_like_a_chosen_one_come_first_where_the_server_can_tell(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    before = wall_ids(page)
    chosen = before[4]
    page.mouse.move(*chip(page, chosen))
    page.keyboard.press("k")
    page.wait_for_timeout(500)
    assert wall_ids(page) == before, "404: nothing happens"
    ids = page.evaluate("window.__pugeo.ids()")
    at = ids.index(chosen)
    urllib.request.urlopen(f"{app}/harness/set?similar=400").close()
    page.keyboard.press("k")
    page.wait_for_function("window.__pugeo.order().order === 'like'", timeout=5_000)
    after = wall_ids(page)
    assert after[0] == chosen
    assert set(after[1:3]) == {ids[at - 1], ids[at + 1]}
    assert after[-1] == ids[-1], "a distance that nobody knows comes last"
    assert page.get_by_label("Order", exact=True).locator("option:checked").inner_text() == f"Like {chosen}"


def test_too_few_distances_are_no_order(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    before = wall_ids(page)
    urllib.request.urlopen(f"{app}/harness/set?similar=399").close()
    page.mouse.move(*chip(page, before[2]))
    page.keyboard.press("k")
    page.wait_for_timeout(500)
    assert wall_ids(page) == before


def test_a_chip_is_shown_larger_while_the_pointer_rests_on_it(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    page.mouse.move(*chip(page, wall_ids(page)[1]))
    preview = page.locator(".pugeo .preview")
    assert preview.is_hidden()
    preview.wait_for(timeout=1_500)
    assert preview.locator(".picture").first.bounding_box()["width"] > 150
    page.keyboard.press("1")
    assert "Positive" in preview.inner_text()
