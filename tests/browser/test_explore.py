"""Explore in the real app: dots, map and wall share a selection, which is labeled, undone, saved, and loaded again."""

import re
from typing import Any

import pytest

from pu_geo.explore import selections
from pu_geo.store import decisions, store
from tests.browser import steps
from tests.browser.steps import ask, at_rest, open_view, press, settled, until, wall

pytestmark = [pytest.mark.browser, pytest.mark.ci]
NAME = "the <b>far</b> island"


def dots(page, buildings: set[str]) -> list[list[float]]:
    return [ask(page, "dotOf", building) for building in sorted(buildings)]


def chosen(page) -> set[str]:
    return set(ask(page, "chosen"))


def wait_for_chosen(page, n: int) -> None:
    """Wait until so many are selected, and until the page knows."""
    page.wait_for_function("(n) => window.__pugeo.chosen().length === n", arg=n)
    opener(page, n).wait_for()


def opener(page, n: int | None = None) -> Any:
    """The button that opens saving and loading, once the page knows that `n` are selected."""
    name = re.compile("Selection" if n is None else f"Selection: {n:,}(?!\\d)" if n else "Selection(?!:)")
    return page.get_by_role("button", name=name)


def open_selections(page) -> None:
    if not page.get_by_text("Saved selections (").is_visible():
        opener(page).click()
        page.get_by_text("Saved selections (").wait_for()


def test_an_island_is_selected_labeled_undone_saved_and_loaded_again(page, village) -> None:
    island, before = village.island(2), village.labels()
    open_view(page, village, "explore")
    one = wall(page)[1]
    page.mouse.click(*steps.chip(page, one))
    assert page.evaluate("window.__pugeo.selected") == one
    at_rest(page)  # the map may go there
    another = ask(page, "onScreen", 40)[30]
    page.mouse.click(*steps.go_to(page, another))
    assert page.evaluate("window.__pugeo.selected") == another
    steps.lasso(page, dots(page, island))
    page.keyboard.down("Control")
    steps.lasso(page, dots(page, village.island(1)))
    page.keyboard.up("Control")
    assert chosen(page) == village.island(1) | island, "Ctrl adds"
    press(page, "Escape")
    page.mouse.move(*dots(page, {min(island)})[0])
    until(lambda: page.locator(".pugeo .dotpreview .picture").count() == 2, 60, page)
    wait_for_chosen(page, 0)
    with steps.a_run(page):
        page.locator(".st-key-explore-color").click()
        page.get_by_role("option", name="PUPL cluster", exact=True).click()
    page.wait_for_function("window.__pugeo.scatter().by === 'cluster' && window.__pugeo.scatter().isColored")
    page.locator(".pugeo .dotlegend").get_by_text("cluster of the damaged").click()
    wait_for_chosen(page, len(island))
    assert chosen(page) == island, "a click on the legend selects"
    press(page, "Escape")
    assert village.labels() == before, "to select is not to label"

    steps.lasso(page, dots(page, island))
    assert chosen(page) == set(wall(page)) == island, "the wall shows what is selected, and nothing else"
    at_rest(page)  # the map goes to the selection
    some = sorted(island)[:20] + sorted(set(village.ids) - island)[:20]
    assert {each for each in some if ask(page, "isMarkedOnMap", each)} == island & set(some)
    wait_for_chosen(page, len(island))
    press(page, "1")
    steps.settle(page)
    assert village.labels() == {**before, **dict.fromkeys(island, "positive")}
    n_changed = len(island - {building for building, label in before.items() if label == "positive"})
    page.get_by_text(f"{n_changed} buildings marked damaged; undo with Ctrl+Z").wait_for()
    press(page, "Control+z")
    steps.settle(page)
    assert village.labels() == before, "one step takes all of it back"
    assert chosen(page) == island

    open_selections(page)
    page.get_by_role("textbox", name="Save the selection as").fill(NAME)
    page.get_by_role("button", name=f"Save {len(island)} buildings").click()
    page.get_by_text("Saved selections (1)").wait_for()
    with store.connect(village.layout) as db:
        kept = decisions.standing(db, "selection")[NAME]
    assert set(kept.facts["building_ids"]) == island
    selections.save(village.layout, "bee", village.ids[100:133], run_id="islands-1", analyst="ann")

    def load(name: str, n: int) -> None:
        open_selections(page)
        page.get_by_text("Saved selections (2)").wait_for()
        page.get_by_text(name).first.wait_for()  # as it was written, and no bold word
        page.get_by_role("button", name="Select", exact=True).nth(0 if name == "bee" else 1).click()  # the newest first
        wait_for_chosen(page, n)
        opener(page).click()
        page.get_by_text("Saved selections (").wait_for(state="hidden")
        at_rest(page)  # the map goes to the selection
        page.mouse.click(*steps.spot(page, ask(page, "onScreen", 20)[10]))

    open_view(page, village, "explore")
    assert chosen(page) == set()
    for _ in range(2):  # page and browser agree after every load, also of what was loaded before
        load("bee", 33)
        assert chosen(page) == set(village.ids[100:133])
        press(page, "Escape")
        wait_for_chosen(page, 0)
    load(NAME, len(island))
    assert chosen(page) == island
    steps.go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached")
    steps.go(page, "Explore")
    steps.wait_for_view(page, "explore")
    page.wait_for_function("window.__pugeo.chosen().length > 0")
    assert chosen(page) == island, "a selection outlives another screen"
    open_selections(page)
    page.get_by_role("button", name="Remove", exact=True).last.click()
    page.get_by_text("Saved selections (1)").wait_for()
    page.get_by_role("button", name=f"Put back {NAME}").click()
    page.get_by_text("Saved selections (2)").wait_for()
    with store.connect(village.layout) as db:
        assert decisions.standing(db, "selection")[NAME].facts == kept.facts


def test_a_double_click_labels_what_was_shown_and_not_what_came_next(page, village) -> None:
    before = village.labels()
    open_view(page, village, "explore")
    steps.panel(page, "Neighbors")
    steps.fill(page, page.get_by_role("textbox", name="Building", exact=True), next(iter(before)))
    button = page.get_by_role("button", name="Mark all damaged (24)")
    middle = steps.middle_of(page, button)
    asked = page.evaluate("window.__runs.asked")
    page.mouse.click(*middle)
    page.wait_for_timeout(120)  # the pace of a hand
    page.mouse.click(*middle)
    until(lambda: len(village.labels()) >= len(before) + 24, 60)
    page.wait_for_function("(asked) => window.__runs.asked > asked + 1 && window.__runs.ended > 0", arg=asked)
    settled(page)  # the run of the second press, too
    assert len(village.labels()) == len(before) + 24
    assert len(village.operations()) == len(before) + 24
    button.click()  # the next ones, by a press of their own
    until(lambda: len(village.labels()) == len(before) + 48, 60)
