"""`pu_geo.Project`: the steps as methods, what they return, and that nothing of the project file stays open."""

import doctest
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
import torch
from mapped_parts import TRUTH
from small_parts import REPOSITORY, click, small_grid, small_project, small_scene, square_table, table_of
from typed_parts import TYPED, TYPES, name_types, typed_project

import pu_geo
from pu_geo import Project, api, jobs
from pu_geo.errors import JobCancelled, JobError, JobPaused, ProjectError, PuGeoError
from pu_geo.explore import looks
from pu_geo.geo.export import layers
from pu_geo.jobs import tasks
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.records import RunFacts
from pu_geo.runs.inputs_job import read_inputs
from pu_geo.store import contents, runs, store
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout

pytestmark = pytest.mark.slow
ESTIMATORS = {"PURanker", "NcPU", "PUCL", "NCL", "HeroCon", "FedAwS", "PUPL"}


@pytest.fixture
def town_project(ranked_town: Layout) -> Project:
    return Project.open(ranked_town.folder, progress=False)


def test_public_names_are_listed() -> None:
    fixed = {"Project", "PuGeoError", "losses", "__version__"}
    assert set(pu_geo.__all__) - fixed >= ESTIMATORS
    assert sorted(pu_geo.__all__) == dir(pu_geo)
    with pytest.raises(AttributeError, match="has no attribute 'Projekt'"):
        _ = pu_geo.Projekt
    names: dict[str, object] = {}
    exec("from pu_geo import *", names)
    assert set(pu_geo.__all__) <= set(names)


def test_a_project_loads_libraries_only_when_it_needs_them() -> None:
    code = (
        "import sys; before = set(sys.modules); import pu_geo; pu_geo.__version__\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {'pu_geo'}\n"
        "print(sorted(new), sorted(name for name in sys.modules if name.startswith('pu_geo')))\n"
        "pu_geo.Project\n"
        "print(sorted({'torch', 'geopandas', 'pandas', 'rasterio', 'sklearn', 'faiss', 'umap', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.splitlines() == ["[] ['pu_geo']", "[]"]


def test_examples_in_the_docstrings_hold(ranked_town: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = doctest.DocTestFinder(exclude_empty=True).find(api.Project, "Project", module=api)
    for each in found:
        each.globs["project"] = Project.open(ranked_town.folder, progress=False)
        runner.run(each)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 15


# As it is written in README and docs/library.md.
EXAMPLE = """
import pu_geo as pg
project = pg.Project.open("joplin.pugeo")
X, y = project.features(), project.labels()
ranker = pg.PURanker().fit(X, y)
model = pg.NcPU(preset="quick", random_state=0).fit(X, y)
scores, z = model.decision_function(X), model.transform(X)
clusters = pg.PUPL(n_clusters=2).fit_predict(z, y)
loss = pg.losses.PUCLLoss(temperature=0.5)(z1, z2, y_batch)
project.damage_map(scores=scores, threshold=model.threshold_).to_file("map.gpkg")
"""


@pytest.mark.filterwarnings("ignore:Two clusters do not follow the positives")  # they do not, and it says so
@pytest.mark.ci
def test_the_example_runs_as_written(sample: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sample.folder == tmp_path / "joplin.pugeo"
    before = Project.open(sample.folder, progress=False)
    before.simulate_labels("damage", ["destroyed", "major-damage"], count=30)
    draw = torch.Generator().manual_seed(0)
    names = {f"z{i}": torch.randn(64, 32, generator=draw).requires_grad_() for i in (1, 2)}
    y_batch = (torch.arange(64) < 8).long()
    found: dict[str, object] = {**names, "y_batch": y_batch}
    exec(EXAMPLE, found)
    n = len(before.building_ids())
    scores, z, clusters = (np.asarray(found[name]) for name in ("scores", "z", "clusters"))
    assert (scores.shape, scores.dtype) == ((n,), np.float32)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert np.abs(np.linalg.norm(z, axis=1) - 1).max() < 1e-4
    assert set(np.unique(clusters)) == {0, 1}
    assert clusters[np.asarray(found["y"]) == 1].all()
    found["loss"].backward()  # type: ignore[attr-defined]
    assert torch.isfinite(names["z1"].grad).all()  # type: ignore[arg-type]
    table = geopandas.read_file(tmp_path / "map.gpkg").set_index("building_id")
    assert table.index.tolist() == before.building_ids()
    assert table.method.unique().tolist() == ["own_scores"]
    is_flagged = np.round(scores, 4) >= round(float(found["model"].threshold_), 4)  # type: ignore[attr-defined]
    is_shown = (table.assessed & table.label.isna()).to_numpy(bool)
    assert ((table.damage_binary == "damaged").to_numpy()[is_shown] == is_flagged[is_shown]).all()
    truth = before.footprints().damage.isin(["destroyed", "major-damage"]).to_numpy()
    assert scores[truth].mean() > scores[~truth].mean()


@pytest.mark.ci
def test_the_librarys_page_holds_on_the_sample(sample: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sample.folder == tmp_path / "joplin.pugeo"
    page = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
    section = re.split("^## ", page, flags=re.MULTILINE)
    (mine,) = (part for part in section if part.startswith("Project\n"))
    blocks = re.findall(r"```python\n(>>> .*?)```", mine, re.DOTALL)
    assert len(blocks) == 4
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {"pg": pu_geo}, "Project", "docs/library.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    named = set(re.findall(r"`(\w+)`", mine[mine.index("| screen") : mine.index("Steps that take")]))
    public = {name for name in vars(Project) if not name.startswith("_")}
    assert named == public


def test_the_steps_from_scenes_to_a_map(town: Path, tmp_path: Path, without_features: None) -> None:
    project = Project.create(tmp_path / "tiny.pugeo", "Tiny", progress=False)
    with pytest.raises(ProjectError, match="no post-event scene"):
        project.footprints()
    with pytest.raises(ProjectError, match="no chips yet"):
        project.features()
    scenes = project.add_scenes(town / "pre.tif", [town / "post.tif"])
    assert scenes["added"] == ["pre", "post"] == [scene.scene_id for scene in project.scenes()]
    added = project.add_footprints(town / "footprints.geojson")
    made = project.chip(32, bands="post")
    assert made["n"] == added["added"] == len(project.building_ids()) == len(project.chips())
    assert project.chips().shape[1:] == (3, 32, 32)
    assert project.summary().next_step == "annotate"
    with pytest.raises(PuGeoError, match="named once"):
        project.add_aoi()
    assert project.name == "Tiny"
    copy = project.copy(tmp_path / "copy.pugeo")
    assert copy.building_ids() == project.building_ids()
    assert {job.task for job in project.jobs()} == {"chip", "add_footprints", "add_scenes"}
    assert repr(copy) == f"Project('{copy.folder}')"


def test_runs_come_with_their_arrays(town_project: Project) -> None:
    project = town_project
    trained = project.train("linear", l2=0.5, seed=2)
    assert isinstance(trained.facts, RunFacts)
    assert (trained.facts.method, trained.facts.seed) == ("linear", 2)
    assert trained.scores.shape == (len(project.building_ids()),)
    assert np.abs(np.linalg.norm(trained.embeddings, axis=1) - 1).max() < 1e-3
    assert [facts.method for facts in project.runs()] == ["linear", "ranker"]
    ranked = project.runs()[-1]
    assert project.choose(trained.run_id, threshold=0.3).run_id == trained.run_id
    assert (project.threshold().value, project.run().run_id) == (0.3, trained.run_id)
    assert project.card(ranked.run_id)["run"]["method"] == "ranker"
    assert project.evaluate("damage", ["destroyed", "major-damage"])["n"] > 20
    assert project.compare(trained.run_id, ranked.run_id).sides[0].facts.run_id == trained.run_id
    first = project.building_ids()[0]
    assert len(project.similar(first, count=3).ids) == 3
    assert project.look(run=trained).shape == (len(trained.scores), 2)
    shown = project.embedding_map(trained, "size")
    assert (len(shown.figure.layout.images), shown.words) == (len(shown.figure.layout.annotations), looks.OF_TRAINING)
    with pytest.raises(PuGeoError, match="cannot be colored by 'hue'; possible: place"):
        project.embedding_map(trained, "hue")
    assert sum(len(one.building_ids) for one in project.clusters(trained).groups[:-2]) == len(trained.scores)
    assert project.begin_audit(27).check.sample.n_drawn == project.audit().check.sample.n_drawn == 27
    for name in ("pucl", "PUCL"):  # an estimator's name, too
        with pytest.raises(PuGeoError, match="needs at least"):
            project.train(name, hold_out=4)


def test_labels_are_one_or_zero_in_the_order_of_the_chips(town_project: Project, ranked_town: Layout) -> None:
    project, ids = town_project, town_project.building_ids()
    marked, negative = project.labels().copy(), project.known_negative()
    project.label(ids[10], analyst="bob")
    project.label([ids[11], ids[12]], "not_assessable", reason="cloud")
    click(ranked_town, ids[13], shown="audit", inclusion=0.5)
    marked[10] = 1
    assert project.labels().tolist() == marked.tolist()
    assert set(project.labels().tolist()) == {0, 1}
    assert project.known_negative().tolist() == negative.tolist()
    assert np.flatnonzero(project.excluded()).tolist() == [11, 12, 13]
    inputs = read_inputs(ranked_town)  # what the app learns from
    assert inputs.learned_as_positive.tolist() == marked.tolist()
    assert np.flatnonzero(inputs.pu.is_excluded).tolist() == [11, 12, 13]
    assert np.array_equal(project.features(), inputs.views)
    table = project.live_map()
    assert table.label.loc[[ids[10], ids[11]]].tolist() == ["positive", "not_assessable"]
    project.label(ids[10], "cleared")
    assert project.labels().sum() == marked.sum() - 1
    with pytest.raises(ProjectError, match="no chips 'none'"):
        project.labels("none")


def test_footprints_carry_their_attributes_beside_ours(tmp_path: Path) -> None:
    squares = [shapely.box(500_000 + 20 * i, 4_000_000, 500_008 + 20 * i, 4_000_008) for i in range(2)]
    table = table_of(squares, attributes=[{"AREA_M2": 1, "geometry": "x", "roof": "flat"}, {"roof": "hip"}])
    found = Project.open(small_project(tmp_path / "e.pugeo", table=table).folder).footprints()
    assert found.index.tolist() == ["b0", "b1"]
    assert found.crs == "EPSG:32615"
    assert found.area_m2.tolist() == [64.0, 64.0]
    assert list(found.columns) == ["area_m2", "source_footprint", "AREA_M2_", "geometry_", "roof", "geometry"]
    assert found.roof.tolist() == ["flat", "hip"]
    assert found.geometry.geom_equals(geopandas.GeoSeries(squares, index=found.index, crs=found.crs)).all()


def test_the_live_map_is_the_layer_of_the_project(mapped: Layout) -> None:
    project = Project.open(mapped.folder)
    click(mapped, "b3")
    click(mapped, "b4", label="not_assessable", reason="cloud", damage_types=("roof", "walls"))
    click(mapped, "b5", damage_types=("roof",), absent_types=("flooded", "burned"))
    table, export = project.live_map(), project.damage_map()
    assert table.index.tolist() == export.building_id.tolist()
    for name in ("assessed", "not_assessed_reason", "damage_binary", "score", "rank"):
        mine, theirs = table[name], export[name]
        assert mine.isna().tolist() == theirs.isna().tolist()
        assert mine.dropna().tolist() == theirs.dropna().tolist()
    assert table.damage_types["b4"] == "roof;walls"
    assert (table.damage_types["b5"], table.absent_types["b5"]) == ("roof", "flooded;burned")
    assert table.absent_types.notna().sum() == 1
    assert table.crs == "EPSG:32615"
    empty = Project.open(small_project(mapped.folder.parent / "empty.pugeo", 0).folder)
    assert len(empty.live_map()) == len(empty.footprints()) == 0
    assert list(empty.live_map().columns) == list(table.columns)


def test_a_map_of_a_runs_own_scores_differs_in_provenance_alone(mapped: Layout) -> None:
    project, run = Project.open(mapped.folder), "ranker-1"
    click(mapped, "b3")
    click(mapped, "b5", label="not_damaged")
    scores = np.asarray(runs.array(mapped, run, "scores"))
    own = project.damage_map(scores=scores.astype(np.float64), threshold=0.5)
    theirs = layers.to_geodataframe(build_damage_map(mapped, run, 0.5))
    differs = [name for name in theirs.columns if not own[name].equals(theirs[name])]
    assert sorted(differs) == ["method", "run_at", "run_id", "score_type"]
    assert own.not_assessed_reason.iloc[:2].tolist() == ["nodata", "nodata"]
    assert own.method.unique().tolist() == ["own_scores"]
    files = {Path(one).name for one in project.publish("csv")["files"]}
    assert [f"damage_map.{name}" in files for name in ("csv", "geojson")] == [True, False], "the named formats alone"
    facts = own.attrs["pu_geo"]
    unaudited = "no accuracy assessment"
    origin = {"method": "own_scores", "run_id": None, "audit_id": unaudited, "trained_on_labels_up_to_event": None}
    assert facts.items() >= {**origin, "threshold": 0.5}.items()
    assert "made outside PU-Geo" in facts["cannot_say"][0]
    assert facts["counts"] == theirs.attrs["pu_geo"]["counts"]


@pytest.mark.parametrize("name", ["map.gpkg", "map.geojson"])
def test_a_map_of_own_scores_is_written_and_read_back(mapped: Layout, tmp_path: Path, name: str) -> None:
    project = Project.open(mapped.folder)
    table = project.damage_map(scores=np.linspace(0, 1, 400, dtype=np.float32), threshold=0.75)
    table.to_file(tmp_path / name)
    back = geopandas.read_file(tmp_path / name)
    assert back.building_id.tolist() == table.building_id.tolist() == project.building_ids()
    assert back.damage_binary.tolist() == table.damage_binary.tolist()
    assert (back.damage_binary == "damaged").sum() == 100
    assert np.allclose(back.score.to_numpy(float), table.score.to_numpy(float), equal_nan=True)
    assert back.geometry.geom_equals_exact(table.geometry, 1e-6).all()
    assert back.assessed.tolist() == table.assessed.tolist()


def test_own_scores_that_are_none_are_refused(mapped: Layout) -> None:
    project, none = Project.open(mapped.folder), np.zeros(400)
    for scores, threshold, words in (
        (none[1:], 0.5, r"shape \(399,\).*shape \(400,\)"), (np.zeros(400, int), 0.5, "type int64"),
        (np.r_[none[1:], 1.5], 0.5, "the first is 1.5, in row 399"), (np.r_[np.nan, none[1:]], 0.5, "the first is nan, in row 0"),
        (none, 1.01, "threshold is 1.01"), (none, float("nan"), "threshold is nan"), (none, None, "needs a threshold"),
    ):  # fmt: skip
        with pytest.raises(PuGeoError, match=words):
            project.damage_map(scores=scores, threshold=threshold)
    with pytest.raises(PuGeoError, match="not of both"):
        project.damage_map("latest", scores=none, threshold=0.5)
    with pytest.raises(PuGeoError, match="in the place of a run"):
        project.damage_map(none, threshold=0.5)  # type: ignore[arg-type]


def test_a_threshold_that_4_decimals_would_move_is_refused(mapped: Layout) -> None:
    """It was rounded to 0, and the map flagged every building."""
    scores = np.linspace(0, 4.9e-5, 400)
    project = Project.open(mapped.folder)
    with pytest.raises(PuGeoError, match="80 of 400 scores reach the threshold, and 400 do once they are written"):
        project.damage_map(scores=scores, threshold=float(scores[320]))
    spread = np.linspace(0, 1, 400)
    table = project.damage_map(scores=spread, threshold=float(spread[320]))
    assert table.attrs["pu_geo"]["threshold"] == round(float(spread[320]), 4)


def hang(job: Job) -> dict[str, object]:
    """Wait until somebody cancels."""
    job.report(0.5, "half of it")
    while True:
        job.stop_if_cancelled()
        time.sleep(0.02)


@pytest.fixture
def hanging(project: Layout, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setitem(tasks.TASKS, "align", tasks.Task(f"{__name__}:hang", "Hang"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    return Project.open(project.folder)


def interrupted(job: Job) -> dict[str, object]:
    """Do half of it, then be interrupted as by Ctrl+C."""
    job.report(0.5, "half of it")
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.1)
    return {}


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Let Ctrl+C raise, in a process of a shell's background, too: there Python ignores it from the start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_ends_the_step(hanging: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.modules[__name__], "hang", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hanging.align()
    (job,) = hanging.jobs()
    assert (job.task, job.state) == ("align", "cancelled")
    assert "Aligning pre and post:  50%" in capsys.readouterr().err
    assert jobs.all_jobs(Layout(hanging.folder))[0].is_active is False


def test_a_pause_from_elsewhere_is_named_with_the_way_to_resume(hanging: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def paused(job: Job) -> None:
        raise JobPaused

    monkeypatch.setattr(sys.modules[__name__], "hang", paused)
    with pytest.raises(JobError, match="Aligning pre and post was paused") as caught:
        hanging.align()
    assert f"jobs {hanging.folder} resume {hanging.jobs()[0].job_id}" in caught.value.hint


def test_cancelling_from_elsewhere_ends_the_step_and_never_the_process(hanging: Project) -> None:
    layout = Layout(hanging.folder)
    timer = threading.Timer(0.4, lambda: jobs.cancel(layout, jobs.all_jobs(layout)[0].job_id))
    timer.start()
    with pytest.raises(JobError, match="Aligning pre and post was stopped") as caught:
        hanging.align()
    timer.join()
    assert isinstance(caught.value.__cause__, JobCancelled)
    folder = layout.jobs / hanging.jobs()[0].job_id
    assert jobs.kill_orphans(folder) == 0  # this process is not noted as one to end
    assert '"pid"' not in (folder / "events.jsonl").read_text()


def open_files(layout: Layout) -> list[str]:
    """Return what this process has open of a project's file."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            path = str(descriptor.readlink())
        except OSError:
            continue
        found += [path] if path.startswith(str(layout.gpkg)) else []
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc on this system")
def test_no_connection_stays_open_between_calls(town_project: Project, ranked_town: Layout, tmp_path: Path) -> None:
    project, ids = town_project, town_project.building_ids()
    scores = project.run().scores
    calls: list[Callable[[], object]] = [
        lambda: Project.open(project.folder), lambda: Project.create(tmp_path / "n.pugeo"), project.summary, project.jobs,
        lambda: project.name, project.scenes, project.footprints, project.building_ids, project.features, project.chips,
        project.labels, project.known_negative, project.excluded, lambda: project.label(ids[7]),
        lambda: project.simulate_labels("damage", ["no-damage"], count=1, label="not_damaged"),
        lambda: project.export_labels(tmp_path / "labels.csv"), lambda: project.import_labels(tmp_path / "labels.csv"),
        project.rank, project.runs, project.run, project.card, project.choose, project.threshold, project.how_many,
        lambda: project.similar(ids[0]), project.live_map, project.damage_map, project.remove_aoi,
        lambda: project.damage_map(scores=scores, threshold=0.5).to_file(tmp_path / "own.gpkg"),
        lambda: project.export(tmp_path / "map.geojson"), lambda: project.copy(tmp_path / "copy.pugeo"),
    ]  # fmt: skip
    with store.connect(ranked_town):
        assert open_files(ranked_town)  # it can find one
    for number, call in enumerate(calls):
        kept = call()
        assert open_files(ranked_town) == [], number
        assert open_files(Layout(tmp_path / "n.pugeo")) == []
        del kept


def test_scores_with_building_ids_are_put_in_order_by_them(mapped: Layout) -> None:
    """They were taken by position: a wrong map, silently."""
    project = Project.open(mapped.folder)
    ids, values = project.building_ids(), np.linspace(0, 1, 400)
    named = pd.Series(values, index=ids)
    want = project.damage_map(scores=values, threshold=0.5)
    for given in (named.sample(frac=1, random_state=0), pd.Series(values), pd.Series(values, index=np.arange(400))):
        assert project.damage_map(scores=given, threshold=0.5).score.equals(want.score)
    for wrong, words in (
        (named.iloc[1:], r"1 building .* has no score, such as 'b0'"),
        (named.rename({"b3": "x3"}), r"1 .* has no score, such as 'b3'.*1 .* not .* such as 'x3'"),
        (pd.concat([named, named.iloc[:1]]), "'b0' more than once"),
        (pd.Series(values).sample(frac=1, random_state=0), "400 buildings .* have no score"),
    ):
        with pytest.raises(PuGeoError, match=words):
            project.damage_map(scores=wrong, threshold=0.5)


def test_the_sample_never_goes_into_a_project_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    prepared: list[str] = []
    monkeypatch.setattr(Project, "_run", lambda self, task, *_: prepared.append(task))
    own = small_project(tmp_path / "own.pugeo", name="My town")
    with pytest.raises(ProjectError, match="is the project 'My town', not the sample event"):
        Project.sample(own.folder)
    assert prepared == []
    made = Project.sample(tmp_path / "new")  # its preparation was interrupted, say
    assert made.folder == tmp_path / "new.pugeo"
    assert Project.sample(tmp_path / "new").folder == made.folder
    assert Project.create(tmp_path / "v1.2").folder == tmp_path / "v1.2.pugeo"
    assert prepared == ["prepare", "prepare"]


def test_what_open_finds_no_project_at_is_named_for_python_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = small_project(tmp_path / "x.pugeo")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Project.open("~/x.pugeo").folder == layout.folder
    with pytest.raises(ProjectError, match="not a PU-Geo project") as caught:
        Project.open(tmp_path / "nope.pugeo")
    assert "Project.create" in caught.value.hint
    assert "Project.sample" in caught.value.hint
    for near in ("x", "x.pugeo/project.gpkg"):
        with pytest.raises(ProjectError) as caught:
            Project.open(tmp_path / near)
        assert f"Project.open({str(layout.folder)!r})" in caught.value.hint


def test_arguments_that_are_none_are_refused_by_name(town_project: Project, tmp_path: Path) -> None:
    project: Any = town_project
    before, zeros = project.summary(), np.zeros(len(project.building_ids()))
    of_scores, export = partial(project.damage_map, scores=zeros), partial(project.export, tmp_path / "m.csv")
    with_one = (project.damage_map, project.choose, project.publish, of_scores, export)
    for act, words in (
        (lambda: project.chip(64, bands="pre"), r"'pre'.*auto, pre\+post, post"),
        (lambda: project.export(tmp_path / "map"), r"no ending.*geojson, gpkg"),
        *((lambda checks=checks: project.begin_audit(checks), "checks") for checks in ("5", 0, 2.5, True)),
        *(
            (lambda act=act, at=at: act(threshold=at), r"threshold.*number")
            for at in ("0.5", True, [0.5])
            for act in with_one
        ),
    ):
        with pytest.raises(PuGeoError, match=words):
            act()
    with pytest.raises(TypeError, match="'neighbors'"):
        project.discover(neighbors=3)
    assert project.summary() == before
    assert "discover" not in {job.task for job in project.jobs()}


def test_a_run_is_taken_wherever_its_id_is(town_project: Project, tmp_path: Path) -> None:
    project = town_project
    run, ids = project.run("latest"), project.building_ids()
    name = run.run_id
    for given in (run, run.facts):
        assert project.run(given).run_id == project.choose(given).run_id == name
        assert project.threshold(given) == project.threshold(name)
        assert project.damage_map(given).run_id.dropna().unique().tolist() == [name]
        assert project.evaluate("damage", ["destroyed"], run=given)["run_id"] == name
        assert project.card(given)["run"]["run_id"] == name
        with pytest.raises(PuGeoError, match=f"Run {name} was named twice"):
            project.compare(given, name)
        assert project.export(tmp_path / "map.csv", run=given)["run_id"] == name
        assert project.similar(ids[0], run=given) == project.similar(ids[0], run=name)
    for wrong in (5, None, project):
        with pytest.raises(PuGeoError, match="named by its id") as caught:
            project.threshold(wrong)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 300


def test_labels_of_unknown_buildings_are_counted_and_named(town_project: Project) -> None:
    project, ids = town_project, town_project.building_ids()
    with pytest.raises(ProjectError, match=r"5 of 6 .*'n0' is not in this project.*'n0', 'n1', 'n2'") as caught:
        project.label([ids[10], *(f"n{i}" for i in range(5))])
    assert "project.building_ids()" in caught.value.hint
    assert project.labels()[10] == 1  # the others are labeled
    before = project.labels().tolist()
    for wrong, words in ((np.arange(len(ids)) < 3, "mask"), ([1, 2], "row numbers"), (7, "row numbers"), ([None], "None")):
        with pytest.raises(PuGeoError, match=words):
            project.label(wrong)  # type: ignore[arg-type]
    assert project.labels().tolist() == before
    with pytest.raises(TypeError, match=r"'note'.*reason, damage_types, absent_types, comment"):
        project.label(ids[0], note="x")
    assert project.label(np.array(ids[:2])) == 2


def test_a_round_that_cannot_begin_leaves_nothing(mapped: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, there = Project.open(mapped.folder, progress=False), tmp_path / "c3.pugeo"
    for _ in range(2):
        with pytest.raises(PuGeoError, match=r"nope\.tif"):
            project.next_round(there, "nope.tif")
        assert not there.exists()
    clicked: list[str] = []

    def interrupted(project: Project, *_: object) -> None:
        if clicked:
            layout = Layout(project.folder)
            with store.connect(layout) as db:
                contents.add_scenes(db, [small_scene()], small_grid())
                contents.add_footprints(db, square_table(1))
            click(layout, *clicked)
        raise KeyboardInterrupt

    there.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Project, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            project.next_round(there, "nope.tif")
        assert list(there.iterdir()) == []  # the folder was there before
        clicked.append("b0")
        with pytest.raises(KeyboardInterrupt):
            project.next_round(there, "nope.tif")
        assert (there / "project.gpkg").is_file()  # somebody clicked in it meanwhile
    other = small_project(tmp_path / "other.pugeo")
    with pytest.raises(ProjectError, match="exists already"):
        project.next_round(other.folder, "nope.tif")
    assert other.gpkg.is_file()


@pytest.fixture
def interrupted_module(heard_interrupts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that is interrupted while it is imported, and swallows that, as some libraries do."""
    name = "interrupted_import"
    act = "try: signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt: pass"
    (tmp_path / f"{name}.py").write_text(f"import signal\n{act}\nready = True\ndef act(job): return {{}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_ctrl_c_waits_for_a_tasks_import(project: Layout, interrupted_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ended as done; torch, half imported, could not be imported again."""
    monkeypatch.setitem(tasks.TASKS, "align", tasks.Task(f"{interrupted_module}:act", "Act"))
    opened = Project.open(project.folder, progress=False)
    with pytest.raises(KeyboardInterrupt):
        opened.align()
    assert sys.modules[interrupted_module].ready
    assert [job.state for job in opened.jobs()] == ["cancelled"]
    assert opened.align() == {}


def test_ctrl_c_waits_for_a_public_name(interrupted_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pu_geo._PLACES, "ready", interrupted_module)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        _ = pu_geo.ready
    assert pu_geo.ready is True
    vars(pu_geo).pop("ready")
    assert signal.getsignal(signal.SIGINT) is handler
    with ThreadPoolExecutor(1) as threads:  # another thread has no handlers
        assert threads.submit(getattr, pu_geo, "Project").result() is Project


def test_damage_types_are_read_and_their_thresholds_chosen(tmp_path: Path) -> None:
    layout = typed_project(tmp_path)
    name_types(layout, [row for row in np.flatnonzero(TRUTH).tolist() if row > 1][:25])
    project = Project.open(layout.folder, progress=False)
    project.choose(TYPED, threshold=0.3)
    assert [one["name"] for one in project.damage_types()] == list(TYPES)
    assert project.damage_types("ranker-1") == []
    project.choose(damage_type="roof", top=4)
    roof, _ = project.damage_types()
    assert (roof["by_score"], roof["threshold_origin"], project.threshold().value) == (4, "top:4", 0.3)
    table = project.damage_map()
    assert (table.type_roof == "yes").sum() == roof["by_people"] + 4
    assert table.attrs["pu_geo"]["types"][0]["threshold"] == roof["threshold"]
    with pytest.raises(PuGeoError, match="without a threshold"):
        project.choose(damage_type="roof")
