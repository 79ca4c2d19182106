"""Every page, without a browser: no project, an empty one, a full one, one without a place, and refused actions told in words."""

from pathlib import Path

import numpy as np
import pytest
import shapely
from app_parts import checked, field, plain, press, show, show_tab, words
from clustered_parts import looked
from mapped_parts import hand_out, say_checks
from small_parts import add_chips, add_run, click, logged_job, table_of
from streamlit.testing.v1 import AppTest

from pu_geo import jobs
from pu_geo.answers import random_checks, ranking
from pu_geo.assessment import random_audits
from pu_geo.geo.vector.crs import LOCAL
from pu_geo.lifecycle import browsing, projects
from pu_geo.maps import exporting
from pu_geo.records import Grid, Scene
from pu_geo.store import chosen, contents, run_names, store, training_times
from pu_geo.store.layout import Layout
from pu_geo.ui.damage_map.texts import TAB_AREAS, TAB_AUDIT, TAB_EXPORT

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def finished(project: Layout) -> Layout:
    """A project with chips, labels and a run, but no imagery on disk."""
    rng = np.random.default_rng(0)
    ids = [f"b{i}" for i in range(20)]
    chips, features = rng.integers(0, 255, (20, 6, 64, 64)).astype(np.uint8), rng.normal(size=(2, 20, 8)).astype(np.float16)
    add_chips(project, ids, bands="pre+post", size_px=64, chips=chips, features=features)
    click(project, "b1", "b2")
    arrays = {"embeddings": rng.normal(size=(20, 8)).astype(np.float32), "clusters": np.arange(20) % 2}
    add_run(project, preset="instant", at_event=2, arrays=arrays)
    return looked(project, arrays["embeddings"])


@pytest.mark.parametrize(
    ("page", "missing", "said"),
    [
        ("annotate", "nothing to review yet", "Shares of the next queue"),
        ("train", "There are no chips yet", "Second opinion"),
        ("explore", "no chips to explore", "No label and no training"),
        ("damage_map", "no run yet", "Threshold 0.5000: the run's own"),
        ("imagery", "Add a post-event scene first", "All scenes are used as they are"),
        ("project", "Empty", "Event"),
    ],
)
def test_page_of_an_empty_and_a_finished_one(page: str, missing: str, said: str, finished: Layout, tmp_path: Path) -> None:
    assert page == "project" or "No project is open" in words(show(page))
    assert missing in words(show(page, store.create(tmp_path / "empty.pugeo", "Empty")))
    app = show(page, finished)
    assert not app.error
    assert said in words(app) + "\n".join(str(metric.value) for metric in app.metric)


def test_each_panel_of_explore_shows_a_run(finished: Layout) -> None:
    n_before = len(words(show("explore", finished)))
    for panel in ("Clusters", "Types", "Selection"):
        app = show("explore", finished, **{"kept-choices": {"explore-panel": panel}})
        assert (len(app.error), len(words(app)) > n_before) == (0, True), panel


def test_explore_says_that_a_color_waits_for_the_live_ranking(finished: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    state = [ranking.LiveRanking("live-x-2-9", 0.0, 9, 20)]
    monkeypatch.setattr(ranking, "rank_now", lambda layout: state[0])
    monkeypatch.setattr(ranking, "so_far", lambda layout, score_id: state[0])
    monkeypatch.setattr(ranking, "scores_for_browser", lambda layout, score_id: np.linspace(0, 1, 20, dtype="<f4").tobytes())
    chosen.choose_setting(finished, "explore_color", "disagreement")
    app = show("explore", finished)
    assert "9 of 20 ranked" in words(app)
    state[0] = ranking.LiveRanking("live-x-2", 0.0, 20, 20)
    assert "9 of 20 ranked" not in words(checked(app.run()))


def test_a_project_is_picked_in_the_browser_of_folders_and_among_the_recent_ones(
    finished: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(browsing.ROOTS_VARIABLE, str(finished.folder.parent))
    app = press(show("project"), "open-project-browse")
    press(app, next(button.key for button in app.button if str(button.key).startswith("open-project-root-")))
    press(app, finished.folder.name)
    assert app.session_state["project"] == str(finished.folder)
    app = show("project")
    assert "20 buildings · 2 damaged so far" in plain(app)
    press(app, f"open-{projects.token_of(finished)}")
    assert app.session_state["project"] == str(finished.folder)
    assert next(button for button in app.button if button.label == "Open now").disabled


def test_a_bad_path_and_a_project_without_a_name_are_refused_and_its_folder_can_be_changed(tmp_path: Path) -> None:
    app = show("project")
    app.text_input(key="open_path").input("/nowhere").run()
    press(app, "open-typed")
    assert "is not a PU-Geo project" in plain(app)
    press(app, "create")
    assert "The project has no name yet." in plain(app)
    assert "project" not in app.session_state
    app.text_input(key="new_name").input("Joplin").run()
    assert app.text_input(key="new_path").placeholder == str(projects.home() / "joplin.pugeo")
    app.text_input(key="new_path").input(str(tmp_path / "mine")).run()
    app.text_input(key="new_name").input("Another").run()
    press(app, "create")
    assert app.session_state["project"] == str(tmp_path / "mine.pugeo")
    assert app.session_state["goes-to"] == "imagery"


def test_an_audit_begins_is_left_and_resumed_and_its_end_leads_to_the_result(finished: Layout) -> None:
    app = show_tab(finished, TAB_AUDIT)
    assert (field(app, "Checks").min, field(app, "Checks").max) == (18, 18), "what can be asked for"
    assert "| 18 | 3 min | ±0 |" in plain(app), "and what it buys"
    press(app, "Start accuracy assessment with 18 checks")
    assert app.session_state["goes-to"] == "annotate"
    app = show("annotate", finished)
    assert "Accuracy assessment: 0 of 18" in words(app)
    press(app, "Leave assessment")
    assert "Accuracy assessment" not in words(app), "the banner is gone at once"
    assert "Accuracy assessment" not in words(show("annotate", finished)), "and stays so in the next session"
    app = show_tab(finished, TAB_AUDIT)
    assert "only 0 of 18 checks count" in plain(app)
    press(app, "Resume assessment")
    assert app.session_state["goes-to"] == "annotate"
    say_checks(finished, random_audits.newest_audit(finished), 18, truth=np.arange(20) % 2 == 0)
    app = press(show("annotate", finished), "See the result")
    assert (app.session_state["goes-to"], app.session_state["damage-tab"]) == ("damage_map", "Accuracy assessment")
    assert "all 18 answered" not in words(show("annotate", finished))


def test_a_map_is_summed_up_by_area_and_becomes_the_first_version(finished: Layout) -> None:
    app = show_tab(finished, TAB_AREAS)
    press(app, "Summarise by area")
    field(press(app, "export"), "Formats").set_value(["csv"]).run()
    press(press(app, "export"), "Export version 1")
    for job in jobs.all_jobs(finished):
        assert jobs.wait(finished, job.job_id, seconds=60).state == "done"
    app = show_tab(finished, TAB_AREAS)
    table = next(frame.value for frame in app.dataframe if "Buildings" in frame.value.columns)
    assert table["Buildings"].sum() == 20
    assert table["Estimated damaged"].isna().all()  # there is no audit
    assert (finished.exports / "v1" / "damage_map.csv").is_file()
    assert "**v1**" in words(show_tab(finished, TAB_EXPORT))


def test_only_the_open_tab_is_drawn_and_compares_where_asked(finished: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    with monkeypatch.context() as patch:
        for panel in ("audit_panel", "area_panel", "export_panel"):
            patch.setattr(f"pu_geo.ui.damage_map.{panel}.draw", lambda *_, name=panel: drawn.append(name))
        for tab in (TAB_AUDIT, TAB_AREAS, TAB_EXPORT, "Map"):
            show_tab(finished, tab)
    assert drawn == ["audit_panel", "area_panel", "export_panel"]
    version = {
        "version": "v2", "made_at": store.now(), "run": "run", "threshold": 0.5, "threshold_origin": "person", "audit_id": "no accuracy assessment",
        "confirmed": 1, "flagged": 2, "not_assessed": 0, "n": 20, "units": "buildings", "words": "", "files": [],
    }  # fmt: skip
    monkeypatch.setattr(exporting, "all_versions", lambda _: [version, {**version, "version": "v1"}])
    monkeypatch.setattr(exporting, "difference", lambda *_: pytest.fail("compared though nobody asked"))
    assert "**v2**" in words(show_tab(finished, TAB_EXPORT))
    monkeypatch.setattr(exporting, "difference", lambda *_: [])
    opened = show_tab(finished, TAB_EXPORT, **{"version-tabs": "Changes"})
    assert "v1" in field(opened, "From").options


def test_train_tells_how_long_a_preset_took_on_this_machine(finished: Layout) -> None:
    app = show("train", finished)
    assert "Preset quick: under 1 min on two processor cores; not timed on this machine yet." in words(app)
    assert (app.button(key="start-ncpu").disabled, "needs at least" in words(app)) == (True, True), "too few positives"
    training_times.remember("ncpu", "quick", 40, 60.0)
    training_times.remember("propagation", "quick", 20, 7200.0)
    app = show("train", finished)
    assert "Preset quick: 30 s to 60 s on this machine, by past runs." in words(app)
    assert any("about 2 h on this machine" in warning.value for warning in app.warning)
    app.text_input(key="set-ncpu-quick-epochs").set_value("nonsense").run()
    assert not app.exception
    assert "Preset quick: 30 s" not in words(app), "it was measured with the settings of the preset"


def test_a_check_that_a_colleague_never_left_is_ended_for_everyone_and_another_can_start(finished: Layout) -> None:
    check = random_audits.begin_stop_check(finished, "bob")
    app = show("annotate", finished, analyst_name="ann")
    assert "0 answered, 0 damaged" in words(app)
    hand_out(finished, check, ["b5"], "bob")
    app = press(app, "check-leave")
    assert "0 answered, 0 damaged" not in words(app)
    shown = {one.key for one in app.button}
    assert {"check-resume", "check-end"} <= shown
    app = press(app, "check-end")
    assert random_checks.open_check(finished) is None
    assert "check-end" not in {one.key for one in app.button}
    press(app, "Has enough been found? Start a completeness test")
    assert random_checks.open_check(finished).id != check.id


def test_the_next_round_needs_a_scene_and_says_what_was_left_behind(finished: Layout) -> None:
    note = "Layers from after the event stayed in the round before: sar-post."
    logged_job(finished, "next_round", ("done", {"result": {"round": 2, "notes": [note]}}))
    app = show("project", finished)
    assert note in plain(app)
    assert "No scene was named." in plain(press(app, "begin-round"))
    assert app.session_state["project"] == str(finished.folder)


def test_warnings_and_name_of_an_imported_run_are_plain_and_few(project: Layout) -> None:
    picture = "![x](https://elsewhere.example/x.png)"
    add_run(project, warnings=tuple(f"{i} {picture}" for i in range(40)))
    app = show("train", project)
    assert (picture in words(app), plain(app).count("![x](https:")) == (False, 5)
    assert "35 more warnings" in words(app)
    run_names.rename(project, "ranker-1", picture)
    value = next(each.value for each in show("project", project).metric if each.label == "Run shown")
    assert picture not in value
    assert value.replace("\\", "").replace("\u2060", "") == picture


N = 12


@pytest.fixture
def nowhere(tmp_path: Path, home: Path) -> Layout:
    """A project of 100 x 80 pixels in local meters, with a run over twelve squares."""
    layout, ids = store.create(tmp_path / "nowhere.pugeo", "Nowhere"), [f"b{i}" for i in range(N)]
    grid = Grid(LOCAL, LOCAL, (0.5, 0.0, 0.0, 0.0, -0.5, 0.0), 100, 80, 0.5)
    scene = Scene("post-1", "post", "/nowhere/x.png", LOCAL, grid.transform, 100, 80, 3, "uint8", 0.5, place="no place")
    with store.connect(layout) as db:
        contents.add_scenes(db, [scene], grid)
        contents.add_footprints(db, table_of([shapely.box(4 * i, -8, 4 * i + 3, -5) for i in range(N)]))
    add_chips(layout, ids, chips=np.zeros((N, 3, 16, 16), np.uint8))
    add_run(layout, ids=ids)
    return layout


def test_the_map_is_exported_once_the_box_is_ticked(nowhere: Layout) -> None:
    app = press(show("damage_map", nowhere), "export")
    assert field(app, "Formats").options == ["GeoPackage (opens colored in QGIS)", "CSV"]
    assert not is_ready(app)
    app.checkbox(key="local_coordinates").check().run()
    assert is_ready(app)
    press(app, "Export version 1")
    assert jobs.wait(nowhere, jobs.all_jobs(nowhere)[0].job_id, seconds=60).state == "done"
    assert (nowhere.exports / "v1" / "damage_map.gpkg").is_file()


def is_ready(app: AppTest) -> bool:
    return not next(button for button in app.button if button.label == "Export version 1").disabled
