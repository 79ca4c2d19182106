"""Operations over HTTP: stored and acknowledged without a run of the page, once, in order, whatever happens on the way."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from itertools import pairwise

import pytest
from browser.damage_view_steps import click_some, on_page, on_server, open_view, queue, settle, spot, spots, told

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OPERATIONS = "**/operations"
WATCH = """() => {
  window.seen = [];
  const look = () => { window.seen.push(JSON.stringify(window.__pugeo.labels())); requestAnimationFrame(look); };
  look();
}"""


def switch(app: str, **how: str) -> None:
    urllib.request.urlopen(f"{app}/harness/set?{urllib.parse.urlencode(how)}").close()


def acknowledged(page, seconds: float = 15) -> None:
    page.wait_for_function("window.__pugeo.pending() === 0", timeout=seconds * 1000)


def sent_ops(request) -> list[dict]:
    return json.loads(request.post_data)["ops"]


def test_clicks_are_acknowledged_while_no_run_ends_and_the_last_one_is_ranked(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, a), (second, b) = list(spots(page).items())[:2]
    before = len(told(app)["runs"])
    switch(app, slow="3")
    page.mouse.click(*a)
    acknowledged(page, 1.5)
    page.mouse.click(*b)
    acknowledged(page, 1.0)
    assert on_server(app) == on_page(page) == {first: "positive", second: "positive"}
    assert page.evaluate("window.__pugeo.status") == "saved"
    assert not page.evaluate("window.__pugeo.fresh()"), "the run goes on"
    assert len(told(app)["runs"]) == before + 1, "and no second one beside it"
    switch(app)
    settle(page, 30)
    assert len(told(app)["runs"]) == before + 2


def test_many_clicks_make_few_runs(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    before = len(told(app)["runs"])
    for _ in range(2):
        for place in spots(page).values():
            page.mouse.click(*place)
            page.wait_for_timeout(30)
    settle(page)
    runs = told(app)["runs"][before:]
    assert on_server(app) == {}, "clicked twice"
    assert 2 <= len(runs) <= 8
    assert min(after - earlier for earlier, after in pairwise(runs)) > 0.24


def test_a_wish_for_the_next_queue_goes_after_what_was_before_it_and_holds_up_nothing(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=4")
    page.wait_for_timeout(700)  # the map has come to rest
    ids = queue(page)["ids"]
    other, place = next(each for each in spots(page).items() if each[0] not in ids)
    held: list = []
    page.route(OPERATIONS, lambda route: route.continue_() if held else held.append(route))
    page.keyboard.press("1")
    page.keyboard.press("q")
    page.mouse.click(*place)
    page.wait_for_timeout(1_000)
    assert told(app)["operations"] == [], "the wish waits for the answer before it"
    switch(app, slow="2")
    held[0].continue_()
    page.wait_for_function("window.__pugeo.pending() === 1", timeout=2_000)  # the wish
    assert on_server(app) == {ids[0]: "positive", other: "positive"}
    switch(app)
    page.wait_for_function("window.__pugeo.queue().id === 'queue-1'", timeout=15_000)
    settle(page)
    session = page.evaluate("window.__pugeo.session()")
    operations = told(app)["operations"]
    assert sorted(operations) == [f"{session}-{n}" for n in (1, 2, 3)]
    assert operations.index(f"{session}-1") < operations.index(f"{session}-2")
    assert told(app)["wishes"] == [[]]


@pytest.mark.parametrize("how", ["stored", "not stored"])
def test_an_answer_that_gets_lost_makes_it_send_again_and_nothing_is_stored_twice(chromium_page, app: str, how: str) -> None:
    page = chromium_page
    open_view(page, app)
    messages: list[int] = []

    def lose(route) -> None:
        messages.append(len(sent_ops(route.request)))
        if len(messages) == 1:
            if how == "stored":
                route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route(OPERATIONS, lose)
    places = click_some(page)
    settle(page)
    assert messages == [1, 3]
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")
    session = page.evaluate("window.__pugeo.session()")
    assert told(app)["operations"] == [f"{session}-{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize("status", [503, 500, 429])
def test_a_busy_server_is_asked_again_later_and_ever_more_seldom(chromium_page, app: str, status: int) -> None:
    page = chromium_page
    open_view(page, app)
    asked: list[int] = []
    page.route(OPERATIONS, lambda route: (asked.append(1), route.fulfill(status=status, body="Busy")))
    places = click_some(page)
    page.wait_for_function("window.__pugeo.status === 'waiting'", timeout=5_000)
    page.wait_for_timeout(1_000)
    assert 2 <= len(asked) <= 3, "at once, after 1 s, and 2.5 s later"
    assert on_server(app) == {}
    page.unroute(OPERATIONS)
    settle(page)
    assert on_server(app) == on_page(page) == dict.fromkeys(places, "positive")


@pytest.mark.parametrize("status", [404, 405])
def test_where_the_server_knows_no_such_address_they_travel_with_runs_of_the_page(
    chromium_page, app: str, status: int
) -> None:
    page = chromium_page
    open_view(page, app, "queue=4")
    asked: list[int] = []
    page.route(OPERATIONS, lambda route: (asked.append(1), route.fulfill(status=status, body="Not found")))
    ids = queue(page)["ids"]
    for key in ("1", "2", "Control+z", "3", "1", "1"):
        page.keyboard.press(key)
    page.wait_for_function("window.__pugeo.queue().id === 'queue-1'", timeout=15_000)
    settle(page)
    assert len(asked) == 1, "it is not asked each time"
    assert on_server(app) == on_page(page)
    assert set(on_server(app)) <= set(ids)
    n = len(told(app)["operations"])
    assert told(app)["operations"] == [f"{page.evaluate('window.__pugeo.session()')}-{k}" for k in range(1, n + 1)], (
        "in order"
    )


def test_page_data_older_than_what_was_stored_take_no_label_back(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, a), (second, b) = list(spots(page).items())[:2]
    switch(app, stale="1")
    page.evaluate(WATCH)
    page.mouse.click(*a)
    acknowledged(page)
    before = len(told(app)["runs"])
    page.mouse.click(*b, button="right")
    settle(page)
    assert len(told(app)["runs"]) > before, "old page data came"
    page.wait_for_timeout(300)
    seen = [json.loads(each) for each in page.evaluate("[...new Set(window.seen)]")]
    assert seen == [{}, {first: "positive"}, {first: "positive", second: "not_damaged"}]
    switch(app)
    page.keyboard.press("Control+z")
    settle(page)
    assert on_server(app) == on_page(page) == {first: "positive"}, "newer data say what holds"


def test_somebody_elses_later_answer_wins_over_what_was_stored(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    building, place = next(iter(spots(page).items()))
    switch(app, stale="1")
    page.mouse.click(*place)
    settle(page)
    put = {"put": json.dumps({building: "not_damaged"}), "by": "bob", "stale": "1"}
    switch(app, **put)
    page.wait_for_function("(id) => window.__pugeo.labels()[id] === 'not_damaged'", arg=building, timeout=8_000)


def test_what_is_refused_for_good_is_said_as_text_and_can_be_dismissed(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    said = "1 of 1 labels were refused. <img src=x onerror='window.hit = 1'>"
    switch(app, wrong=said)
    page.mouse.click(*next(iter(spots(page).values())))
    settle(page)
    line = page.locator(".pugeo .refused")
    line.wait_for(timeout=2_000)
    assert line.locator("span").inner_text() == f"{said} Reload the page."
    assert page.locator(".pugeo img").count() == 0
    assert page.evaluate("window.hit") is None
    assert on_server(app) == {}
    assert page.locator(".pugeo .status").inner_text() == "Saved"
    line.get_by_role("button").click()
    assert line.is_hidden()


def test_a_page_that_is_left_sends_what_was_waiting_for_its_turn(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    (first, a), (second, b) = list(spots(page).items())[:2]
    held: list = []
    page.route(OPERATIONS, lambda route: route.continue_() if held else held.append(route))
    page.mouse.click(*a)
    page.mouse.click(*b)
    page.wait_for_timeout(300)
    assert on_server(app) == {}
    page.goto("about:blank")
    page.wait_for_timeout(500)
    assert on_server(app) == {first: "positive", second: "positive"}


def test_answers_on_the_map_leave_the_map_where_it_is(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=2")
    page.wait_for_timeout(700)  # the map has come to rest at the current one
    page.evaluate("window.__pugeo.setView([750, 750], 2.2)")
    page.wait_for_timeout(300)
    look = page.evaluate("window.__pugeo.look()")
    first, second = queue(page)["ids"]
    page.mouse.click(*spot(page, first))
    page.mouse.click(*spot(page, second))
    page.wait_for_function("window.__pugeo.queue().id === 'queue-1'", timeout=15_000)
    settle(page)
    page.wait_for_timeout(700)
    assert page.evaluate("window.__pugeo.look()") == look
    page.keyboard.press("1")
    page.wait_for_timeout(700)
    assert page.evaluate("window.__pugeo.look()") != look, "keys lead the map along"
    settle(page)
    assert on_server(app) == on_page(page)
    assert len(on_server(app)) == 3
