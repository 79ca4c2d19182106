"""Remove, replace, undo, reclaim: each kind leaves every listing, and comes back equal, rows and bytes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress

import numpy as np
import pytest
from small_parts import add_run, job_of

from pu_geo.errors import ProjectError
from pu_geo.project import contents, feature_sets, removals, runs, store, versions
from pu_geo.project.layout import Layout
from pu_geo.project.removals import Kind
from pu_geo.services.project import choices, projects, removing
from pu_geo.tasks.project import remove as task

_LOGS = ("removal", "removal_end", "sqlite_sequence", "pinned_run")
_KEPT = ("trash", "jobs")


def rows(layout: Layout) -> dict[str, list[object]]:
    """All rows of all tables, but of the logs that a removal itself writes."""
    with closing(sqlite3.connect(layout.gpkg)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name not in _LOGS}
    for name in ("gpkg_contents",):
        found[name] = [(*row[:4], *row[5:]) for row in found[name]]
    return found


def files(layout: Layout) -> dict[str, bytes]:
    """The bytes of all files, but of the database, jobs and trash."""
    found = {}
    for path in sorted(layout.folder.rglob("*")):
        parts = path.relative_to(layout.folder).parts
        if (
            path.is_file()
            and parts[0] not in _KEPT
            and not path.name.startswith("project.")
            and not path.name.endswith("lock")
        ):
            found["/".join(parts)] = path.read_bytes()
    return found


def state(layout: Layout) -> tuple[object, object]:
    return rows(layout), files(layout)


def published(layout: Layout, number: int = 1, run_id: str = "ranker-1") -> None:
    """Write a version, as `publish` leaves it."""
    folder = layout.exports / f"v{number}"
    folder.mkdir(parents=True)
    facts = {"version": f"v{number}", "made_at": store.now(), "run_id": run_id, "threshold": 0.5, "n": 20, "flagged": 3}
    (folder / "version.json").write_text(json.dumps(facts))
    (folder / "map.csv").write_text("building_id\n")


def town_run(layout: Layout) -> str:
    """A second run of the ranked town, which is not the one that is shown."""
    first = choices.chosen_run(layout)
    assert first is not None
    choices.choose_run(layout, first.run_id)
    ids = runs.building_ids_of(layout, first.run_id)
    add_run(layout, "ranker-2", ids=ids, scores=np.linspace(0, 1, len(ids)), like=first.run_id)
    choices.chosen_run(layout)
    return "ranker-2"


def remove(layout: Layout, kind: Kind, name: str) -> int:
    """Remove a thing by whatever removes it, and return the number of the removal."""
    found = removing.task_of(removing.plan(layout, kind, name))
    if found is None:
        return removing.remove(layout, kind, name, "ann").number
    return int(str(getattr(task, found[0])(job_of(layout, "remove"), **found[1], analyst="ann")["removal"]))


def feature_set(layout: Layout) -> str:
    """Give the newest chips a second set of features."""
    chip_set = store.call(layout, contents.chosen_chip_set)
    shutil.copy(layout.features(chip_set), layout.features(chip_set, "other-1"))
    feature_sets.write_maker(layout, chip_set, "other-1", {"a": np.zeros(2)})
    found = feature_sets.FeatureSet("other-1", {"kind": "other"}, *feature_sets.views(layout, chip_set).shape)
    feature_sets.put(layout, chip_set, found)
    return "other-1"


def first_ids(layout: Layout, n: int = 3) -> list[str]:
    return store.call(layout, contents.building_ids)[:n]


NAMES: dict[Kind, Callable[[Layout], str]] = {
    "run": town_run,
    "export": lambda layout: (published(layout), "v1")[1],
    "chips": lambda layout: store.call(layout, contents.chosen_chip_set),
    "features": feature_set,
    "scene": lambda _: "pre-1",
    "footprints": lambda layout: json.dumps(first_ids(layout)),
}


def listed(layout: Layout, kind: Kind) -> list[str]:
    """What each screen and command lists of a kind."""
    with store.connect(layout) as db:
        chip_sets = contents.chip_sets(db)
        return {
            "run": [one.run_id for one in runs.all_runs(db)],
            "export": [f"v{number}" for number in versions.numbers(layout)],
            "chips": chip_sets,
            "features": [one.name for chip_set in chip_sets for one in feature_sets.all_sets(layout, chip_set)],
            "scene": [scene.scene_id for scene in contents.scenes(db)],
            "footprints": contents.building_ids(db),
        }[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", removing.KINDS)
def test_a_removed_thing_is_listed_nowhere_and_comes_back_equal(kind: Kind, ranked_town: Layout) -> None:
    name = NAMES[kind](ranked_town)
    wanted = {*json.loads(name)} if kind == "footprints" else {name}
    before = state(ranked_town)
    assert wanted <= {*listed(ranked_town, kind)}
    number = remove(ranked_town, kind, name)
    assert wanted.isdisjoint(listed(ranked_town, kind))
    assert state(ranked_town) != before
    assert [one.number for one in removing.removed(ranked_town)] == [number]
    removing.undo(ranked_town, number, "ann")
    after = state(ranked_town)
    assert after[1] == before[1]
    assert after[0] == before[0]
    assert removing.removed(ranked_town) == []
    with pytest.raises(ProjectError, match="was undone already"):
        removing.undo(ranked_town, number, "ann")
    remove(ranked_town, kind, name)  # once more, from where it was


@pytest.mark.slow
@pytest.mark.parametrize("kind", removing.KINDS)
def test_reclaimed_space_is_free_and_its_removal_cannot_be_undone(kind: Kind, ranked_town: Layout) -> None:
    number = remove(ranked_town, kind, NAMES[kind](ranked_town))
    found, n_bytes = removing.reclaimable(ranked_town)
    assert ([one.number for one in found], n_bytes) == ([number], removals.trash_bytes(ranked_town))
    assert n_bytes > 0
    assert removing.reclaimable(ranked_town, older_than_days=1) == ([], 0)
    assert removing.reclaim(ranked_town, [number], "ann") == n_bytes
    assert removals.trash_bytes(ranked_town) == 0
    with pytest.raises(ProjectError, match="its space was reclaimed"):
        removing.undo(ranked_town, number, "ann")


# What is left copes


def use_everything(layout: Layout) -> None:
    """Draw every page, ask what the browser asks, and publish; whatever refuses does so in words."""
    from app_parts import show, show_tab

    from pu_geo.errors import PuGeoError
    from pu_geo.services.annotate import queueing, ranking
    from pu_geo.services.damage_map import exporting, mapping
    from pu_geo.services.explore import exploring
    from pu_geo.services.imagery import image_quality
    from pu_geo.services.train import results, run_card
    from pu_geo.tasks.damage_map.publish import publish
    from pu_geo.tasks.explore.embed import embed
    from pu_geo.tasks.train.train import rank

    for page in ("project", "imagery", "annotate", "train", "explore", "damage_map"):
        show(page, layout)
    for tab in ("Export", "Areas", "Accuracy assessment"):
        show_tab(layout, tab)
    found = store.call(layout, runs.all_runs)
    asks: list[Callable[[], object]] = [
        lambda: queueing.advance(layout, "ann", done=None),
        lambda: ranking.scores_for_browser(layout, "live"),
        lambda: image_quality.shifts_for_browser(layout),
        lambda: results.table(layout, found),
        lambda: projects.summary(layout),
        lambda: publish(job_of(layout, "publish"), run_id="chosen", threshold=0.5, formats=["geojson", "csv"]),
        lambda: rank(job_of(layout, "rank")),
        *(
            ask
            for run in found
            for ask in (
                lambda run=run: ranking.scores_for_browser(layout, run.run_id),
                lambda run=run: run_card.card(layout, run.run_id),
                lambda run=run: exporting.summary(layout, run.run_id, 0.5),
                lambda run=run: exporting.classes_now(layout, run.run_id, 0.5),
                lambda run=run: mapping.at_threshold(layout, run.run_id, 0.5),
                lambda run=run: exploring.n_unplaced(layout, run.run_id),
                lambda run=run: exploring.chip_pictures(layout, run.run_id, first_ids(layout)),
                lambda run=run: embed(job_of(layout, "embed"), run_id=run.run_id),
            )
        ),
    ]
    for ask in asks:
        with suppress(PuGeoError):  # a refusal in words is fine
            ask()


@pytest.mark.long
@pytest.mark.parametrize("kind", removing.KINDS)
def test_all_screens_and_tasks_cope_with_what_is_gone(kind: Kind, ranked_town: Layout) -> None:
    from pu_geo.tasks.damage_map.publish import publish

    name = NAMES[kind](ranked_town)
    if kind != "export":
        publish(job_of(ranked_town, "publish"), run_id="chosen", threshold=0.5, formats=["geojson"])
    remove(ranked_town, kind, name)
    use_everything(ranked_town)


@pytest.mark.long
def test_all_screens_and_tasks_cope_without_any_footprint_or_run(ranked_town: Layout) -> None:
    remove(ranked_town, "footprints", "all")
    use_everything(ranked_town)
    (run,) = store.call(ranked_town, runs.all_runs)
    remove(ranked_town, "run", run.run_id)
    use_everything(ranked_town)
