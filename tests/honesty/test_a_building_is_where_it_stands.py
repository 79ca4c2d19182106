"""Labels and scores stay with the building at a place, whatever a file calls it, in whatever order, under whatever ids."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from small_parts import job_of, replace_footprints

from pu_geo.errors import FootprintError
from pu_geo.geo.readers.footprint_files import load_features
from pu_geo.lifecycle import removing
from pu_geo.lifecycle.remove_job import remove_footprints
from pu_geo.scenes.footprints_job import add_footprints
from pu_geo.store import chosen, contents, labels, store
from pu_geo.store.chosen import reasons_of
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.slow
Frame = geopandas.GeoDataFrame
RNG = np.random.default_rng(3)


def frame_of(layout: Layout) -> Frame:
    with store.connect(layout) as db:
        found, crs = contents.all_outlines(db), contents.grid(db).crs
    return Frame({"uid": list(found)}, geometry=shapely.from_wkb(list(found.values())), crs=crs)


def shuffled(houses: Frame) -> Frame:
    return houses.iloc[RNG.permutation(len(houses))].reset_index(drop=True)


def renamed(houses: Frame) -> Frame:
    return houses.assign(uid=houses.uid.to_numpy()[RNG.permutation(len(houses))])


def moved(houses: Frame, is_moved: Any, dx: float = 25.0) -> Frame:
    return houses.assign(geometry=np.where(is_moved, houses.geometry.translate(dx, 0.0), houses.geometry))


FILES: Mapping[str, tuple[str, Callable[[Frame], Frame]]] = {
    "numbered in another order": ("geojson", renamed),
    "row numbers as ids, shuffled": ("geojson", lambda houses: shuffled(houses)[["geometry"]].assign(id=range(len(houses)))),
    "a GeoPackage with a row less": ("gpkg", lambda houses: houses.iloc[1:][["geometry"]]),
    "a third moved by 25 m": ("geojson", lambda houses: moved(houses, np.arange(len(houses)) % 3 == 0)),
    "drawn again, a meter off": ("gpkg", lambda houses: shuffled(moved(houses, True, 1.0))),
}


def known(layout: Layout) -> tuple[dict[str, shapely.Point], dict[str, shapely.Point]]:
    """Where the buildings stand that have an answer, and those whose score the map shows."""
    outlines = store.call(layout, contents.all_outlines)
    at = {building: shapely.centroid(shapely.from_wkb(wkb)) for building, wkb in outlines.items()}
    names, rows = store.call(layout, contents.live_map)
    scored = [row[names.index("building_id")] for row in rows if row[names.index("score")] is not None]
    return {each: at[each] for each in store.call(layout, labels.current_labels)}, {each: at[each] for each in scored}


@pytest.mark.parametrize("name", FILES)
def test_what_is_known_stays_where_footprints_are_replaced(ranked_town: Layout, tmp_path: Path, name: str) -> None:
    kind, change = FILES[name]
    before, file = known(ranked_town), tmp_path / f"new.{kind}"
    wanted = change(frame_of(ranked_town))
    wanted.to_file(file)
    plan = replace_footprints(ranked_town, file)
    after = known(ranked_town)
    for was, now in zip(before, after, strict=True):
        assert now
        assert max(was[building].distance(at) for building, at in now.items()) < 2, "at another place"
        lost = [at for building, at in was.items() if building not in now]
        distances = [shapely.distance(at, np.asarray(wanted.geometry)).min() for at in lost]
        assert min([9.0, *distances]) > 0.5, "what stands there lost it"
        words = " ".join(plan)
        assert not lost or was is not before[0] or f"{len(lost)} building" in words, "unsaid"
    n = len(store.call(ranked_town, contents.building_ids))
    assert n > len(wanted) - 3, "two were moved onto others, or off the scene"


def test_a_shift_of_all_is_offered_and_takes_labels_along_and_no_score(ranked_town: Layout, tmp_path: Path) -> None:
    houses, before = frame_of(ranked_town), known(ranked_town)
    shuffled(moved(renamed(houses), True, 14.0)).to_file(file := tmp_path / "new.geojson")
    assert "14.0 m east" in " ".join(replace_footprints(ranked_town, file, shift=True))
    labeled, scored = known(ranked_town)
    assert labeled.keys() == before[0].keys()
    assert {round(at.x - before[0][building].x, 1) for building, at in labeled.items()} == {14.0}
    assert scored == {}
    assert set((reasons_of(ranked_town, chosen.run(ranked_town, "latest")) or {}).values()) == {"not_in_run"}
    removing.undo(ranked_town, "ann")
    assert known(ranked_town) == before


def test_the_place_of_a_removed_house_moves_with_all_others(ranked_town: Layout, tmp_path: Path) -> None:
    houses, labeled = frame_of(ranked_town), known(ranked_town)[0]
    gone = next(iter(labeled))
    remove_footprints(job_of(ranked_town, "remove"), name=json.dumps([gone]), analyst="ann")
    there = moved(houses, True, 14.0)
    there[houses.uid != gone].to_file(file := tmp_path / "new.geojson")
    replace_footprints(ranked_town, file, shift=True)
    assert known(ranked_town)[0].keys() == labeled.keys() - {gone}, "another stands where it stood"
    there[houses.uid == gone].assign(uid="x").to_file(file)
    add_footprints(job_of(ranked_town, "add"), paths=[str(file)])
    assert known(ranked_town)[0].keys() == labeled.keys()


def test_houses_removed_and_added_under_other_ids_have_their_answers_again(ranked_town: Layout, tmp_path: Path) -> None:
    houses, before = frame_of(ranked_town), known(ranked_town)
    shuffled(renamed(houses)).to_file(file := tmp_path / "again.geojson")
    remove_footprints(job_of(ranked_town, "remove"), name="all", analyst="ann")
    added = add_footprints(job_of(ranked_town, "add"), paths=[str(file)])["files"][0]
    assert added["added"] == len(houses)
    assert any("answers and scores count again" in str(note) for note in added["notes"])
    assert known(ranked_town)[0] == before[0]
    assert known(ranked_town)[1].keys() == before[1].keys()
    assert all(at.distance(before[1][building]) < 1 for building, at in known(ranked_town)[1].items())


def test_two_files_that_number_their_houses_alike_are_both_added(ranked_town: Layout, tmp_path: Path) -> None:
    houses = frame_of(ranked_town)
    remove_footprints(job_of(ranked_town, "remove"), name="all", analyst="ann")
    for number, half in enumerate((houses.iloc[::2], houses.iloc[1::2])):
        for kind, named in (("gpkg", half[["geometry"]]), ("geojson", half.assign(uid=[f"h{i}" for i in range(len(half))]))):
            named.to_file(tmp_path / f"{number}.{kind}")
    for kind in ("gpkg", "geojson"):
        paths = [str(tmp_path / f"{k}.{kind}") for k in (0, 1)]
        added = [add_footprints(job_of(ranked_town, f"{kind}{k}"), paths=[path])["added"] for k, path in enumerate(paths)]
        assert added == ([17, len(houses) - 17] if kind == "gpkg" else [0, 0])
    assert len({*store.call(ranked_town, contents.building_ids)}) == len(houses)


def test_ids_of_which_a_format_lost_digits_are_refused(ranked_town: Layout, tmp_path: Path) -> None:
    houses = frame_of(ranked_town)
    ids = [31415926535897932301.0 + 4096 * i for i in range(len(houses))]
    houses[["geometry"]].assign(BLDG_ID=ids).to_file(tmp_path / "a.shp")
    with pytest.raises(FootprintError, match="keeps 15 digits") as refused:
        load_features(tmp_path / "a.shp")
    assert refused.value.kind == "digits"
