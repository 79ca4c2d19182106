"""Two analysts at one project: each sees where the other is and what the other answers, without a run of the page."""

import pytest

from tests.browser import steps
from tests.browser.steps import ask, queue, settle, spot

pytestmark = [pytest.mark.browser, pytest.mark.ci]
NASTY = "<img src=x onerror='window.hit = 1'>"
WATCH = """() => {
  window.shown = [];
  const note = () => { window.shown.push(JSON.stringify(window.__pugeo.labels())); requestAnimationFrame(note); };
  note();
}"""


def wait_for_label(page, building: str, label: str | None) -> None:
    has_it = "([id, label]) => (window.__pugeo.labels()[id] ?? null) === label"
    page.wait_for_function(has_it, arg=[building, label])


def test_two_analysts_at_once(new_page, village) -> None:
    ann, eve = new_page(), new_page()
    steps.open_view(ann, village)
    steps.open_view(eve, village)
    steps.become(eve, NASTY)
    steps.show_wall(eve)  # with the queue open her place would be its building
    for page in (eve, ann):  # a run that comes later brings a queue, and the map goes where that stands
        settle(page)
        steps.settled(page)
        steps.see_all(page)
    current, before = queue(ann)["current"], village.labels()
    asked = ann.evaluate("window.__runs.asked")

    # the place and the answer of one appear at the other, as text
    first, second, third = [each for each in steps.spots(eve, 60) if each not in {*before, *queue(ann)["ids"]}][:3]
    eve.mouse.click(*spot(eve, first))
    wait_for_label(ann, first, "positive")
    ring = ann.locator(f".pugeo .ring[data-building='{village.ids.index(first)}']:visible")
    ring.wait_for()
    assert NASTY[:30] in ring.inner_text()
    box, (x, y) = ring.bounding_box(), spot(ann, first)
    assert box["x"] < x < box["x"] + box["width"]
    assert box["y"] < y < box["y"] + box["height"]
    assert ann.locator(".pugeo .others").inner_text().startswith("1 other here")
    assert ann.evaluate("window.__runs.asked") == asked, "and Streamlit ran nothing"
    settle(eve)
    assert village.answers()[first].analyst == NASTY

    # nothing flickers back when the page runs
    ann.evaluate(WATCH)
    ann.mouse.click(*spot(ann, second))
    settle(ann)
    steps.settled(ann)
    assert all(f'"{first}":"positive"' in each for each in ann.evaluate("[...new Set(window.shown)]"))
    eve.mouse.click(*spot(eve, first))
    wait_for_label(ann, first, None)

    # what is on its way wins, and what others do moves neither view nor selection nor the queue's picture
    ann.route("**/operations", lambda route: route.fulfill(status=503, json={"problem": "Busy.", "hint": ""}))
    ann.mouse.click(*spot(ann, third), button="right")
    look, selected = ask(ann, "look"), ann.evaluate("window.__pugeo.selected")
    village.put("bob", {third: "positive", current: "positive"})
    wait_for_label(ann, current, "positive")
    assert steps.on_page(ann)[third] == "not_damaged"
    assert (ask(ann, "look"), ann.evaluate("window.__pugeo.selected")) == (look, selected)
    assert queue(ann)["current"] == current, "ann is on it still"
    ann.unroute("**/operations")
    settle(ann)
    assert village.labels()[third] == "not_damaged"
    steps.press(ann, "ArrowRight", "2")  # back to the queue's picture
    settle(ann)
    assert village.labels() == steps.on_page(ann)
    assert village.labels()[current] == "not_damaged"

    ask(eve, "select", queue(ann)["current"])
    ann.locator(".pugeo .alsohere").wait_for()
    for place in (".others", ".thumb .here:visible", ".alsohere"):
        assert NASTY[:30] in ann.locator(f".pugeo {place}").first.inner_text()
    assert ann.locator(".pugeo img").count() == 0
