"""Feature sets on the pages: listed and chosen on Imagery, named and asked for on Train, and a fallback that is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import field, plain, press, show
from feature_parts import made, tiny_maker, weights_file
from model_parts import job_of, with_chips
from small_parts import add_chips

from pu_geo import jobs
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import features
from pu_geo.services.train import training
from pu_geo.tasks.imagery.features import features as make_features

__all__ = ["tiny_maker"]
pytestmark = pytest.mark.usefixtures("tiny_maker", "home")


@pytest.fixture
def chipped(project: Layout) -> Layout:
    return with_chips(project)


@pytest.fixture
def second(chipped: Layout, tmp_path: Path) -> str:
    return made(chipped, weights_file(tmp_path), licence="CC BY-NC")


def test_one_set_leaves_nothing_to_choose(chipped: Layout) -> None:
    app = show("imagery", chipped)
    assert "- Random convolutions (no pretrained weights), " in plain(app)
    assert "pu-geo features event.pugeo --backbone resnet18" in app.code[0].value
    labels = {each.label for each in [*app.selectbox, *show("train", chipped).selectbox]}
    assert not labels & {"Features", "Used by ranking, queue and trainings"}


@pytest.mark.parametrize(("n_bands", "dates"), [(6, "both"), (3, "post")])
def test_shared_features_are_made_with_one_press(
    n_bands: int, dates: str, project: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, Any]] = []
    monkeypatch.setattr(jobs, "start", lambda _, task, args: started.append((task, args)) or "job")
    with_chips(project, n_bands=n_bands)
    press(show("imagery", project), "Make shared features and use them")
    assert [(task, args["request"]["maker"], args["request"]["dates"], args["use"]) for task, args in started] == [
        ("features", "shared", dates, True)
    ]


def test_shared_features_that_are_there_are_listed_and_not_made_again(chipped: Layout) -> None:
    make_features(job_of(chipped, "shared"), request={"maker": "shared", "n_views": 2})
    app = show("imagery", chipped)
    assert "- Shared filters (the same in every project, no imagery), 512 features" in plain(app)
    assert "make-shared-features" not in {each.key for each in app.button}


def test_a_set_is_chosen_on_imagery_and_named_on_train(chipped: Layout, second: str) -> None:
    app = show("imagery", chipped)
    assert "license of the weights: CC BY-NC" in plain(app)
    field(app, "Used by ranking, queue and trainings").set_value(second).run()
    press(app, "Use these features")
    assert features.overview(chipped).in_use == second
    assert f"Features in use: {second}" in plain(show("train", chipped))


def test_a_training_asks_for_another_set(chipped: Layout, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(training, "start", lambda layout, request: asked.append(request.feature_set) or "job")
    app = show("train", chipped)
    press(app, "start-propagation")
    app.selectbox(key="features-propagation-rcf").set_value(second).run()
    press(app, "start-propagation")
    assert asked == ["", second]
    app.selectbox(key="preset-ncpu").set_value("standard").run()
    assert "features-ncpu-rcf" not in {each.key for each in app.selectbox}


def test_newer_chips_without_the_chosen_set_are_said_on_every_page_that_ranks(chipped: Layout, second: str) -> None:
    features.choose(chipped, second)
    add_chips(chipped, [f"b{i}" for i in range(20)], "newer", features=np.load(chipped.features("set")))
    for page in ("imagery", "annotate", "train"):
        shown = [each.value.replace("\\", "") for each in show(page, chipped).warning]
        assert any(f"features {second} were not made" in words for words in shown), page
    assert not [job for job in jobs.all_jobs(chipped) if job.is_active]
