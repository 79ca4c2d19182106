"""Clicks that cannot be stored at once wait, survive reloads, other screens and closed tabs, and are stored once."""

import pytest

from tests.browser import steps
from tests.browser.steps import open_view, queue, see_all

pytestmark = [pytest.mark.browser, pytest.mark.ci]
OPERATIONS = "**/operations"
NASTY = "<img src=x onerror='window.hit = 1'>"


def refuse(route) -> None:
    route.fulfill(status=503, json={"problem": "The disk is full.", "hint": "Make room."})


def click_some(page, village, n: int = 3) -> dict[str, str]:
    """Click buildings that nobody has labeled; return all labels that are expected then."""
    before = steps.on_page(page)
    places = [each for each in steps.spots(page, 60).items() if each[0] not in {**before, **village.labels()}][:n]
    assert len(places) == n
    for _, place in places:
        page.mouse.click(*place)
    return {**before, **{building: "positive" for building, _ in places}}


def wait_until(page, status: str) -> None:
    page.wait_for_function("(status) => window.__pugeo.status === status", arg=status)


def wait_for_pending(page, n: int) -> None:
    page.wait_for_function("(n) => window.__pugeo.pending() === n", arg=n)


def all_stored(page, village, expected: dict[str, str]) -> None:
    steps.settle(page)
    assert village.labels() == steps.on_page(page) == expected
    operations = village.operations()
    assert len(operations) == len(set(operations)), "each one once"


def test_a_server_that_refuses_a_bad_line_and_a_page_that_is_left(page, village) -> None:
    before = village.labels()
    open_view(page, village)
    see_all(page)
    page.route(OPERATIONS, refuse)
    ids = queue(page)["ids"]
    steps.press(page, "3", "5", "n", "q")  # a digit after 3 grades the next one; the other queue waits behind the answers
    expected = click_some(page, village)
    assert (expected[ids[0]], expected[ids[1]]) == ("not_assessable", "positive")
    wait_until(page, "waiting")
    status = page.locator(".pugeo .status")
    assert "The disk is full." in status.inner_text() + str(status.get_attribute("title"))
    assert village.labels() == before
    open_view(page, village)  # a reload
    wait_for_pending(page, 6)
    assert queue(page)["skipped"] == [ids[2]]
    page.unroute(OPERATIONS)
    all_stored(page, village, expected)
    answers = [village.answers()[each] for each in ids[:2]]
    assert [(answer.grade, answer.reason) for answer in answers] == [("", "unclear"), ("major", "")], "no digit is a reason"
    page.wait_for_function("(id) => !window.__pugeo.queue().ids.includes(id)", arg=ids[0])

    page.route(OPERATIONS, refuse)
    see_all(page)
    expected = click_some(page, village)
    steps.go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached")
    page.unroute(OPERATIONS)
    steps.go(page, "Annotate")
    steps.wait_for_view(page)
    all_stored(page, village, expected)

    page.context.set_offline(True)
    expected = click_some(page, village)
    wait_until(page, "waiting")
    page.context.set_offline(False)
    all_stored(page, village, expected)

    held: list = []
    page.route(OPERATIONS, lambda route: route.continue_() if held else held.append(route))
    expected = click_some(page, village)
    steps.until(lambda: held, 30, page)
    page.goto("about:blank")
    page.unroute(OPERATIONS)
    open_view(page, village)
    steps.until(lambda: village.labels() == expected, 60, page)  # sent as the page went, or by the next one
    all_stored(page, village, expected)


def test_a_closed_tab_leaves_its_clicks_to_the_next_one_and_a_living_one_keeps_them(page, village) -> None:
    context, before = page.context, village.operations()
    context.route(OPERATIONS, refuse)
    open_view(page, village)
    see_all(page)
    expected = click_some(page, village)
    second = context.new_page()
    open_view(second, village)
    assert (steps.ask(page, "pending"), steps.ask(second, "pending")) == (3, 0)
    page.goto("about:blank")  # as good as closed
    wait_for_pending(second, 3)  # the one that waits for it takes over
    second.close()
    third = context.new_page()
    open_view(third, village, "damage_map")
    steps.settled(third)
    assert third.evaluate("window.__pugeo.pending()") == 0, "a page that cannot label leaves them to one that can"
    open_view(third, village)
    wait_for_pending(third, 3)
    context.unroute(OPERATIONS)
    all_stored(third, village, expected)
    names = [operation.rpartition("-") for operation in village.operations()[len(before) :]]
    assert [n for *_, n in names] == ["1", "2", "3"], "under their old ids, in order"
    assert len({session for session, *_ in names}) == 1
    assert third.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('pugeo:log:'))") == []
