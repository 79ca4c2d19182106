"""Two analysts at one project: each sees where the other is and what the other answers, without a run of the page."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request

import pytest
from browser.damage_view_steps import on_page, on_server, open_view, queue, refuse, settle, spot, spots, told
from browser.real_app import add_hooks

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NASTY = "<img src=x onerror='window.hit = 1'>"


def open_as(page, app: str, name: str, query: str = "") -> None:
    open_view(page, app, f"here={urllib.parse.quote(name)}&{query}")


@pytest.fixture
def other_page(chromium, app: str):
    """A second browser, with nothing in common but the server."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    add_hooks(context)
    yield context.new_page()
    context.close()


def wait_for_label(page, building_id: str, label: str) -> None:
    page.wait_for_function("([id, label]) => window.__pugeo.labels()[id] === label", arg=[building_id, label], timeout=8_000)


def test_place_and_answer_of_one_appear_at_the_other(chromium_page, other_page, app: str) -> None:
    ann, bob = chromium_page, other_page
    open_as(ann, app, "ann")
    runs: list[object] = []
    ann.on("websocket", lambda link: link.on("framesent", runs.append))
    open_as(bob, app, "bob")
    building_id, place = next(iter(spots(bob).items()))
    bob.mouse.click(*place)
    wait_for_label(ann, building_id, "positive")
    others = ann.locator(".pugeo .others")
    others.get_by_text("bob").wait_for(timeout=8_000)
    assert others.inner_text().startswith("1 other here")
    ring = ann.locator(".pugeo .ring:visible")
    ring.wait_for(timeout=8_000)
    assert ring.inner_text() == "bob"
    box, (x, y) = ring.bounding_box(), spot(ann, building_id)
    assert box["x"] < x < box["x"] + box["width"]
    assert box["y"] < y < box["y"] + box["height"]
    ann.evaluate("(id) => window.__pugeo.select(id)", building_id)  # the wall goes there
    ann.locator(".pugeo .chip .here:visible").wait_for(timeout=2_000)
    assert ann.locator(".pugeo .chip.selected .here").inner_text() == "bob"
    assert runs == [], "and Streamlit ran nothing"


def test_news_disturb_neither_view_nor_selection_nor_pending_answers(chromium_page, other_page, app: str) -> None:
    ann, bob = chromium_page, other_page
    open_as(ann, app, "ann")
    open_as(bob, app, "bob")
    (first, a), (second, _) = list(spots(ann).items())[:2]
    refuse(app, "disk")
    ann.mouse.click(*a, button="right")
    look = ann.evaluate("window.__pugeo.look()")
    put_label(app, {first: "positive", second: "positive"}, "bob")
    wait_for_label(ann, second, "positive")
    assert on_page(ann) == {first: "not_damaged", second: "positive"}, "what is on its way wins"
    assert ann.evaluate("window.__pugeo.selected") == first
    assert ann.evaluate("window.__pugeo.look()") == look
    assert ann.evaluate("window.__pugeo.pending()") == 1
    refuse(app, "")
    settle(ann, 30)
    assert on_server(app) == on_page(ann) == {first: "not_damaged", second: "positive"}


def put_label(app: str, labels: dict[str, str], by: str) -> None:
    asked = urllib.parse.urlencode({"put": json.dumps(labels), "by": by, "refuse": "disk"})
    urllib.request.urlopen(f"{app}/harness/set?{asked}").close()


def test_nothing_flickers_back_when_the_page_runs(chromium_page, other_page, app: str) -> None:
    ann, bob = chromium_page, other_page
    open_as(ann, app, "ann")
    open_as(bob, app, "bob")
    (first, a), (second, _) = list(spots(bob).items())[:2]
    bob.mouse.click(*a)
    wait_for_label(ann, first, "positive")
    ann.evaluate("""() => {
      window.seen = [];
      const look = () => { window.seen.push(JSON.stringify(window.__pugeo.labels())); requestAnimationFrame(look); };
      look();
    }""")
    ann.mouse.click(*spot(ann, second))
    settle(ann)
    ann.wait_for_timeout(5_000)
    seen = [json.loads(each) for each in ann.evaluate("[...new Set(window.seen)]")]
    assert all(each.get(first) == "positive" for each in seen)
    assert on_page(ann) == on_server(app) == {first: "positive", second: "positive"}
    bob.mouse.click(*a)
    ann.wait_for_function("(id) => !(id in window.__pugeo.labels())", arg=first, timeout=8_000)


def test_page_data_older_than_the_news_take_nothing_back(chromium_page, app: str) -> None:
    page = chromium_page
    open_as(page, app, "ann")
    (first, _), (_, b) = list(spots(page).items())[:2]
    put_label(app, {first: "positive"}, "bob")
    wait_for_label(page, first, "positive")
    urllib.request.urlopen(f"{app}/harness/set?stale=1").close()
    page.mouse.click(*b)  # the page runs, and knows nothing of it
    settle(page)
    page.wait_for_timeout(300)
    assert on_page(page)[first] == "positive"
    put_label(app, {first: "cleared"}, "bob")
    page.wait_for_function("(id) => !(id in window.__pugeo.labels())", arg=first, timeout=8_000)


def test_a_hostile_name_is_text(chromium_page, other_page, app: str) -> None:
    ann, eve = chromium_page, other_page
    open_as(eve, app, NASTY)
    open_as(ann, app, "ann", "queue=4")
    current = queue(ann)["current"]
    eve.evaluate("(id) => window.__pugeo.select(id)", current)
    ann.locator(".pugeo .alsohere").wait_for(timeout=8_000)
    for place in (".ring:visible", ".others", ".thumb .here:visible", ".alsohere"):
        assert NASTY[:40] in ann.locator(f".pugeo {place}").first.inner_text()
    assert ann.locator(".pugeo img").count() == 0
    assert ann.evaluate("window.hit") is None


def test_an_answer_of_somebody_else_takes_no_picture_away(chromium_page, other_page, app: str) -> None:
    ann, bob = chromium_page, other_page
    open_as(ann, app, "ann", "queue=2")
    open_as(bob, app, "bob")
    first, second = queue(ann)["ids"]
    ann.keyboard.press("1")
    settle(ann)
    put_label(app, {second: "positive"}, "bob")
    refuse(app, "")
    wait_for_label(ann, second, "positive")
    ann.wait_for_timeout(500)
    assert queue(ann)["current"] == second, "ann looks at it still"
    assert told(app)["wishes"] == []
    ann.keyboard.press("2")
    ann.wait_for_function("window.__pugeo.queue().id === 'queue-1'", timeout=15_000)
    settle(ann)
    assert on_server(app) == {first: "positive", second: "not_damaged"}


def test_it_is_silent_where_the_server_does_not_answer_and_asks_ever_more_seldom(chromium_page, app: str) -> None:
    page = chromium_page
    urllib.request.urlopen(f"{app}/harness/set?here=gone").close()
    open_as(page, app, "ann")
    for building_id in list(spots(page))[:5]:
        page.evaluate("(id) => window.__pugeo.select(id)", building_id)
        page.wait_for_timeout(1_000)
    page.wait_for_timeout(4_000)
    asked = len(told(app)["asked"])
    assert 1 <= asked <= 2, "at once and after 8 s, whatever is selected"
    assert page.locator(".pugeo .others").is_hidden()
    urllib.request.urlopen(f"{app}/harness/set").close()
    page.wait_for_timeout(17_000)
    assert len(told(app)["asked"]) > asked


def test_it_asks_at_once_when_the_place_changes_and_not_at_all_without_an_analyst(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "here=")
    page.wait_for_timeout(1_000)
    assert told(app)["asked"] == []
    open_as(page, app, "ann")
    ids = list(spots(page))[:6]
    for building_id in ids:
        page.evaluate("(id) => window.__pugeo.select(id)", building_id)
        page.wait_for_timeout(50)
    page.wait_for_timeout(700)
    asked = told(app)["asked"]
    last = page.evaluate("(id) => window.__pugeo.ids().indexOf(id)", ids[-1])
    assert asked[-1]["building"] == last
    assert asked[-1]["analyst"] == "ann"
    assert len(asked) <= 3, "not once for each"
