"""The shortest journey that tells most: houses are clicked at any pace, the ranking follows, and nothing is lost."""

import pytest

from tests.browser import steps

pytestmark = pytest.mark.browser
MOST_BYTES = 40 * 1024


def test_clicks_are_shown_at_once_change_the_ranking_and_outlive_a_reload(page, village) -> None:
    received: list[int] = []
    page.on("websocket", lambda link: link.on("framereceived", lambda frame: received.append(len(frame))))
    steps.open_view(page, village)
    steps.see_all(page)
    places, look = steps.spots(page, 20), steps.ask(page, "look")
    last, last_place = places.popitem()
    scores = page.evaluate("window.__pugeo.ids().map(window.__pugeo.score)")
    expected = steps.click_all(page, dict(list(places.items())[:12]), village.labels())
    steps.assert_stored(page, village, expected)
    assert steps.ask(page, "look") == look, "under a pointer that clicks, the map stays"
    has_changed = "(old) => window.__pugeo.ids().some((id, i) => window.__pugeo.score(id) !== old[i])"
    page.wait_for_function(has_changed, arg=scores, timeout=60_000)

    steps.settled(page)
    n_bytes = sum(received)
    page.mouse.click(*last_place, button="right")
    steps.assert_stored(page, village, {**expected, last: "not_damaged"})
    assert sum(received) - n_bytes < MOST_BYTES, "a click costs a few kilobytes"
    page.reload()
    steps.wait_for_view(page)
    steps.settle(page)
    assert steps.on_page(page) == village.labels() == {**expected, last: "not_damaged"}
