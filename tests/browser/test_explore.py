"""Explore in the real app: an island of dots is lassoed, seen on map and wall, labeled, undone, saved, and loaded again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browser.damage_view_steps import settle
from browser.explore_parts import add_island_run
from browser.make_project import make_project
from browser.real_app import AppServer, made_up_project
from small_parts import square_table

from pu_geo.project import contents, decisions, labels, store
from pu_geo.project.layout import Layout, write_json
from pu_geo.services.explore import selections

pytestmark = [pytest.mark.browser, pytest.mark.slow]
N = 700


@dataclass(frozen=True)
class Town:
    """A served project: `islands` says on which island each building lies."""

    address: str
    layout: Layout
    ids: list[str]
    islands: np.ndarray

    def on_island(self, k: int) -> set[str]:
        return {building for building, island in zip(self.ids, self.islands, strict=True) if island == k}

    def stored(self) -> dict[str, str]:
        with store.connect(self.layout) as db:
            return dict(labels.current_labels(db))


@pytest.fixture(scope="module")
def town(chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("explore")
    pictures = make_project(folder / "pictures", n=N, side=2000)
    ids = json.loads((pictures / "quicklooks" / "footprints.json").read_text())["ids"]
    layout = made_up_project(folder / "town.pugeo", ids, pictures=pictures)
    islands = add_island_run(layout, ids)
    with AppServer(folder / "home", project=layout) as app:
        yield Town(app.address, layout, ids, islands)


def open_explore(page, town: Town) -> None:
    page.goto(f"{town.address}/explore")
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
    page.wait_for_timeout(600)  # the first frames: fit, tiles


def lasso(page, places: list[list[float]], margin: float = 14) -> None:
    """Draw a line around pixels of the window, with Shift."""
    spots = np.array(places)
    middle = spots.mean(axis=0)
    reach = np.abs(spots - middle).max(axis=0) + margin
    turns = np.linspace(0, 2 * np.pi, 40)
    around = middle + 1.3 * reach * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    page.keyboard.down("Shift")
    page.mouse.move(*around[0].tolist())
    page.mouse.down()
    for spot in around[1:].tolist():
        page.mouse.move(*spot)
    page.mouse.up()
    page.keyboard.up("Shift")


def dots(page, buildings: set[str]) -> list[list[float]]:
    return page.evaluate("(ids) => ids.map((id) => window.__pugeo.dotOf(id))", sorted(buildings))


def chosen(page) -> set[str]:
    return set(page.evaluate("window.__pugeo.chosen()"))


def choose(page, buildings: set[str]) -> None:
    page.evaluate("(ids) => window.__pugeo.choose(ids)", sorted(buildings))


def marked_on_map(page, buildings: set[str]) -> set[str]:
    """Which of some buildings the map draws as selected."""
    return set(page.evaluate("(ids) => ids.filter((id) => window.__pugeo.isMarkedOnMap(id))", sorted(buildings)))


def test_an_island_is_lassoed_seen_labeled_undone_saved_and_loaded_again(
    chromium_page, town: Town, screenshots: Path
) -> None:
    page, island = chromium_page, town.on_island(2)
    before = town.stored()
    assert before
    open_explore(page, town)
    lasso(page, dots(page, island))
    page.wait_for_timeout(300)
    assert chosen(page) == island
    assert set(page.evaluate("window.__pugeo.wallIds()")) == island, "the wall shows what is selected, and nothing else"
    others = set(town.ids[:60]) - island
    assert marked_on_map(page, island | others) == island
    page.get_by_role("button", name=f"Save {len(island)} buildings").wait_for(timeout=30_000)  # the page was told

    page.keyboard.press("1")
    settle(page, 30)
    changed = island - {building for building, label in before.items() if label == "positive"}
    assert town.stored() == {**before, **dict.fromkeys(island, "positive")}
    page.get_by_text(f"{len(changed)} buildings marked positive; undo with Ctrl+Z").wait_for(timeout=5_000)
    page.screenshot(path=screenshots / "explore_labeled.png")
    page.keyboard.press("Control+z")
    settle(page, 30)
    assert town.stored() == before, "one step takes all of it back"
    assert chosen(page) == island

    page.get_by_role("textbox", name="Save the selection as").fill("the <b>far</b> island")
    page.get_by_role("button", name=f"Save {len(island)} buildings").click()
    page.get_by_text("Saved selections (1)").wait_for(timeout=30_000)
    with store.connect(town.layout) as db:
        kept = decisions.standing(db, "selection")["the <b>far</b> island"]
    assert set(kept.facts["building_ids"]) == island

    open_explore(page, town)
    assert chosen(page) == set()
    page.get_by_text("Saved selections (1)").click()
    page.get_by_text("the <b>far</b> island").wait_for(timeout=10_000)  # as it was written, and no bold word
    page.get_by_role("button", name="Select", exact=True).last.click()
    page.wait_for_function("window.__pugeo.chosen().length > 0", timeout=30_000)
    assert chosen(page) == island
    page.screenshot(path=screenshots / "explore_loaded.png")
    page.get_by_role("button", name="Remove", exact=True).last.click()
    page.get_by_text("Saved selections (0)").wait_for(timeout=30_000)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Put back the <b>far</b> island").click()
    page.get_by_text("Saved selections (1)").wait_for(timeout=30_000)
    with store.connect(town.layout) as db:
        assert decisions.standing(db, "selection")["the <b>far</b> island"].facts == kept.facts


def test_a_box_on_the_map_or_on_the_wall_selects_everywhere(chromium_page, town: Town) -> None:
    page, before = chromium_page, town.stored()
    open_explore(page, town)
    places = page.evaluate("window.__pugeo.onScreen(20).map((id) => [id, window.__pugeo.centerOf(id)])")
    (left, top), (right, bottom) = np.quantile([spot for _, spot in places], [0.1, 0.4], axis=0)
    inside = {each for each, (x, y) in places if left < x < right and top < y < bottom}
    page.keyboard.down("Shift")
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(right, bottom, steps=6)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(400)
    assert len(inside) > 10
    assert chosen(page) == inside == set(page.evaluate("window.__pugeo.wallIds()"))
    first = page.evaluate("window.__pugeo.wallIds().slice(0, 2)")
    (x0, y0), (x1, y1) = (page.evaluate("(id) => window.__pugeo.chipOf(id)", each) for each in first)
    page.keyboard.down("Shift")
    page.mouse.move(x0 - 5, y0 - 5)
    page.mouse.down()
    page.mouse.move(x1 + 5, y1 + 5, steps=6)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(400)
    assert chosen(page) == set(first)
    assert town.stored() == before, "a box labels nothing"
    page.keyboard.press("Escape")
    assert chosen(page) == set()
    assert len(page.evaluate("window.__pugeo.wallIds()")) == N


def test_a_second_line_with_ctrl_adds(chromium_page, town: Town) -> None:
    page = chromium_page
    open_explore(page, town)
    lasso(page, dots(page, town.on_island(2)))
    page.keyboard.down("Control")
    lasso(page, dots(page, town.on_island(1)))
    page.keyboard.up("Control")
    assert chosen(page) == town.on_island(1) | town.on_island(2)
    lasso(page, dots(page, town.on_island(1)))
    assert chosen(page) == town.on_island(1)


def test_more_than_500_are_labeled_only_after_a_question(chromium_page, town: Town) -> None:
    page = chromium_page
    before = town.stored()
    open_explore(page, town)
    choose(page, set(town.ids))
    page.mouse.move(*dots(page, {town.ids[0]})[0])
    page.keyboard.press("2")
    page.get_by_text(f"Mark {N} buildings not damaged?").wait_for(timeout=5_000)
    page.get_by_text(f"{len(before)} of them have another answer now").wait_for(timeout=5_000)
    assert page.evaluate("window.__pugeo.pending()") == 0
    page.keyboard.press("Escape")
    assert page.get_by_text(f"Mark {N} buildings not damaged?").count() == 0
    assert (len(chosen(page)), town.stored()) == (N, before), "the question is gone, and nothing else happened"
    page.keyboard.press("2")
    page.get_by_role("button", name=f"Mark {N} buildings not damaged").click()
    settle(page, 60)
    assert town.stored() == dict.fromkeys(town.ids, "not_damaged")
    page.keyboard.press("Control+z")
    settle(page, 60)
    assert town.stored() == before


def test_a_click_selects_one_and_labels_nothing(chromium_page, town: Town) -> None:
    page, before = chromium_page, town.stored()
    open_explore(page, town)
    one = page.evaluate("window.__pugeo.wallIds()[1]")
    page.mouse.click(*page.evaluate("(id) => window.__pugeo.chipOf(id)", one))
    assert page.evaluate("window.__pugeo.selected") == one
    another = page.evaluate("window.__pugeo.onScreen(40)[30]")
    page.mouse.click(*page.evaluate("(id) => window.__pugeo.pixelOf(id)", another))
    assert page.evaluate("window.__pugeo.selected") == another
    assert page.evaluate("window.__pugeo.pending()") == 0
    assert town.stored() == before


def test_a_dot_shows_its_chip_and_the_plane_moves_and_zooms(chromium_page, town: Town, screenshots: Path) -> None:
    page = chromium_page
    open_explore(page, town)
    one = min(town.on_island(2))
    page.mouse.move(*dots(page, {one})[0])
    preview = page.locator(".pugeo .dotpreview")
    preview.wait_for(timeout=5_000)
    assert preview.locator(".picture").count() == 2
    assert preview.locator(".picture").first.bounding_box()["width"] > 100
    x, y = dots(page, {one})[0]
    looked = page.evaluate("window.__pugeo.scatter()")
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(200)
    near = page.evaluate("window.__pugeo.scatter()")
    assert near["resolution"] < 0.5 * looked["resolution"]
    assert np.allclose(dots(page, {one})[0], [x, y], atol=9), "what is under the pointer stays there"
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y - 45, steps=5)
    page.mouse.up()
    moved = dots(page, {one})[0]
    assert chosen(page) == set()
    assert np.allclose(moved, [x - 60, y - 45], atol=9)
    page.get_by_role("button", name="Show all dots").click()
    assert page.evaluate("window.__pugeo.scatter()")["resolution"] == pytest.approx(looked["resolution"])


def test_a_selection_outlives_a_look_at_another_screen(chromium_page, town: Town) -> None:
    page, some = chromium_page, set(town.ids[5:25])
    open_explore(page, town)
    choose(page, some)
    page.get_by_role("button", name="Save 20 buildings").wait_for(timeout=30_000)
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Train").click()
    page.get_by_role("button", name="Save 20 buildings").wait_for(state="detached", timeout=30_000)
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Explore").click()
    page.wait_for_function("window.__pugeo && window.__pugeo.ready && window.__pugeo.chosen().length", timeout=30_000)
    assert chosen(page) == some


def test_page_and_browser_agree_on_the_selection_after_every_load(chromium_page, town: Town) -> None:
    page, some, kept = chromium_page, set(town.ids[:20]), set(town.ids[100:133])
    selections.save(town.layout, "bee", sorted(kept), run_id="islands-1", analyst="ann")

    def load() -> None:
        page.get_by_text("Saved selections (").click()
        page.get_by_role("button", name="Select", exact=True).first.click()  # the newest one is listed first
        page.wait_for_function("window.__pugeo.chosen().length === 33", timeout=30_000)
        page.get_by_role("button", name="Save 33 buildings").wait_for(timeout=30_000)
        assert chosen(page) == kept
        page.mouse.click(*page.evaluate("window.__pugeo.pixelOf(window.__pugeo.onScreen(40)[30])"))  # closes the list

    open_explore(page, town)
    for _ in range(2):
        choose(page, some)
        page.get_by_role("button", name="Save 20 buildings").wait_for(timeout=30_000)
        load()
    for _ in range(2):
        page.keyboard.press("Escape")
        page.wait_for_function("window.__pugeo.chosen().length === 0", timeout=5_000)
        page.get_by_role("button", name="Save", exact=True).wait_for(timeout=30_000)
        load()
    selections.remove(town.layout, "bee", analyst="ann")


def test_colors_follow_labels_scores_and_clusters(chromium_page, town: Town, screenshots: Path) -> None:
    page = chromium_page
    open_explore(page, town)
    labeled, free = min(town.stored()), min(town.on_island(2) - set(town.stored()))
    positive = page.evaluate("(id) => window.__pugeo.colorOf(id)", labeled)
    assert positive == [0xD5, 0x5E, 0x00]
    assert page.evaluate("(id) => window.__pugeo.colorOf(id)", free) != positive
    _color_by(page, "PUPL cluster")
    colors = {
        each: tuple(page.evaluate("(id) => window.__pugeo.colorOf(id)", each)) for each in [*town.ids[:40], _hostile(town)]
    }
    by_island = [{colors[each] for each in colors if (each in town.on_island(2)) is there} for there in (True, False)]
    assert [len(found) for found in by_island] == [1, 1]
    assert by_island[0] != by_island[1]
    page.screenshot(path=screenshots / "explore_clusters.png")
    page.locator(".pugeo .dotlegend").get_by_text("of the positives").click()
    assert chosen(page) == town.on_island(2), "a click on the legend selects"
    _color_by(page, "Score")
    page.wait_for_function("window.__pugeo.scatter().by === 'score'")
    high, low = (sum(page.evaluate("(id) => window.__pugeo.colorOf(id)", min(town.on_island(k)))) for k in (2, 0))
    assert high > low, "viridis grows lighter"
    assert page.evaluate("window.__pugeo.scatter().isHeat") is False
    page.get_by_role("radio", name="Heat").click()
    page.wait_for_function("window.__pugeo.scatter().isHeat")


def test_the_legend_selects_what_has_a_dot_after_footprints_came(chromium_page, tmp_path: Path) -> None:
    page, ids = chromium_page, [f"b{i}" for i in range(40)]
    layout = made_up_project(tmp_path / "small.pugeo", ids)
    islands = add_island_run(layout, ids)
    with AppServer(tmp_path / "home", project=layout) as app:
        town = Town(app.address, layout, ids, islands)
        open_explore(page, town)
        _add_footprint(layout)
        open_explore(page, town)
        assert page.evaluate("window.__pugeo.onScreen(0).includes('late0')")
        unlabeled = set(ids) - set(town.stored())
        page.locator(".pugeo .dotlegend").get_by_text("Unlabeled").click()
        page.wait_for_function("window.__pugeo.chosen().length > 0")
        assert chosen(page) == unlabeled


def _add_footprint(layout: Layout) -> None:
    """Add the building `late0` beside the others, in none of the runs, as an import does."""
    ring = [[8.0, 4.0], [14.0, 4.0], [14.0, 7.0], [8.0, 7.0]]
    with store.connect(layout) as db:
        contents.add_footprints(db, square_table(1, prefix="late"))
    drawn = json.loads(layout.geometry.read_text())
    corners = [value for corner in ring for value in corner]
    write_json(layout.geometry, {"ids": [*drawn["ids"], "late0"], "rings": [*drawn["rings"], [corners]]})


def _hostile(town: Town) -> str:
    return next(each for each in town.ids if "<img" in each)


def _color_by(page, words: str) -> None:
    page.get_by_test_id("stSelectbox").nth(1).click()
    page.get_by_role("option", name=words, exact=True).click()
    page.wait_for_function(
        "(by) => window.__pugeo.scatter().by === by", arg={"PUPL cluster": "cluster", "Score": "score"}[words]
    )
    page.wait_for_timeout(600)
