"""The look: drawn once, and by itself; what pictures on Explore show, and what colors their dots, without a browser."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from clustered_parts import chipped
from small_parts import add_chips, add_run, click, job_of, square_table
from type_parts import name_types

from pu_geo import jobs
from pu_geo.answers import ranking
from pu_geo.errors import JobCancelled, ProjectError
from pu_geo.explore import coloring, looks
from pu_geo.explore.look_job import look
from pu_geo.jobs import tasks, worker
from pu_geo.lifecycle import removing
from pu_geo.store import areas, chosen, contents, discoveries, feature_sets, store
from pu_geo.store.areas import AreaLayer
from pu_geo.store.job import Part
from pu_geo.store.layout import Layout, write_array, write_json

RUN = "ranker-1"
KNOWN = [f"b{i}" for i in range(19, 2, -1)]
"""Buildings of the run: not all of the project, and in another order."""


@pytest.fixture
def explored(project: Layout) -> Layout:
    """A project with a run that has a picture, of which dot b3 is the last."""
    n = len(KNOWN)
    arrays = {"embeddings": np.eye(n, 8, dtype=np.float32), "clusters": np.arange(n) % 2}
    add_run(project, RUN, ids=KNOWN, arrays=arrays)
    write_array(project.run(RUN) / "umap.npy", np.arange(2 * n, dtype=np.float32).reshape(n, 2))
    return project


def read(sent: bytes | None, columns: int = 1) -> np.ndarray:
    assert sent is not None
    return np.frombuffer(sent, "<f4").reshape(-1, columns)


@pytest.mark.slow
def test_the_look_is_drawn_once_stops_when_asked_and_goes_with_its_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = chipped(tmp_path)
    assert looks.sources(layout) == {"look": "The look"}
    given = looks.arguments(layout, "look")
    assert given == {"source": "look", "chip_set": "set", "feature_set": "rcf"}
    with pytest.raises(ProjectError, match="not been worked out yet"):
        looks.rows_of(layout, "look")
    stopped = job_of(layout, "stopped")
    monkeypatch.setattr("pu_geo.store.job._SECONDS_BETWEEN_REPORTS", 0)
    stopped.echo = lambda words: (stopped.folder / "cancel").touch() if "layout" in words else None
    with pytest.raises(JobCancelled):
        look(stopped, **given)
    assert not looks.plane_v(layout, "look")
    assert look(job_of(layout, "one"), **given) == {"source": "look", "n": 20}
    rows, v = looks.rows_of(layout, "look"), looks.plane_v(layout, "look")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert looks.plane_of(layout, "look").shape == (20, 2)
    assert sum(one.n for one in looks.regions_of(layout, "look")) == 20
    assert looks.words_of(layout, "look").startswith("Buildings marked damaged lie ")
    look(job_of(layout, "two"), **given)
    assert looks.plane_v(layout, "look") == v
    moved = removing.chip_files(layout, "set")
    assert {"chips/set.look.npy", "chips/set.look_umap.npy"} <= set(moved)
    views = np.array(feature_sets.views(layout, "set"))
    with feature_sets.new_views(layout, "set", "rcf", views.shape) as out:
        out[:] = views
    assert not feature_sets.look_files(layout, "set", "rcf")


def test_it_is_started_once_and_again_only_by_a_person_or_for_other_features(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProjectError, match="Cut chips first"):
        looks.start(project)
    add_chips(project, ["b0"], features=np.zeros((1, 1, 4), np.float16))
    started: list[jobs.JobView] = []

    def start(layout: Layout, task: str, args: dict) -> None:
        started.insert(0, jobs.JobView(f"{len(started)}", task, args, "running", 0.0, ""))

    monkeypatch.setattr(jobs, "start", start)
    monkeypatch.setattr(jobs, "all_jobs", lambda layout: started)
    for state in ("running", "failed"):
        assert looks.start(project) is started[0]
        started[0] = replace(started[0], state=state)
    assert len(started) == 1
    started[0] = replace(started[0], state="done")  # and its picture is gone
    looks.start(project)
    assert len(started) == 2
    for path in (project.look("set", "rcf"), project.look_plane("set", "rcf"), project.look_groups("set", "rcf")):
        assert not looks.is_drawn(project, "look")
        path.touch()
    assert looks.start(project) is None


def test_a_job_in_the_background_starts_what_it_names_once_it_is_done(
    project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(job: object) -> dict:
        feature_sets.look_next(Part(job, 0.0, 1.0), "set", "rcf")
        return {}

    monkeypatch.setitem(tasks.TASKS, "act", tasks.Task("x:act", "Act"))
    monkeypatch.setattr(worker, "_loaded", lambda module, function: act)
    started = []
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: started.append((task, args)))
    for is_followed in (False, True):  # on the command line, and in a worker of its own
        folder, _ = jobs.create_held(project, "act")
        worker.run(folder, is_followed=is_followed)
        assert len(started) == is_followed
    assert started == [("look", {"source": "look", "chip_set": "set", "feature_set": "rcf"})]


def test_positions_and_values_come_in_the_order_of_the_map_as_it_is_now(explored: Layout) -> None:
    for n in (20, 22):
        sent = read(looks.positions_for_browser(explored, RUN), 2)
        assert sent.shape == (n, 2)
        assert np.isnan(sent[[0, 1, 2, *range(20, n)]]).all()
        assert sent[3:20].tolist() == [[2 * i, 2 * i + 1] for i in range(16, -1, -1)]
        assert len(coloring.coloring(explored, RUN, "attribute:damage").values) == n
        v = looks.plane_v(explored, RUN)
        if n == 20:
            store.call(explored, contents.add_footprints, square_table(22))
            assert looks.plane_v(explored, RUN) != v
    assert looks.positions_for_browser(explored, "../secrets") is None
    assert coloring.values_for_browser(explored, "ranker-2", "size") is None
    assert coloring.values_for_browser(explored, RUN, "attribute:nothing") is None
    assert coloring.values_for_browser(explored, RUN, "label") is None, "the browser knows labels already"
    assert looks.n_unplaced(explored, RUN) == 0
    add_chips(explored, [*KNOWN, "b0", "b1"], "newer")
    assert looks.n_unplaced(explored, RUN) == 2


def test_steps_of_the_ranking_are_tied_to_the_threshold(explored: Layout) -> None:
    assert looks.run_of(explored, "look") == RUN
    scores = looks.scores_on_map(explored, RUN)
    order = np.argsort(np.where(np.isnan(scores), 1, -scores), kind="stable")[: len(KNOWN)]
    chosen.choose_threshold(explored, RUN, float(np.round(scores[order[3]], 4)))  # flags 4 of 17
    found = coloring.coloring(explored, RUN, "place")
    assert found.values[order].tolist() == [3, 3, 2, 2, 1, 1, 1, 1, *[0] * 9]
    assert np.isnan(found.values[:3]).all()
    assert (found.kind, found.names[0], found.steps) == ("categories", "rest", 4)
    chosen.choose_threshold(explored, RUN, 1.0)
    assert coloring.coloring(explored, RUN, "place").v != found.v, "the browser asks for it again"


def test_regions_count_clicks_and_what_is_flagged_now(explored: Layout) -> None:
    assert looks.regions_of(explored, RUN) == []
    part, stands = [*[1] * 5, *[0] * 12], [16, 4]  # of b19 to b15, and of the others down to b3
    write_json(looks.groups_file(explored, RUN), {"regions": {"part": part, "stands": stands}})
    chosen.choose_threshold(explored, RUN, 0.5)
    click(explored, "b3", "b4", "b19")
    first, second = looks.regions_of(explored, RUN)
    assert (first.place, first.n, first.clicks, second.place, second.n, second.clicks) == (3, 12, 2, 15, 5, 1)
    scores = looks.scores_on_map(explored, RUN)
    assert first.flagged == pytest.approx((scores[3:15] >= 0.5).mean())
    assert second.words == "5 buildings, 1 marked, 0 % flagged"
    ring = np.array(looks.outline_of(explored, RUN, ["b3", "b4"])[0])
    assert (ring.min(0) < [first.x, first.y]).all()
    assert (ring.max(0) > [first.x, first.y]).all()


def test_clusters_with_clicks_have_a_color_before_larger_ones(explored: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coloring.coloring(explored, RUN, "cluster") is None, "they are not there yet"
    monkeypatch.setattr(coloring, "MOST_CATEGORIES", 2)
    part = [-1, *[0] * 6, *[1] * 5, *[2] * 3, *[3] * 2]  # of b19, b18 to b13, b12 to b8, b7 to b5, b4 and b3
    of_kind = {"part": part, "words": ["gray", "rough", "dark", "brown"], "follows": [""] * 4}
    write_json(looks.groups_file(explored, RUN), {"small": of_kind, "large": of_kind})
    assert coloring.coloring(explored, RUN, "cluster").names == ["1 · gray", "2 · rough", "other"]
    click(explored, "b4")
    found = coloring.coloring(explored, RUN, "cluster")
    assert found.names == ["1 · gray", "4 · brown", "other"]
    assert np.array_equal(found.values[[19, 18, 8, 4, 3, 0]], [np.nan, 0, 2, 1, 1, np.nan], equal_nan=True)


def test_words_warn_of_trainings_and_grades_are_in_the_order_of_the_scale(explored: Layout) -> None:
    assert looks.words_of(explored, RUN) == looks.OF_TRAINING
    click(explored, "b4", grade="minor")
    click(explored, "b5")
    click(explored, "b6", label="not_damaged")
    found = coloring.coloring(explored, RUN, "grade")
    names = [found.names[int(code)] for code in found.values[[4, 5]]]
    assert (names, found.names[0]) == (["Minor", coloring.NOT_GRADED], "Destroyed")
    assert np.isnan(found.values).sum() == 18


def test_attributes_areas_and_sizes_are_offered_and_types_once_there_are_some(explored: Layout) -> None:
    usual = ["place", "label", "cluster", "grade", "disagreement", "size", "attribute:damage", "attribute:name"]
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


def test_uncertain_is_where_run_and_live_ranking_differ(explored: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    live = 1 - looks.scores_on_map(explored, RUN)  # the opposite order
    monkeypatch.setattr(ranking, "rank_now", lambda layout: ranking.LiveRanking("live-x-1", 0.0))
    monkeypatch.setattr(ranking, "scores_for_browser", lambda layout, score_id: live.tobytes())
    found = coloring.coloring(explored, RUN, "disagreement")
    assert found.title == "Uncertainty: ranks, run against live ranking"
    assert np.nanmax(found.values) == pytest.approx(1 - 1 / len(KNOWN))
    monkeypatch.setattr(ranking, "rank_now", lambda layout: None)
    assert np.isnan(coloring.coloring(explored, RUN, "disagreement").values).all(), "there is no live ranking yet"
