"""Clicks that cannot be stored at once wait, survive reloads, other screens and closed tabs, and are stored once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pu_geo.project.layout import Layout
from tests.browser.conftest import Village
from tests.browser.real_app import AppServer
from tests.browser.steps import ask, go, on_page, open_view, press, queue, see_all, settle, spots, until, wait_for_view

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OPERATIONS = "**/operations"
NASTY = "<img src=x onerror='window.hit = 1'>"


def refuse(route) -> None:
    route.fulfill(status=503, json={"problem": "The disk is full.", "hint": "Make room."})


def free(page, village, n: int) -> dict[str, list[float]]:
    """Places of buildings that nobody has labeled."""
    taken = {**on_page(page), **village.labels()}
    return dict([each for each in spots(page, 60).items() if each[0] not in taken][:n])


def click_some(page, village, n: int = 3) -> dict[str, str]:
    """Click unlabeled buildings; return all labels that are expected then."""
    before, places = on_page(page), free(page, village, n)
    assert len(places) == n
    for place in places.values():
        page.mouse.click(*place)
    return {**before, **dict.fromkeys(places, "positive")}


def wait_until(page, status: str) -> None:
    page.wait_for_function("(status) => window.__pugeo.status === status", arg=status, timeout=30_000)


def assert_stored(page, village, expected: dict[str, str]) -> None:
    settle(page)
    assert village.labels() == on_page(page) == expected
    operations = village.operations()
    assert len(operations) == len(set(operations)), "each one once"


def test_a_server_that_refuses(page, village) -> None:
    before = village.labels()
    open_view(page, village)
    see_all(page)
    page.route(OPERATIONS, refuse)
    ids = queue(page)["ids"]
    press(
        page, "3", "5", "n", "q"
    )  # a digit after 3 grades the next one; the wish for another queue waits behind the answers
    expected = click_some(page, village)
    assert (expected[ids[0]], expected[ids[1]]) == ("not_assessable", "positive")
    wait_until(page, "waiting")
    assert "The disk is full." in page.locator(".pugeo .status").inner_text() + str(
        page.locator(".pugeo .status").get_attribute("title")
    )
    assert village.labels() == before
    open_view(page, village)  # a reload
    page.wait_for_function("window.__pugeo.pending() === 6", timeout=30_000)
    assert queue(page)["skipped"] == [ids[2]]
    page.unroute(OPERATIONS)
    assert_stored(page, village, expected)
    assert {each: village.answers()[each].grade for each in ids[:2]} == {ids[0]: "", ids[1]: "major"}
    assert village.answers()[ids[0]].reason == "unclear", "no digit is a reason"
    page.wait_for_function("(id) => !window.__pugeo.queue().ids.includes(id)", arg=ids[0], timeout=60_000)

    page.route(OPERATIONS, refuse)
    see_all(page)
    expected = click_some(page, village)
    go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached", timeout=30_000)
    page.unroute(OPERATIONS)
    go(page, "Annotate")
    wait_for_view(page)
    assert_stored(page, village, expected)

    def refuse_for_good(route) -> None:
        message = json.loads(route.request.post_data)
        words = {"problem": f"1 of 1 labels were refused. {NASTY}", "hint": "Reload the page."}
        route.fulfill(json={"session": message["session"], "n": message["ops"][-1]["n"], "event": 0, "refused": words})

    page.route(OPERATIONS, refuse_for_good)
    see_all(page)
    click_some(page, village, 1)
    line = page.locator(".pugeo .refused")
    line.wait_for(timeout=30_000)
    assert line.locator("span").inner_text() == f"1 of 1 labels were refused. {NASTY} Reload the page."
    line.get_by_role("button").click()
    assert line.is_hidden()
    page.unroute(OPERATIONS)
    settle(page)
    assert village.labels() == expected


def test_a_bad_line_and_a_page_that_is_left(page, village) -> None:
    open_view(page, village)
    see_all(page)
    messages: list[int] = []
    first: list = []

    def lose_the_first_two(route) -> None:
        messages.append(len(json.loads(route.request.post_data)["ops"]))
        if len(messages) == 1:
            first.append(route)  # until all are clicked
        elif len(messages) == 2:
            route.abort()
        else:
            route.continue_()

    page.route(OPERATIONS, lose_the_first_two)
    expected = click_some(page, village)
    until(lambda: first or page.wait_for_timeout(50), 30)
    first[0].fetch()  # stored, and the answer gets lost
    first[0].abort()
    assert_stored(page, village, expected)
    assert messages == [1, 3, 3]
    page.unroute(OPERATIONS)

    page.context.set_offline(True)
    expected = click_some(page, village)
    wait_until(page, "waiting")
    page.context.set_offline(False)
    assert_stored(page, village, expected)

    held: list = []
    page.route(OPERATIONS, lambda route: route.continue_() if held else held.append(route))
    expected = click_some(page, village)
    until(lambda: held or page.wait_for_timeout(50), 30)
    page.wait_for_timeout(300)
    assert len(held) == 1
    page.goto("about:blank")
    until(lambda: village.labels() == expected, 30)  # what waited for its turn went past what was on its way


def test_a_closed_tab_leaves_its_clicks_to_the_next_one_and_a_living_one_keeps_them(page, village) -> None:
    context, before = page.context, village.operations()
    context.route(OPERATIONS, refuse)
    open_view(page, village)
    see_all(page)
    expected = click_some(page, village)
    second = context.new_page()
    open_view(second, village)
    second.wait_for_timeout(2_500)  # it looks twice
    assert (ask(page, "pending"), ask(second, "pending")) == (3, 0)
    second.close()
    page.goto("about:blank")  # as good as closed
    third = context.new_page()
    open_view(third, village, "damage_map")
    third.wait_for_timeout(500)
    assert third.evaluate("window.__pugeo.pending()") == 0, "a page that cannot label leaves them to one that can"
    open_view(third, village)
    third.wait_for_function("window.__pugeo.pending() === 3", timeout=30_000)
    context.unroute(OPERATIONS)
    assert_stored(third, village, expected)
    names = [operation.rpartition("-") for operation in village.operations()[len(before) :]]
    assert [n for *_, n in names] == ["1", "2", "3"], "under their old ids, in order"
    assert len({session for session, *_ in names}) == 1
    assert third.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('pugeo:log:'))") == []


def test_a_server_that_is_killed_and_comes_back(page, village: Village, tmp_path: Path) -> None:
    layout: Layout = village.layout
    with AppServer(tmp_path / "home", project=layout) as server:
        own = Village(server.address, layout, village.ids)
        page.goto(f"{server.address}/annotate")
        wait_for_view(page)
        see_all(page)
        click_some(page, own)
        server.end()
        expected = click_some(page, own)
        wait_until(page, "waiting")
        server.start()
        assert_stored(page, own, expected)
