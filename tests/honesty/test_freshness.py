"""What was made of a picture that the project has no more is refused or said, by fingerprints: no clock and no name decides."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from layer_parts import speckle, town_layer
from PIL import Image
from small_parts import job_of, table_of

from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import ProjectError
from pu_geo.lifecycle import doctor_job, removing
from pu_geo.lifecycle.remove_job import remove_scene, replace_layer, replace_scene
from pu_geo.maps import run_card
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.runs import train_job
from pu_geo.runs.train_job import rank
from pu_geo.scenes import layers, preparation, scene_pair
from pu_geo.scenes.align_job import align
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.features_job import features
from pu_geo.scenes.layers_job import add_layer
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import alignment, chosen, contents, freshness, runs, store
from pu_geo.store.layout import SHARED, Layout

Change = Callable[[Layout, Path, Path], object]


def picture(town: Path, path: Path, *, gray: int = 0, by_px: int = 0) -> Path:
    """Write the town's post scene as a PNG with a world file, some gray levels brighter, or some pixels further east."""
    with rasterio.open(town / "post.tif") as post:
        a, b, c, d, e, f = tuple(post.transform)[:6]
        pixels = np.moveaxis(post.read().astype(int) + gray, 0, -1).clip(0, 255).astype(np.uint8)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path)
    path.with_suffix(".pgw").write_text("\n".join(map(str, (a, d, b, e, c + (by_px + 0.5) * a, f + 0.5 * e))))
    return path


def other_scene(layout: Layout, town: Path, tmp: Path) -> object:
    path = picture(town, tmp / "other.png", gray=9)
    return replace_scene(job_of(layout), name="town", path=str(path), analyst="ann", crs="EPSG:32615")


def other_place(layout: Layout, town: Path, tmp: Path) -> object:
    path = picture(town, tmp / "corrected" / "post.png", by_px=6)
    return replace_scene(job_of(layout), name="town", path=str(path), analyst="ann", crs="EPSG:32615")


def other_layer(layout: Layout, town: Path, tmp: Path) -> object:
    path = town_layer(town, tmp / "new.tif", speckle(256, 320, seed=5))
    return replace_layer(job_of(layout), name="sar", paths=[str(path)], analyst="ann")


def no_pre(layout: Layout, town: Path, tmp: Path) -> object:
    return remove_scene(job_of(layout), name="pre", analyst="ann")


def another_pre(layout: Layout, town: Path, tmp: Path) -> object:
    return add_scenes(job_of(layout), pre=[str(picture(town, tmp / "pre-too.png", gray=3))], post=[], crs="EPSG:32615")


def other_order(layout: Layout, town: Path, tmp: Path) -> object:
    """Put the first of two scenes that overlap after the other: what they both show is another picture."""
    with store.connect(layout) as db:
        db.execute("UPDATE scene SET rowid = (SELECT max(rowid) + 1 FROM scene) WHERE scene_id = 'town'")


def one_more(layout: Layout, town: Path, tmp: Path) -> object:
    shape = store.call(layout, contents.footprints)
    moved = table_of([shapely.transform(shapely.from_wkb(shape.wkb[0]), lambda xy: xy + 1.5)], ["new"])
    return store.call(layout, contents.add_footprints, moved)


def other_outline(layout: Layout, town: Path, tmp: Path) -> object:
    table = store.call(layout, contents.footprints)
    wider = [shapely.to_wkb(shapely.buffer(shapely.from_wkb(one), 0.2)) for one in table.wkb]
    with store.connect(layout) as db, store.transaction(db):
        contents.change_outlines(db, replace(table, wkb=wider), table.building_ids[:2])
    return None


def aligned_otherwise(layout: Layout, town: Path, tmp: Path) -> object:
    scenes, ids = store.call(layout, contents.scenes), store.call(layout, contents.building_ids)
    found = alignment.load(layout, ids, scenes)
    assert found is not None
    alignment.save(layout, replace(found, dx_m=found.dx_m + 2), scenes)
    return None


CASES: dict[str, tuple[Change, str, bool]] = {
    "another post scene": (other_scene, "The chips show town, which was removed, replaced", True),
    "the same picture in another place": (other_place, "The chips show town, which was", True),
    "another file of a layer": (other_layer, "The chips show sar of the layer sar, which was", True),
    "a scene under another that was over it": (other_order, "The chips show town and under, which were", True),
    "a scene removed": (no_pre, "The chips show pre, which was", True),
    "one scene more": (another_pre, "1 file of scenes or layers came after", False),
    "one footprint more": (one_more, "1 footprint added after", False),
    "other outlines": (other_outline, "2 outlines changed after", False),
    "aligned with another result": (aligned_otherwise, "The scenes were aligned after", False),
}


@pytest.fixture(scope="module")
def made(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A town whose post scene has a world file and lies over another, with a layer, chips, shared features and a run."""
    tmp = tmp_path_factory.mktemp("fresh")
    layout = Layout(Path(shutil.copytree(town / "ranked.pugeo", tmp / "town.pugeo")))
    path = picture(town, tmp / "town.png")
    replace_scene(job_of(layout), name="post", path=str(path), analyst="ann", crs="EPSG:32615")
    add_scenes(job_of(layout), pre=[], post=[str(picture(town, tmp / "under.png", gray=-9))], crs="EPSG:32615")
    add_layer(job_of(layout), name="sar", paths=[str(town_layer(town, tmp / "sar.tif", speckle(256, 320)))], kind="sar-db")
    align(job_of(layout))
    chip(job_of(layout), size_px=32, views=1)
    features(job_of(layout), request={"maker": SHARED, "n_views": 1}, use=True)
    rank(job_of(layout))
    return layout


@pytest.mark.parametrize("name", CASES)
def test_a_former_picture_is_refused_and_what_changed_is_said(made: Layout, town: Path, tmp_path: Path, name: str) -> None:
    change, words, is_refused = CASES[name]
    layout = Layout(Path(shutil.copytree(made.folder, tmp_path / "town.pugeo")))
    run, chip_set = store.call(layout, runs.find, "latest"), str(store.call(layout, contents.latest_chip_set))
    before = build_damage_map(layout, run.run_id, None)
    assert (freshness.of_chips(layout).words, before.metadata["out_of_date"]) == ("", "")

    done = change(layout, town, tmp_path)
    published = build_damage_map(layout, run.run_id, None)
    said = (
        scene_pair.judge(layout, preparation.overview(layout).chips).stale,
        " ".join(published.metadata["cannot_say"]),
        " ".join(run_card.card(layout, run.run_id)["warnings"]),
        " ".join(one.words for one in doctor_job.examine(layout)),
    )
    assert all(words in one for one in said), said
    assert published.metadata["sha256"] == before.metadata["sha256"]
    assert [row["n_missing"] is None for row in layers.rows(layout)] == [change is other_layer]
    acts: list[Callable[[], object]] = [
        lambda: rank(job_of(layout, "again")),
        lambda: random_audits.begin_audit(layout, run.run_id, auditing.plan(layout, run.run_id).n, "ann"),
        lambda: features(job_of(layout), request={"maker": SHARED, "n_views": 1}),
    ]
    if is_refused:
        for act in acts:
            with pytest.raises(ProjectError, match=words):
                act()
    else:
        acts[1]()

    cut = chip(job_of(layout), size_px=32, views=1)
    assert freshness.of_chips(layout).words == ""
    assert words in run_card.card(layout, run.run_id)["warnings"][0], "the run is still of the former picture"
    assert cut["chip_set"] != chip_set
    if change is not no_pre:
        assert not features(job_of(layout), request={"maker": SHARED, "n_views": 1})["was_there"]
    if isinstance(done, dict) and "removal" in done:
        removing.undo(layout, "ann")
        assert freshness.of_chips(layout, chip_set).words == ""


def test_no_clock_says_what_is_newest(made: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(Path(shutil.copytree(made.folder, tmp_path / "town.pugeo")))
    first = random_audits.begin_audit(layout, "latest", auditing.plan(layout, "latest").n, "ann")
    chosen.choose_run(layout, "latest")
    for module in (store, contents, runs, train_job):  # the clock is set back
        monkeypatch.setattr(module, "now", lambda: "2001-01-01T00:00:00.000Z", raising=False)
    cut = chip(job_of(layout), size_px=16, views=1)
    assert store.call(layout, contents.latest_chip_set) == cut["chip_set"]
    ranked = rank(job_of(layout, "later"))
    assert store.call(layout, runs.find, "latest").run_id == ranked["run_id"]
    second = random_audits.begin_audit(layout, "latest", auditing.plan(layout, "latest").n, "ann")
    assert [facts["id"] for facts in random_audits.audits_of(layout)] == [first.id, second.id]
    random_audits.end(layout, second.id)

    removing.start(layout, removing.plan(layout, "run", str(ranked["run_id"])), "ann")
    removing.start(layout, removing.plan(layout, "chips", str(cut["chip_set"])), "ann")
    last = chip(job_of(layout), size_px=24, views=1)["chip_set"]
    newest = rank(job_of(layout, "last"))["run_id"]
    for _ in range(2):  # what comes back is as old as it was
        removing.undo(layout, "ann")
    assert store.call(layout, contents.latest_chip_set) == last
    assert store.call(layout, runs.find, "latest").run_id == newest
