"""Positions and colors of dots, in the order of the map, without a browser."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from small_parts import add_chips, add_run, click, square_table
from type_parts import name_types

from pu_geo.analysis import projection
from pu_geo.answers import ranking
from pu_geo.explore import coloring, umap_picture
from pu_geo.scenes import image_quality, sites
from pu_geo.store import alignment, areas, chosen, contents, discoveries, runs, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.areas import AreaLayer
from pu_geo.store.layout import Layout, write_array

RUN = "ranker-1"
KNOWN = [f"b{i}" for i in range(19, 2, -1)]
"""Buildings of the run: not all of the project, and in another order."""


@pytest.fixture
def explored(project: Layout) -> Layout:
    rng = np.random.default_rng(0)
    n = len(KNOWN)
    arrays = {"embeddings": rng.normal(size=(n, 8)).astype(np.float32), "clusters": np.arange(n) % 2}
    add_run(project, RUN, ids=KNOWN, arrays=arrays)
    return project


def read(sent: bytes | None, columns: int = 1) -> np.ndarray:
    assert sent is not None
    return np.frombuffer(sent, "<f4").reshape(-1, columns)


def test_positions_come_in_the_order_of_the_map_and_are_missing_where_the_run_has_no_building(explored: Layout) -> None:
    sent = read(umap_picture.positions_for_browser(explored, RUN, "PCA"), 2)
    pca = projection.pca_2d(runs.array(explored, RUN, "embeddings"))
    assert sent.shape == (20, 2)
    assert np.isnan(sent[:3]).all()
    assert np.array_equal(sent[3:], pca[::-1])
    found = coloring.coloring(explored, RUN, "cluster")
    assert np.isnan(found.values[:3]).all()
    assert np.array_equal(found.values[3:], (np.arange(len(KNOWN)) % 2)[::-1])
    assert found.names[1] == "cluster of the damaged"
    assert umap_picture.positions_for_browser(explored, "../secrets", "PCA") is None
    assert coloring.values_for_browser(explored, "ranker-2", "size") is None
    assert coloring.values_for_browser(explored, RUN, "attribute:nothing") is None
    assert coloring.values_for_browser(explored, RUN, "label") is None, "the browser knows labels already"


def test_umap_takes_the_place_of_pca_and_buildings_that_came_later_are_counted(explored: Layout) -> None:
    kind, v = umap_picture.projection_of(explored, RUN)
    assert kind == "PCA"
    assert umap_picture.positions_for_browser(explored, RUN, "UMAP") is None
    laid_out = np.random.default_rng(1).normal(size=(len(KNOWN), 2)).astype(np.float32)
    write_array(explored.run(RUN) / "umap.npy", laid_out)
    now = umap_picture.projection_of(explored, RUN)
    assert now[0] == "UMAP"
    assert now[1] != v
    assert np.array_equal(read(umap_picture.positions_for_browser(explored, RUN, "UMAP"), 2)[3:], laid_out[::-1])
    assert umap_picture.n_unplaced(explored, RUN) == 0
    add_chips(explored, [*KNOWN, "b0", "b1"], "newer")
    assert umap_picture.n_unplaced(explored, RUN) == 2


def test_attributes_areas_and_sizes_are_offered_and_types_once_there_are_some(explored: Layout) -> None:
    usual = ["label", "score", "near", "disagreement", "cluster", "size", "attribute:damage", "attribute:name"]
    assert list(coloring.choices(explored)) == usual
    with store.connect(explored) as db:
        square = shapely.to_wkb(shapely.box(500_000, 3_999_990, 500_100, 4_000_020))
        areas.put_areas(db, AreaLayer("adm2", ["West"], [None], [square]))
    name_types(explored, Burnt=["b4", "b5"], Flooded=["b5"])
    assert {"type", "area:adm2"} <= set(coloring.choices(explored))
    west = coloring.coloring(explored, RUN, "area:adm2")
    assert west.values is not None
    assert west.names == ["West"]
    assert np.isnan(west.values).tolist() == [16 * i + 4 > 100 for i in range(20)], "middles of the squares lie every 16 m"
    types = coloring.coloring(explored, RUN, "type")
    assert types.names == ["Burnt", "Flooded"]
    assert types.values[[4, 5]].tolist() == [0, 1], "of two types the newer one"
    click(explored, "b5", label="not_damaged")
    judged = coloring.coloring(explored, RUN, "type")
    assert judged.values[4] == 0
    assert np.isnan(judged.values[5]), "what people called undamaged has no type of damage"
    assert judged.v != types.v
    name_types(explored, Flooded=[])
    after = coloring.coloring(explored, RUN, "type")
    assert after.names == ["Burnt"]
    assert after.v != types.v, "the browser asks again"


def test_each_site_of_an_event_has_a_color_in_their_order_however_many_they_are(
    explored: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "site" not in coloring.choices(explored)
    assert coloring.coloring(explored, RUN, "site") is None, "there is one place alone"
    grid = store.call(explored, contents.grid)
    names = [f"Site {k}" for k in range(20, 0, -1)]
    event = replace(grid, sites=tuple(replace(grid, name=name) for name in names))
    monkeypatch.setattr(contents, "any_grid", lambda db: event)
    monkeypatch.setattr(contents, "grid", lambda db: event)
    monkeypatch.setattr(contents, "sites", lambda db: np.arange(20))
    assert coloring.choices(explored)["site"] == "Site"
    found = coloring.coloring(explored, RUN, "site")
    assert (found.kind, found.names) == ("categories", names)
    assert read(coloring.values_for_browser(explored, RUN, "site"))[:, 0].tolist() == list(range(20))
    monkeypatch.setattr(contents, "sites", lambda db: np.arange(20) // 2)
    assert coloring.coloring(explored, RUN, "site").v != found.v, "the browser asks again"


def test_groups_of_a_discovery_are_colored_as_people_merged_and_dropped_them(explored: Layout) -> None:
    ids = [f"b{i}" for i in range(12)]
    groups = np.repeat(np.arange(4), 3).astype(np.int16)
    facts = {"discovery": "types-1", "made_at": store.now(), "n_groups": 4}
    discoveries.keep(explored, explored.folder / "work", facts, ids, groups)
    with store.connect(explored) as db:
        review = discoveries.Review(merged=[[0, 2]], dropped={3})
        discoveries.decide(db, discoveries.load(explored, "types-1"), review, analyst="ann")
    found = coloring.coloring(explored, RUN, "groups")
    assert found.names == ["Group 1", "Group 2"]
    assert found.values[:9].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert np.isnan(found.values[9:]).all()


@pytest.mark.parametrize("has_umap", [False, True])
def test_positions_and_colors_are_asked_for_again_when_footprints_came(explored: Layout, has_umap: bool) -> None:
    if has_umap:
        write_array(explored.run(RUN) / "umap.npy", np.zeros((len(KNOWN), 2), np.float32))
    before = umap_picture.projection_of(explored, RUN)
    assert len(coloring.coloring(explored, RUN, "attribute:damage").values) == 20
    store.call(explored, contents.add_footprints, square_table(22))
    after = umap_picture.projection_of(explored, RUN)
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert len(read(umap_picture.positions_for_browser(explored, RUN, after[0]), 2)) == 22
    assert len(coloring.coloring(explored, RUN, "attribute:damage").values) == 22


def test_values_get_twelve_categories_or_a_ramp_between_percentiles() -> None:
    values: list[object] = [f"kind {k:02d}" for k in range(20) for _ in range(20 - k)]
    found = coloring.of_values("attribute:kind", "Kind", values, "1")
    assert found.kind == "categories"
    assert list(found.names) == [f"kind {k:02d}" for k in range(12)] + ["other"]
    wanted = [value if str(value) < "kind 12" else "other" for value in values]
    assert [found.names[int(code)] for code in found.values] == wanted
    numbers = [*range(100), 10_000.0]
    for values in (numbers, [str(number) for number in numbers]):
        found = coloring.of_values("attribute:year", "Year", [*values, None, ""], "1")
        assert np.isnan(found.values[-2:]).all()
        assert np.array_equal(found.values[:-2], np.array(numbers, np.float32))
        assert (found.kind, found.low, found.high, found.ends) == ("numbers", 1.0, 99.0, ("≤ 1", "≥ 99"))
    days = [f"2024-03-{day:02d}" for day in range(1, 31)]
    found = coloring.of_values("attribute:seen", "Seen", [*days, None], "1")
    assert np.diff(found.values[:-1]).tolist() == [1.0] * 29
    assert (found.kind, found.ends) == ("numbers", ("≤ 2024-03-01", "≥ 2024-03-30"))


@pytest.mark.parametrize(
    "values", [[True, False, None], ["5", "east", *map(str, range(20))], [float("inf"), *range(20)], []]
)
def test_few_values_and_mixed_ones_are_categories(values: list[object]) -> None:
    assert coloring.of_values("attribute:x", "X", values, "1").kind == "categories"


def rows_on_map(layout: Layout) -> NDArray[np.int64]:
    """Return the run's row of each building of the map, -1 where the run has none."""
    ids = runs.building_ids_of(layout, RUN)
    found = ranking.in_map_order(layout, ids, np.arange(len(ids), dtype=np.float32))
    return np.nan_to_num(found, nan=-1).astype(np.int64)


def test_uncertain_is_what_is_near_the_threshold_by_rank(explored: Layout) -> None:
    scores, rows = np.asarray(runs.array(explored, RUN, "scores")), rows_on_map(explored)
    order = np.argsort(-scores, kind="stable")
    chosen.choose_threshold(explored, RUN, float(np.round(scores[order[4]], 4)))
    found = coloring.coloring(explored, RUN, "near")
    assert found.title == "Uncertainty: rank distance to the threshold"
    by_row = {int(row): float(value) for row, value in zip(rows, found.values, strict=True) if row >= 0}
    for place, row in enumerate(order.tolist()):  # by hand: (place + 0.5) / N against the share that is flagged, 5 of 17
        assert by_row[row] == pytest.approx(-abs((place + 0.5) / 17 - 5 / 17))
    assert max(by_row.values()) <= found.high
    chosen.choose_threshold(explored, RUN, 0.999)
    assert coloring.coloring(explored, RUN, "near").v != found.v, "the browser asks for it again"


def test_uncertain_is_where_run_and_live_ranking_differ(explored: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, rows = np.asarray(runs.array(explored, RUN, "scores")), rows_on_map(explored)
    live = np.where(rows >= 0, 1 - scores[rows], np.nan).astype("<f4")  # the opposite order
    monkeypatch.setattr(ranking, "rank_now", lambda layout: ranking.LiveRanking("live-x-1", 0.0))
    monkeypatch.setattr(ranking, "scores_for_browser", lambda layout, score_id: live.tobytes())
    found = coloring.coloring(explored, RUN, "disagreement")
    assert found.title == "Uncertainty: ranks, run against live ranking"
    assert found.values[rows >= 0].max() == pytest.approx(1 - 1 / len(scores))
    monkeypatch.setattr(ranking, "rank_now", lambda layout: None)
    assert np.isnan(coloring.coloring(explored, RUN, "disagreement").values).all(), "there is no live ranking yet"


# Pictures of the ground, from the map's tiles

EVERY = [f"b{i}" for i in range(20)]


def tiles(folder: Path) -> None:
    """Write 800 x 80 pixels at full resolution as four tiles, each of a gray that tells its columns."""
    for x in range(4):
        shade = np.full((256, 256, 3), 60 + 40 * x, np.uint8)
        (folder / "2" / str(x)).mkdir(parents=True)
        cv2.imwrite(str(folder / "2" / str(x) / "0.jpg"), shade)
    (folder / "pyramid.json").write_text(
        json.dumps({"max_zoom": 2, "tile_px": 256, "width": 800, "height": 80}), encoding="utf-8"
    )


@pytest.fixture
def pictured(project: Layout) -> Layout:
    add_chips(project, EVERY, size_px=16)
    for role in ("pre", "post"):
        tiles(project.quicklooks / role)
    return project


def align(layout: Layout, dx_m: float, quality: float) -> None:
    dx, no, none = np.full(20, dx_m), np.zeros(20), np.zeros(20, bool)
    found = Alignment(EVERY, dx, no, np.full(20, quality), ~none, none, np.array([[dx_m, 0.0]]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def test_they_show_the_ground_at_the_buildings_place_pre_above_post(pictured: Layout) -> None:
    first, far = umap_picture.pictures_of(pictured, "any", ["b0", "b19"])
    side = umap_picture.GROUND_PX
    assert first.shape == (2 * side, side, 3)
    middle = side // 2 + side // 8  # between outline and border
    assert first[middle, middle].tolist() == pytest.approx([60] * 3, abs=2), "columns 20 to 36 are on the first tile"
    assert far[middle, middle].tolist() == pytest.approx([140] * 3, abs=2), "columns 628 to 644 on the third"


def test_pre_is_moved_where_it_was_aligned(pictured: Layout) -> None:
    grid = store.call(pictured, contents.grid)
    assert image_quality.pre_shifts_px(pictured, grid) is None
    align(pictured, -150.0, 0.9)  # pre must move 300 columns to the left: it is cut 300 further right
    assert image_quality.pre_shifts_px(pictured, grid)[3].tolist() == [-300, 0]
    (picture,) = umap_picture.pictures_of(pictured, "any", ["b0"])
    side, middle = umap_picture.GROUND_PX, umap_picture.GROUND_PX // 2 + umap_picture.GROUND_PX // 8
    assert picture[middle, middle, 0] == pytest.approx(100, abs=2)
    assert picture[side + middle, middle, 0] == pytest.approx(60, abs=2), "post stays"
    align(pictured, -150.0, 0.0)
    assert not image_quality.pre_shifts_px(pictured, grid).any(), "what could not be aligned stays"


def test_longitudes_and_latitudes_of_the_grids_nodes(project: Layout) -> None:
    nodes = sites.for_browser(store.call(project, contents.grid))[0]["lonlat"]
    assert nodes["n"] == 5
    corner = nodes["lon"][0], nodes["lat"][0]  # 10 m west of the meridian of UTM 15N
    assert corner == pytest.approx((-93.000111, 36.144717), abs=2e-4)
    assert nodes["lon"][4] > nodes["lon"][0]
    assert nodes["lat"][20] < nodes["lat"][0]
