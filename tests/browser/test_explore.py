"""Explore in the real app: both questions are asked and answered, a cluster is accepted, and dots, map and wall share a selection."""

from typing import Any

import pytest

from pu_geo.explore import questions, selections
from pu_geo.store import decisions, pseudo_positives, store
from tests.browser import steps
from tests.browser.accessibility import assert_accessible
from tests.browser.steps import a_run, ask, at_rest, open_view, press, settled, until, wall

pytestmark = [pytest.mark.browser, pytest.mark.ci]
NAME = "the <b>far</b> island"


def dots(page, buildings: set[str]) -> list[list[float]]:
    return [ask(page, "dotOf", building) for building in sorted(buildings)]


def chosen(page) -> set[str]:
    return set(ask(page, "chosen"))


def panel(page, name: str) -> None:
    with a_run(page):
        page.get_by_role("radio", name=name, exact=True).click()
    steps.still(page, page.locator(".pugeo .scatterpane"))  # the view makes room
    at_rest(page)


def button(page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_both_questions_are_answered_and_a_cluster_is_accepted(page, village) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    before = village.labels()
    open_view(page, village, "explore")
    with a_run(page):
        button(page, questions.WRONG).click()
    first, second, *_ = wall(page)
    assert set(wall(page)) == set(before), "every answer, the most doubtful first"
    page.mouse.move(*steps.chip(page, first))
    press(page, "1", "2")  # the same again, and another answer
    steps.settle(page)
    assert village.labels() == {**before, second: "not_damaged"}
    assert wall(page)[:2] == [first, second], "the order stays while it is answered"
    press(page, "Control+z", "Control+z")
    steps.settle(page)
    with a_run(page):
        button(page, questions.ELSEWHERE).click()
    assert not set(wall(page)) & set(before), "nobody answered these"
    found = wall(page)[0]
    page.mouse.move(*steps.chip(page, found))
    press(page, "1")
    steps.settle(page)
    assert village.answers()[found].shown == "exploit", "a ranking chose it: it is learned from, and judges nothing"
    press(page, "Control+z")
    steps.settle(page)
    with a_run(page):
        page.get_by_role("button", name="Close").click()

    panel(page, "Clusters")
    assert_accessible(page)
    with a_run(page):
        page.keyboard.press("j")
    page.wait_for_function("window.__pugeo.chosen().length > 0")
    group = chosen(page)
    assert set(wall(page)) == group, "the wall is the contact sheet"
    with a_run(page):
        page.keyboard.press("y")
    added = store.call(village.layout, pseudo_positives.accepted_ids)
    assert added == group - set(before)
    page.get_by_text(f"{len(added)} pseudo-positives").first.wait_for()
    with a_run(page):
        button(page, "Undo").last.click()
    assert not store.call(village.layout, pseudo_positives.accepted_ids)
    assert village.labels() == before


def test_an_island_is_selected_labeled_undone_saved_and_loaded_again(page, village) -> None:
    island, before = village.island(2), village.labels()
    open_view(page, village, "explore")
    panel(page, "Selection")
    one = wall(page)[1]
    page.mouse.click(*steps.chip(page, one))
    assert page.evaluate("window.__pugeo.selected") == one
    at_rest(page)  # the map may go there
    steps.lasso(page, dots(page, island))
    page.keyboard.down("Control")
    steps.lasso(page, dots(page, village.island(1)))
    page.keyboard.up("Control")
    assert chosen(page) == village.island(1) | island, "Ctrl adds"
    press(page, "Escape")
    assert village.labels() == before, "to select is not to label"

    steps.lasso(page, dots(page, island))
    assert chosen(page) == set(wall(page)) == island, "the wall shows what is selected, and nothing else"
    page.get_by_text(f"{len(island)} buildings selected").wait_for()
    at_rest(page)
    page.mouse.move(*dots(page, {min(island)})[0])
    press(page, "1", "Enter")  # of so many it asks first
    steps.settle(page)
    assert village.labels() == {**before, **dict.fromkeys(island, "positive")}
    press(page, "Control+z")
    steps.settle(page)
    assert village.labels() == before, "one step takes all of it back"
    page.get_by_role("textbox", name="Save the selection as").fill(NAME)
    page.get_by_role("button", name=f"Save {len(island)} buildings").click()
    page.get_by_text("Saved selections (1)").wait_for()
    with store.connect(village.layout) as db:
        kept = decisions.standing(db, "selection")[NAME]
    assert set(kept.facts["building_ids"]) == island
    selections.save(village.layout, "bee", village.ids[100:133], run_id="islands-1", analyst="ann")

    def load(place: int, wanted: set[str]) -> None:
        settled(page)
        button(page, "Select").nth(place).click()  # the newest first
        page.wait_for_function("(n) => window.__pugeo.chosen().length === n", arg=len(wanted))
        assert chosen(page) == wanted

    open_view(page, village, "explore")
    panel(page, "Selection")
    page.get_by_text("Saved selections (2)").wait_for()
    page.get_by_text(NAME).first.wait_for()  # as it was written, and no bold word
    for _ in range(2):  # page and browser agree after every load, also of what was loaded before
        load(0, set(village.ids[100:133]))
        page.mouse.move(*dots(page, {village.ids[0]})[0])
        press(page, "Escape")
        page.get_by_text("0 buildings selected").wait_for()
    load(1, island)
    steps.go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached")
    steps.go(page, "Explore")
    steps.wait_for_view(page, "explore")
    page.wait_for_function("window.__pugeo.chosen().length > 0")
    assert chosen(page) == island, "a selection outlives another screen"
    button(page, "Remove").last.click()
    page.get_by_text("Saved selections (1)").wait_for()
    page.get_by_role("button", name=f"Put back {NAME}").click()
    until(lambda: selections.saved(village.layout)[0].facts == kept.facts, 60, page)
