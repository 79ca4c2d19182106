"""Feature sets and layers on Imagery and Train: made, listed, chosen, asked for what they add, removed, refused, and a fallback that is shown."""

from pathlib import Path

import numpy as np
import pytest
from app_parts import Started, field, plain, press, show
from feature_parts import made, tiny_maker, weights_file
from layer_parts import speckle, town_layer
from layered_chip_parts import with_layers
from model_parts import with_chips
from small_parts import add_chips, job_of

from pu_geo import jobs
from pu_geo.analysis.bakeoff import Interval
from pu_geo.lifecycle import projects
from pu_geo.runs import layer_comparison as comparison
from pu_geo.scenes import features
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.features_job import features as make_features
from pu_geo.scenes.layers_job import add_layer
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

__all__ = ["tiny_maker"]
pytestmark = pytest.mark.usefixtures("home")
COMPARING = {"research-tab": "Layers"}


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture
def second(chipped: Layout, tmp_path: Path, tiny_maker: object) -> str:
    return made(chipped, weights_file(tmp_path), licence="CC BY-NC")


@pytest.mark.parametrize(("n_bands", "dates"), [(6, "both"), (3, "post")])
def test_shared_features_are_made_with_one_press(n_bands: int, dates: str, project: Layout, started: Started) -> None:
    app = press(show("imagery", with_chips(project, n_bands=n_bands)), "Make shared features and use them")
    ((task, args),) = started
    request = args["request"]
    assert (task, request["maker"], request["dates"], args["use"]) == ("features", "shared", dates, True)
    assert "pu-geo add-features event.pugeo --backbone" in app.code[0].value
    labels = {each.label for each in [*app.selectbox, *show("train", project).selectbox]}
    assert not labels & {"Features", "Used by ranking, queue and trainings"}, "one set leaves nothing to choose"


def test_a_network_of_ones_own_is_named_by_its_path(chipped: Layout, started: Started, tmp_path: Path) -> None:
    app = show("imagery", chipped)
    next(each for each in app.text_input if each.label.startswith("Folder or file with weights")).set_value(str(tmp_path))
    press(app.run(), "Make features of this network and use them")
    ((task, args),) = started
    request = args["request"]
    assert (task, request["maker"], request["backbone"], args["use"]) == ("features", "backbone", str(tmp_path), True)


def test_shared_features_that_are_there_are_listed_and_not_made_again(chipped: Layout) -> None:
    make_features(job_of(chipped, "shared"), request={"maker": "shared", "n_views": 2})
    app = show("imagery", chipped)
    assert "- Shared filters (the same in every project, no imagery), 512 features" in plain(app)
    assert "make-shared-features" not in {each.key for each in app.button}
    assert "Layers to make features of" not in {each.label for each in app.multiselect}, "there are none to choose"
    assert "Compare" not in {each.label for each in show("research", chipped, **COMPARING).radio}


def test_a_set_is_chosen_for_all_that_rank(chipped: Layout, second: str) -> None:
    app = show("imagery", chipped)
    assert "license of the weights: CC BY-NC" in plain(app)
    field(app, "Used by ranking, queue and trainings").set_value(second).run()
    press(app, "Use these features")
    assert features.overview(chipped).in_use == second
    assert f"Features in use: {second}" in plain(show("train", chipped))


def test_newer_chips_without_the_chosen_set_are_said_on_every_page_that_ranks(chipped: Layout, second: str) -> None:
    features.choose(chipped, second)
    add_chips(chipped, [f"b{i}" for i in range(20)], "newer", features=np.load(chipped.features("set")))
    for page in ("imagery", "annotate", "train"):
        shown = [each.value.replace("\\", "") for each in show(page, chipped).warning]
        assert any(f"features {second} were not made" in words for words in shown), page


def test_what_each_layer_adds_is_asked_and_shown_on_train(project: Layout, started: Started) -> None:
    with_layers(project)
    app = show("research", project, **COMPARING)
    assert "No comparison yet." in plain(app)
    press(app, "compare-layers-start")
    assert started == []
    assert "Not enough clicks to compare: it takes 8 of your own; this project has 5." in plain(app)
    figures = (("", 0.05, 0.0), ("sar-post", 0.2, 0.5))
    rows = [comparison.Row(name, Interval(at, at, at), Interval(by, by, by)) for name, at, by in figures]
    comparison.keep(project, comparison.Comparison(store.now(), 0, "set", 12, 0, 100, rows))
    app.run()
    assert "all layers: a held-out click is typically in the top 5.0 %; without sar-post: in the top 20 %" in plain(app)
    assert "There are new answers since: compare again." in plain(app)


@pytest.mark.slow
def test_a_layer_is_added_by_a_form_that_refuses_what_is_none(chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "height.tif", speckle(256, 320, bands=1) * 20)
    app, token = show("imagery", chipped_town), projects.token_of(chipped_town)
    app.text_area(key=f"layer_paths-{token}").input(str(path))
    app.selectbox(key=f"layer_when-{token}").select("none")
    app.selectbox(key=f"layer_kind-{token}").select("elevation")
    for name, nodata, words in (("a/b", "", "A layer cannot be called 'a/b'"), ("height", "none", "is no number")):
        app.text_input(key=f"layer_name-{token}").input(name)
        app.text_input(key=f"layer_nodata-{token}").input(nodata).run()
        assert words in plain(press(app, "add-layer"))
    assert not [job for job in jobs.all_jobs(chipped_town) if job.task == "add_layer"]
    app.text_input(key=f"layer_nodata-{token}").input("").run()
    press(app, "add-layer")
    (job,) = [job for job in jobs.all_jobs(chipped_town) if job.task == "add_layer"]
    assert jobs.wait(chipped_town, job.job_id, seconds=120).state == "done"
    app = show("imagery", chipped_town)
    assert app.text_area(key=f"layer_paths-{token}").value == ""
    (shown,) = (one.value for one in app.dataframe if "Layer" in one.value.columns)
    assert shown[["Layer", "Date", "Kind", "Files", "Bands", "Buildings without it"]].to_numpy().tolist() == [
        ["height", "no date", "elevation in m", 1, 1, "not in the chips yet"]
    ]


@pytest.mark.usefixtures("without_features")
def test_a_layer_is_listed_with_who_lacks_it_and_removed(chipped_town: Layout, town: Path, tmp_path: Path) -> None:
    path = town_layer(town, tmp_path / "sar.tif", speckle(256, 160), box=(0, 0, 0.5, 1))
    add_layer(job_of(chipped_town), name="sar-post", paths=[str(path)], kind="sar-db")
    chip(job_of(chipped_town), size_px=32)
    facts = contents.chip_facts(chipped_town, str(store.call(chipped_town, contents.latest_chip_set)))
    lacks = contents.is_missing(facts)[2]
    app = show("imagery", chipped_town)
    (shown,) = (one.value for one in app.dataframe if "Layer" in one.value.columns)
    assert shown["Buildings without it"].tolist() == [f"{lacks.sum()} of {len(lacks)}"]
    path.unlink()
    app = show("imagery", chipped_town)
    assert "**sar**: no longer in" in plain(app), "a lost file is asked for"
    app.toggle(key="change-layers").set_value(True).run()
    press(app, "remove-layer")
    assert "The layer sar-post (2 bands, 1 file) goes" in plain(app)
    press(app, "removal-do")
    assert store.call(chipped_town, contents.layers) == ()
