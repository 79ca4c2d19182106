"""What stands under the pointer stays there, whatever comes and goes beside it: else a click comes down on another building."""

import pytest

from pu_geo.answers import queueing
from pu_geo.assessment import random_audits
from tests.browser import steps
from tests.browser.steps import press, settled, still

pytestmark = [pytest.mark.browser, pytest.mark.ci]


def top(page) -> float:
    return still(page, page.locator(".pugeo"))["y"]


def test_on_annotate_while_a_ranking_a_refusal_and_a_check_come_and_go(page, village) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    steps.open_view(page, village)
    press(page, "i")
    clicked = next(building for building in village.ids if building not in steps.on_page(page))
    middle, is_ranking = steps.go_to(page, clicked), village.layout.folder / "is-ranking"
    before, card = steps.spots(page), page.locator(".pugeo .card")
    is_ranking.touch()
    page.mouse.click(*middle)
    ranking = page.get_by_text("Ranking 400 buildings")
    ranking.wait_for()
    steps.at_rest(page)
    assert {building: steps.spot(page, building) for building in before} == before
    queueing.advance(village.layout, "ann", done=steps.queue(page)["id"])
    is_ranking.unlink()
    ranking.wait_for(state="detached")
    settled(page)
    steps.at_rest(page)
    assert {building: steps.spot(page, building) for building in before} == before
    assert f"Building {village.ids.index(clicked) + 1}" in card.inner_text(), "the card stays, too"

    before = top(page)
    page.get_by_role("button", name="Grades").first.click()
    names = page.locator("[class*=st-key-grade-name] input")
    names.nth(1).fill(names.nth(0).input_value())
    page.get_by_role("button", name="Save the scale").click()
    page.get_by_text("each occurs once").wait_for()
    settled(page)
    assert top(page) == before, "a refusal"
    _while_a_check_is_answered(page, village)


def _while_a_check_is_answered(page, village) -> None:
    """Its banner grew when a check was skipped, when another analyst joined, and when all were answered."""
    (run,) = [each.name for each in (village.layout.folder / "runs").iterdir() if each.name.startswith("islands")]
    check = random_audits.begin_audit(village.layout, run, 30, "ann")
    steps.open_view(page, village)
    banner, tops, shown = page.locator(".st-key-check-banner"), set(), set()

    def look() -> None:
        steps.settle(page)
        settled(page)
        tops.add(top(page))
        shown.add(banner.inner_text())
        is_whole = "(one) => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth"
        assert banner.evaluate(is_whole), "nothing is cut off"

    look()
    random_audits.check_queue(village.layout, "bob", check)  # so there is a button that ends it for all
    press(page, "n")
    look()
    result = page.get_by_role("button", name="See the result")
    while not result.is_visible():
        press(page, "2")
        look()
    assert len(shown) > 2, "what it shows has changed"
    assert len(tops) == 1


def test_on_explore_while_it_says_what_was_done(page, village) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    steps.open_view(page, village, "explore")
    settled(page)
    bar = page.locator(".pugeo .selectionbar")
    before = still(page, bar)
    steps.ask(page, "choose", village.ids[:60])
    assert still(page, bar) == before
    page.mouse.move(*steps.chip(page, steps.wall(page)[0]))
    press(page, "2")
    assert still(page, bar) == before, "nor while it asks"
    press(page, "Enter")
    page.get_by_text("undo with Ctrl+Z").wait_for()
    steps.settle(page)
    assert still(page, bar) == before
    press(page, "Escape")
    page.wait_for_function("!window.__pugeo.chosen().length")
