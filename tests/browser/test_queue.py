"""The queue by keyboard alone: every answer reaches the server, says what it was shown for, and checks stay blind."""

from __future__ import annotations

import time
import urllib.request

import pytest
from browser.damage_view_steps import chip, on_page, on_server, open_view, queue, refuse, settle, spot, spots, told

pytestmark = [pytest.mark.browser, pytest.mark.slow]
KINDS = ["exploit", "audit", "explore"]


def wait_for_queue(page, queue_id: str) -> None:
    page.wait_for_function(f"window.__pugeo.queue().id === '{queue_id}'", timeout=15_000)


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


@pytest.mark.parametrize(("spacing_ms", "query"), [(0, ""), (30, ""), (100, ""), (0, "&here="), (100, "&here=")])
def test_every_key_reaches_the_server(chromium_page, app: str, spacing_ms: int, query: str) -> None:
    page = chromium_page
    open_view(page, app, f"queue=20{query}")
    ids = queue(page)["ids"]
    keys = ["1", "2", "3", "Enter", "2"] * 4
    for key in keys:
        page.keyboard.press(key)
        time.sleep(spacing_ms / 1000)
    means = {"1": "positive", "Enter": "positive", "2": "not_damaged", "3": "not_assessable"}
    expected = {each: means[key] for each, key in zip(ids, keys, strict=True)}
    assert on_page(page) == expected, "the page shows an answer at once"
    wait_for_queue(page, "queue-1")
    settle(page)
    assert on_server(app) == on_page(page) == expected
    assert told(app)["wishes"] == [[]], "asked once, and nothing was skipped"
    sets = told(app)["sets"]
    assert [(each["building_id"], each["shown"], each["queue"]) for each in sets] == [
        (each, KINDS[k % 3], "queue-0") for k, each in enumerate(ids)
    ]


def test_answers_survive_a_server_that_refuses_and_a_reload(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=4")
    first = queue(page)["ids"]
    refuse(app, "disk")
    press(page, "3", "1", "2", "n")
    page.wait_for_function("window.__pugeo.status === 'waiting'", timeout=10_000)
    assert told(app)["wishes"] == []
    open_view(page, app, "queue=4")
    page.wait_for_function("window.__pugeo.pending() === 4", timeout=10_000)  # the wish is one of them
    assert queue(page)["skipped"] == first[3:]
    refuse(app, "")
    settle(page, 30)
    wait_for_queue(page, "queue-1")
    assert (
        on_server(app) == on_page(page) == dict(zip(first[:3], ["not_assessable", "positive", "not_damaged"], strict=True))
    )
    assert told(app)["wishes"] == [[first[3]]]
    assert queue(page)["skipped"] == []
    assert not set(queue(page)["ids"]) & set(first)


def test_arrows_walk_and_zero_clears_and_answers_go_on_to_the_next_open_one(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    press(page, "ArrowRight", "1")
    assert queue(page)["current"] == ids[2]
    press(page, "ArrowLeft", "ArrowLeft", "2")
    assert queue(page)["current"] == ids[2], "the second is answered already"
    press(page, "ArrowLeft", "1")
    assert on_page(page)[ids[1]] == "positive", "in the queue, a second 1 is no clearing"
    press(page, "ArrowLeft", "Backspace")
    assert queue(page)["current"] == ids[1]
    press(page, "ArrowLeft", "0", "ArrowRight", "n")
    settle(page)
    assert on_server(app) == on_page(page) == {}
    assert queue(page)["skipped"] == [ids[1]]
    press(page, "ArrowLeft", "1")
    assert queue(page)["skipped"] == [], "what was skipped can be answered after all"
    settle(page)
    assert on_server(app) == on_page(page) == {ids[1]: "positive"}


def test_a_key_held_down_answers_once(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    for _ in range(4):
        page.keyboard.down("1")  # repeats until it is let go
    page.keyboard.up("1")
    assert on_page(page) == {ids[0]: "positive"}


@pytest.mark.parametrize(
    ("keys", "reason", "skipped", "now"),
    [("36", "nodata", [], 1), ("3n", "unclear", [1], 2), ("36n", "nodata", [1], 2), ("3n6", "unclear", [1], 2)],
)
def test_a_digit_says_why_of_the_one_before_and_n_always_skips(
    chromium_page, app: str, keys: str, reason: str, skipped: list[int], now: int
) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    press(page, *keys)
    settle(page)
    assert on_server(app) == on_page(page) == {ids[0]: "not_assessable"}
    assert told(app)["details"][ids[0]]["reason"] == reason
    assert queue(page)["skipped"] == [ids[each] for each in skipped]
    assert queue(page)["current"] == ids[now]


def test_every_key_of_the_picker_is_on_it_and_in_the_help(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    press(page, "3")
    assert page.locator(".pugeo .picker kbd").all_inner_texts() == list("456789")
    press(page, "?")
    entries = page.locator(".pugeo .help dt").all_inner_texts()
    assert [each for each in entries if set("456789") & set(each)] == ["4 5 6", "7 8 9"]


def test_keys_that_come_too_early_for_the_next_queue_change_no_answer(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=2")
    first = queue(page)["ids"]
    refuse(app, "disk")  # the next queue is slow
    press(page, "1", "1", "2", "3", "n")
    assert on_page(page) == dict.fromkeys(first, "positive")
    refuse(app, "")
    wait_for_queue(page, "queue-1")
    press(page, "2")
    settle(page)
    assert on_server(app) == on_page(page) == {**dict.fromkeys(first, "positive"), queue(page)["ids"][0]: "not_damaged"}
    press(page, "ArrowLeft", "0", "1")
    settle(page)
    assert on_server(app)[queue(page)["ids"][0]] == "positive", "who walks back answers again"


def test_one_key_leads_to_the_next_ones_when_nothing_came_back(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=2")
    first = queue(page)["ids"]
    urllib.request.urlopen(f"{app}/harness/set?stay=1").close()
    press(page, "1", "1")
    settle(page)
    page.locator(".pugeo .said").get_by_text("nothing else came back").wait_for(timeout=5_000)
    press(page, "2")
    urllib.request.urlopen(f"{app}/harness/set").close()
    press(page, "Enter")
    wait_for_queue(page, "queue-1")
    settle(page)
    assert on_server(app) == on_page(page) == dict.fromkeys(first, "positive")


def test_q_asks_at_once_and_names_what_was_skipped(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    press(page, "1", "n", "n", "q", "q")
    wait_for_queue(page, "queue-1")
    settle(page)
    assert told(app)["wishes"] == [ids[1:3]]
    assert on_server(app) == {ids[0]: "positive"}


def test_keys_answer_the_large_picture_wherever_the_pointer_is_until_the_wall_is_shown(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    page.wait_for_timeout(600)  # the map has come to rest
    ids = queue(page)["ids"]
    page.mouse.move(*spot(page, next(each for each in spots(page) if each not in ids)))
    press(page, "1")
    assert on_page(page) == {ids[0]: "positive"}
    page.wait_for_timeout(600)
    other = next(each for each in spots(page) if each not in ids)
    page.mouse.click(*spot(page, other), button="right")
    assert on_page(page) == {ids[0]: "positive", other: "not_damaged"}
    assert queue(page)["current"] == ids[1]
    press(page, "w")
    page.wait_for_timeout(300)
    last = page.evaluate("window.__pugeo.wallIds()")[3]
    page.mouse.move(*chip(page, last))
    press(page, "2")
    settle(page)
    assert on_server(app) == on_page(page) == {ids[0]: "positive", other: "not_damaged", last: "not_damaged"}
    assert [each["shown"] for each in told(app)["sets"]] == ["exploit", "", ""]


def see_all(page) -> None:
    page.wait_for_timeout(700)  # until the map has come to rest at the current one
    page.evaluate("window.__pugeo.setView([750, 750], 2.2)")
    page.wait_for_timeout(200)


def test_answers_on_the_map_end_a_queue_too(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=2")
    see_all(page)
    first, second = queue(page)["ids"]
    page.mouse.click(*spot(page, second))
    page.keyboard.press("1")
    wait_for_queue(page, "queue-1")
    see_all(page)
    third, fourth = queue(page)["ids"]
    page.keyboard.press("1")
    see_all(page)
    page.mouse.click(*spot(page, fourth), button="right")
    wait_for_queue(page, "queue-2")
    settle(page)
    assert on_server(app) == on_page(page) == {**dict.fromkeys([first, second, third], "positive"), fourth: "not_damaged"}
    shown = [(each["building_id"], each["shown"]) for each in told(app)["sets"]]
    assert shown == [(second, ""), (first, "exploit"), (third, "exploit"), (fourth, "audit")], "the current one was shown"


def test_undo_leads_back_to_the_building(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    press(page, "1", "2", "Control+z")
    settle(page)
    page.wait_for_function(f"window.__pugeo.queue().current === '{ids[1]}'", timeout=5_000)
    assert on_server(app) == on_page(page) == {ids[0]: "positive"}


def test_the_score_of_a_check_is_nowhere_to_be_seen_before_it_is_answered(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=6")
    ids = queue(page)["ids"]
    score = {each: page.evaluate("(id) => window.__pugeo.score(id)", each) for each in ids}
    assert [each for each in ids if score[each] is None] == [ids[1], ids[4]]
    press(page, "i", "1")
    page.wait_for_timeout(700)
    assert queue(page)["kind"] == "audit"
    page.mouse.move(*spot(page, ids[1]))
    page.locator(".pugeo .tooltip b").get_by_text(ids[1]).wait_for()
    view = page.locator(".pugeo")
    assert "score 0" not in view.inner_text(), "not in the tooltip, the card or the words of the queue"
    assert "Random check" in view.locator(".why").inner_text()
    press(page, "w")
    page.wait_for_timeout(400)
    shown = page.evaluate("window.__pugeo.wallIds()")
    assert set(shown[-2:]) == {ids[1], ids[4]}, "its place in the order would tell"
    press(page, "w", "2")
    assert page.evaluate("(id) => window.__pugeo.score(id)", ids[1]) is not None
    press(page, "ArrowLeft")
    assert page.evaluate("(id) => window.__pugeo.score(id)", ids[1]) is None, "it is the current one again"
    settle(page)


def test_the_words_of_a_check_are_not_sent_at_all(chromium_page, app: str) -> None:
    page = chromium_page
    frames: list[bytes | str] = []
    page.on("websocket", lambda link: link.on("framereceived", lambda frame: frames.append(frame)))
    open_view(page, app, "queue=6")
    received = b"".join(each if isinstance(each, bytes) else each.encode() for each in frames)
    assert b"no. 0 <b>" in received or rb"no. 0 \u003cb" in received
    assert b"no. 1 " not in received


def test_it_works_without_the_map_and_without_the_wall(chromium_page, app: str) -> None:
    page = chromium_page
    for panes in ("wall", "map"):
        open_view(page, app, f"queue=4&panes={panes}")
        done = len(on_server(app))
        press(page, "1")
        settle(page)
        assert len(on_server(app)) == done + 1
    assert page.locator(".pugeo .tabs").is_hidden()


def test_an_empty_queue_says_so_and_no_queue_shows_none(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "queue=0")
    page.locator(".pugeo .queuepane").get_by_text("Nothing to look at").wait_for()
    open_view(page, app)
    assert page.locator(".pugeo .queuepane").is_hidden()
    page.keyboard.press("q")
    assert urllib.request.urlopen(f"{app}/_stcore/health").status == 200
    assert on_page(page) == {}
