"""Explore in the real app: dots, map and wall share a selection, which is labeled, undone, saved, and loaded again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pu_geo.project import decisions, pseudo_positives, store
from pu_geo.project.layout import write_array
from pu_geo.services.explore import clusters, selections
from tests.browser.steps import (
    ask,
    chip,
    drag,
    go,
    lasso,
    open_view,
    press,
    settle,
    settled,
    spot,
    still,
    until,
    wait_for_frames,
    wait_for_view,
    wall,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NAME = "the <b>far</b> island"


def dots(page, buildings: set[str]) -> list[list[float]]:
    return [ask(page, "dotOf", building) for building in sorted(buildings)]


def chosen(page) -> set[str]:
    return set(ask(page, "chosen"))


def wait_for_chosen(page, n: int) -> None:
    """Wait until so many are selected, and until the page knows."""
    page.wait_for_function("(n) => window.__pugeo.chosen().length === n", arg=n, timeout=60_000)
    opener(page, n).wait_for(timeout=60_000)


def opener(page, n: int | None = None) -> Any:
    """The button that opens saving and loading, once the page knows that `n` are selected."""
    name = re.compile("Selection" if n is None else f"Selection: {n:,}(?!\\d)" if n else "Selection(?!:)")
    return page.get_by_role("button", name=name)


def open_selections(page) -> None:
    if not page.get_by_text("Saved selections (").is_visible():
        opener(page).click()
        page.get_by_text("Saved selections (").wait_for(timeout=30_000)


def test_an_island_is_lassoed_labeled_undone_saved_and_loaded_again(page, village, screenshots: Path) -> None:
    island, before = village.island(2), village.labels()
    open_view(page, village, "explore")
    lasso(page, dots(page, island))
    assert chosen(page) == set(wall(page)) == island, "the wall shows what is selected, and nothing else"
    ask(page, "rest")  # the map goes to the selection
    some = sorted(island)[:20] + sorted(set(village.ids) - island)[:20]
    assert {each for each in some if ask(page, "isMarkedOnMap", each)} == island & set(some)
    wait_for_chosen(page, len(island))
    press(page, "1")
    settle(page)
    assert village.labels() == {**before, **dict.fromkeys(island, "positive")}
    n_changed = len(island - {building for building, label in before.items() if label == "positive"})
    page.get_by_text(f"{n_changed} buildings marked damaged; undo with Ctrl+Z").wait_for(timeout=30_000)
    page.screenshot(path=screenshots / "explore_labeled.png")
    press(page, "Control+z")
    settle(page)
    assert village.labels() == before, "one step takes all of it back"
    assert chosen(page) == island

    open_selections(page)
    page.get_by_role("textbox", name="Save the selection as").fill(NAME)
    page.get_by_role("button", name=f"Save {len(island)} buildings").click()
    saved = page.get_by_text("Saved selections (1)")
    saved.wait_for(timeout=30_000)
    with store.connect(village.layout) as db:
        kept = decisions.standing(db, "selection")[NAME]
    assert set(kept.facts["building_ids"]) == island
    selections.save(village.layout, "bee", village.ids[100:133], run_id="islands-1", analyst="ann")

    def load(name: str, n: int) -> None:
        open_selections(page)
        page.get_by_text("Saved selections (2)").wait_for(timeout=30_000)
        page.get_by_text(name).first.wait_for(timeout=30_000)  # as it was written, and no bold word
        page.get_by_role("button", name="Select", exact=True).nth(0 if name == "bee" else 1).click()  # the newest first
        wait_for_chosen(page, n)
        opener(page).click()
        page.get_by_text("Saved selections (").wait_for(state="hidden", timeout=30_000)
        ask(page, "rest")  # the map goes to the selection
        page.mouse.click(*spot(page, ask(page, "onScreen", 20)[10]))

    open_view(page, village, "explore")
    assert chosen(page) == set()
    for _ in range(2):  # page and browser agree after every load, also of what was loaded before
        load("bee", 33)
        assert chosen(page) == set(village.ids[100:133])
        press(page, "Escape")
        wait_for_chosen(page, 0)
    load(NAME, len(island))
    assert chosen(page) == island
    go(page, "Train")
    page.locator(".pugeo").wait_for(state="detached", timeout=30_000)
    go(page, "Explore")
    wait_for_view(page, "explore")
    page.wait_for_function("window.__pugeo.chosen().length > 0", timeout=30_000)
    assert chosen(page) == island, "a selection outlives another screen"
    open_selections(page)
    page.get_by_role("button", name="Remove", exact=True).last.click()
    page.get_by_text("Saved selections (1)").wait_for(timeout=30_000)
    page.get_by_role("button", name=f"Put back {NAME}").click()
    page.get_by_text("Saved selections (2)").wait_for(timeout=30_000)
    with store.connect(village.layout) as db:
        assert decisions.standing(db, "selection")[NAME].facts == kept.facts


def test_selecting_on_map_and_wall_and_looking_at_dots(page, village) -> None:
    before = village.labels()
    open_view(page, village, "explore")
    one = wall(page)[1]
    page.mouse.click(*chip(page, one))
    assert page.evaluate("window.__pugeo.selected") == one
    ask(page, "rest")  # the map may go there
    another = ask(page, "onScreen", 40)[30]
    page.mouse.click(*spot(page, another))
    assert page.evaluate("window.__pugeo.selected") == another
    places = {each: spot(page, each) for each in ask(page, "onScreen", 20)}
    (left, top), (right, bottom) = np.quantile(list(places.values()), [0.1, 0.4], axis=0)
    inside, near = (
        {each for each, (x, y) in places.items() if left - by < x < right + by and top - by < y < bottom + by}
        for by in (-3, 3)
    )
    drag(page, [(left, top), (right, bottom)])
    assert len(inside) > 10
    assert inside <= chosen(page) == set(wall(page)) <= near
    first = wall(page)[:2]
    page.wait_for_function("(id) => window.__pugeo.chipOf(id)", arg=first[1], timeout=30_000)
    wait_for_frames(page)
    (x0, y0), (x1, y1) = (chip(page, each) for each in first)
    drag(page, [(x0 - 5, y0 - 5), (x1 + 5, y1 + 5)])
    assert chosen(page) == set(first)
    press(page, "Escape")
    assert len(wall(page)) == len(village.ids)
    lasso(page, dots(page, village.island(2)))
    page.keyboard.down("Control")
    lasso(page, dots(page, village.island(1)))
    page.keyboard.up("Control")
    assert chosen(page) == village.island(1) | village.island(2), "Ctrl adds"
    lasso(page, dots(page, village.island(1)))
    assert chosen(page) == village.island(1)
    press(page, "Escape")
    assert village.labels() == before, "to select is not to label"

    one = min(village.island(2))
    (x, y), looked = dots(page, {one})[0], ask(page, "scatter")
    page.mouse.move(x, y)
    preview = page.locator(".pugeo .dotpreview")
    preview.wait_for(timeout=30_000)
    until(lambda: preview.locator(".picture").count() == 2, 30)
    assert [each.bounding_box()["width"] > 100 for each in preview.locator(".picture").all()] == [True, True]
    page.mouse.wheel(0, -600)
    page.wait_for_function(
        "(most) => window.__pugeo.scatter().resolution < most", arg=0.5 * looked["resolution"], timeout=30_000
    )
    wait_for_frames(page, 200)
    assert np.allclose(dots(page, {one})[0], [x, y], atol=9), "what is under the pointer stays there"
    page.mouse.down()
    page.mouse.move(x - 60, y - 45, steps=5)
    page.mouse.up()
    assert np.allclose(dots(page, {one})[0], [x - 60, y - 45], atol=9)
    page.get_by_role("button", name="Show all dots").click()
    assert ask(page, "scatter")["resolution"] == pytest.approx(looked["resolution"])

    labeled = min(before)
    assert ask(page, "colorOf", labeled) == [0xD5, 0x5E, 0x00]
    wait_for_chosen(page, 0)
    color_by(page, "PUPL cluster", "cluster")
    colors = {each: tuple(ask(page, "colorOf", each)) for each in village.ids[::10]}
    assert len({colors[each] for each in colors if each in village.island(2)}) == 1
    assert len({colors[each] for each in colors if each not in village.island(2)}) == 1
    page.locator(".pugeo .dotlegend").get_by_text("cluster of the damaged").click()
    assert chosen(page) == village.island(2), "a click on the legend selects"
    wait_for_chosen(page, len(village.island(2)))
    color_by(page, "Score", "score")
    high, low = (sum(ask(page, "colorOf", min(village.island(k)))) for k in (2, 0))
    assert high > low, "viridis grows lighter"
    page.get_by_role("button", name="Heat").click()
    page.wait_for_function("window.__pugeo.scatter().isHeat")


def color_by(page, words: str, by: str) -> None:
    """Choose from a list, which closes by itself when the page is drawn anew meanwhile."""
    settled(page)
    page.locator(".st-key-explore-color").click()
    page.get_by_role("option", name=words, exact=True).click()
    page.wait_for_function(
        "(by) => window.__pugeo.scatter().by === by && window.__pugeo.scatter().isColored", arg=by, timeout=60_000
    )
    wait_for_frames(page, 600)


def test_the_bar_of_a_selection_keeps_its_height_while_it_says_what_was_done(page, village) -> None:
    bar = page.locator(".pugeo .selectionbar")
    for width, height in ((1280, 720), (1400, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        open_view(page, village, "explore")
        settled(page)
        before = still(page, bar)
        ask(page, "choose", village.ids[:60])
        wait_for_frames(page, 300)
        assert bar.bounding_box() == before
        page.mouse.move(*chip(page, wall(page)[0]))
        press(page, "2" if width == 1280 else "3" if width == 1400 else "0")
        page.get_by_text("undo with Ctrl+Z").wait_for(timeout=30_000)
        settle(page)
        assert bar.bounding_box() == before


def test_a_line_around_dots_selects_nothing_once_these_stand_elsewhere(page, village) -> None:
    open_view(page, village, "explore")
    box = page.locator(".pugeo .scatterpane .plane").bounding_box()
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 4
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    for right, down in ((1, 0), (1, 1), (0, 1)):
        page.mouse.move(x + right * box["width"] / 2, y + down * box["height"] / 2, steps=3)
    (run,) = (village.layout.folder / "runs").iterdir()
    xy = np.random.default_rng(0).uniform(-1, 1, (len(village.ids), 2))
    write_array(run / "umap.npy", xy.astype(np.float32))
    ask(page, "rerun")
    page.wait_for_function("window.__pugeo.scatter().kind === 'UMAP' && window.__pugeo.ready", timeout=60_000)
    page.mouse.move(x, y, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(500)
    assert not chosen(page)


@pytest.mark.parametrize("gap_ms", [120, 400])
def test_a_double_click_labels_what_was_shown_and_not_what_came_next(page, village, gap_ms: int) -> None:
    before = village.labels()
    open_view(page, village, "explore")
    page.get_by_role("radio", name="Neighbors").or_(page.get_by_role("button", name="Neighbors")).first.click()
    field = page.get_by_role("textbox", name="Building", exact=True)
    field.fill(next(iter(before)))
    field.press("Enter")
    button = page.get_by_role("button", name="Mark all damaged (24)")
    button.wait_for(timeout=60_000)
    settled(page)
    page.wait_for_timeout(1000)  # of looking at them
    box = still(page, button)
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*middle)
    page.wait_for_timeout(gap_ms)
    page.mouse.click(*middle)
    until(lambda: len(village.labels()) >= len(before) + 24, 60)  # the note of it may fall to the run of the second press
    page.wait_for_timeout(1000)  # the run of the second press may begin late
    settled(page)
    assert len(village.labels()) == len(before) + 24
    assert len(village.operations()) == len(before) + 24
    button.click()  # the next ones, by a press of their own
    until(lambda: len(village.labels()) == len(before) + 48, 60)


def test_the_chosen_cluster_stays_chosen_when_answers_sort_the_table_anew(page, village) -> None:
    """What Accept would accept was another cluster under the same button, after an answer of anybody."""
    open_view(page, village, "explore")
    page.get_by_role("radio", name="Clusters").or_(page.get_by_role("button", name="Clusters")).first.click()
    start = page.get_by_role("button", name="Start clustering")
    start.wait_for(timeout=60_000)
    settled(page)  # what comes above may still change, and the button move
    start.click()
    table = page.locator("[class*=st-key-cluster-table]")
    table.wait_for(timeout=60_000)
    settled(page)
    (run,) = [each.name for each in (village.layout.folder / "runs").iterdir()]
    found = clusters.inspect(village.layout, run, "many")
    third, last = found.clusters[2], found.clusters[-1]
    box = still(page, table)
    page.mouse.click(box["x"] + 12, box["y"] + 35 * 3 + 18)
    line, accept = page.get_by_text(f"Cluster {third.name} ·"), page.get_by_role("button", name=f"Accept ({third.n_open})")
    line.wait_for(timeout=60_000)
    accept.wait_for(timeout=60_000)
    village.put("bob", {found.ids[row]: "positive" for row in found.rows_of(last.name)})
    own, answered = {found.ids[row] for row in found.rows_of(third.name)}, village.labels()
    one = next(building for building in village.ids if building not in answered and building not in own)
    ask(page, "choose", [one])
    wait_for_frames(page, 600)
    page.mouse.move(*ask(page, "dotOf", one))
    press(page, "2")
    settle(page)
    settled(page)
    now = clusters.inspect(village.layout, run, "many")
    assert [each.name for each in now.clusters].index(third.name) != 2, "the table was sorted anew"
    assert line.is_visible()
    accept.click()
    page.get_by_text(f"{third.n_open} accepted").wait_for(timeout=60_000)
    with store.connect(village.layout) as db:
        assert pseudo_positives.accepted_ids(db) == own - set(village.labels())


def test_the_view_stays_in_its_place_while_a_umap_is_computed(page, village) -> None:
    open_view(page, village, "explore")
    settled(page)
    top = still(page, page.locator(".pugeo"))["y"]
    page.get_by_role("radio", name="UMAP").or_(page.get_by_role("button", name="UMAP", exact=True)).first.click()
    page.get_by_text("Computing the UMAP").wait_for(timeout=60_000)
    tops = set()

    def is_there() -> bool:
        page.wait_for_timeout(100)
        tops.add(page.locator(".pugeo").bounding_box()["y"])
        return ask(page, "scatter")["kind"] == "UMAP"

    until(is_there)
    page.get_by_text("Computing the UMAP").wait_for(state="detached", timeout=60_000)
    is_there()
    assert tops == {top}
