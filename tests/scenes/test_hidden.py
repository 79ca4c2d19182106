"""What clouds, missing data and borders hide is known from cutting the chips on, everywhere that it matters."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import shapely
from cloud_parts import disc, town, under_clouds
from geo_parts import write_rgb
from small_parts import add_run, click, job_of, table_of

from pu_geo.answers import queueing
from pu_geo.assessment import random_audits
from pu_geo.cli.imagery import _chip_words
from pu_geo.maps import damage_map
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.scenes import image_quality, scene_pair
from pu_geo.scenes.chip_job import chip
from pu_geo.scenes.scenes_job import add_scenes
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout

SIDE, GSD_M = 800, 0.5
WEST, NORTH = 400_000.0, 4_100_000.0
PLACES = {"clear": (600, 150), "cloudy": (300, 400), "thin": (620, 620), "dark": (100, 720), "outside": (-9, 100)}
"""Where buildings of 20 x 20 pixels have their middle."""
pytestmark = pytest.mark.usefixtures("without_features")


def write(path: Path, picture: np.ndarray) -> str:
    return str(write_rgb(path, picture.transpose(2, 0, 1), WEST, NORTH, nodata=0))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, dict]:
    """A town with a thick and a thin cloud and a corner without data; pre has a cloud over the clear building."""
    folder = tmp_path_factory.mktemp("hidden")
    layout = store.create(folder / "event.pugeo", "Event")
    picture = town(SIDE)
    cloud = np.maximum(disc(SIDE, PLACES["cloudy"], 180, 60), disc(SIDE, PLACES["thin"], 130, 60, 0.35))
    post = under_clouds(picture, cloud)
    post[640:, :200] = 0
    pre = under_clouds(picture, disc(SIDE, PLACES["clear"], 180, 60))
    job = job_of(layout)
    add_scenes(job, pre=[write(folder / "pre.tif", pre)], post=[write(folder / "post.tif", post)])
    with store.connect(layout) as db:
        places = np.array(list(PLACES.values()))
        x, y = WEST + GSD_M * places[:, 0], NORTH - GSD_M * places[:, 1]
        contents.add_footprints(db, table_of(shapely.box(x - 5, y - 5, x + 5, y + 5), list(PLACES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pu_geo.scenes.chip_job._compute_features", lambda *_: ())
        return layout, chip(job)


@pytest.fixture
def hidden(built: tuple[Layout, dict], tmp_path: Path) -> tuple[Layout, dict]:
    layout, made = built
    return Layout(Path(shutil.copytree(layout.folder, tmp_path / "event.pugeo"))), made


def finish_run(layout: Layout, chip_set: str) -> None:
    add_run(layout, ids=list(PLACES), scores=np.full(len(PLACES), 0.9), chip_set=chip_set)


def test_chips_say_what_is_hidden_on_each_date_and_which_scene_shows_it(hidden: tuple[Layout, dict]) -> None:
    layout, made = hidden
    assert made["n_not_assessed"] == {"cloud": 1, "nodata": 1, "outside_image": 1}
    assert (made["n_without_pre"], made["bands"]) == (1, "post")  # a blank pre chip is no evidence: of two, one has it
    assert "do not show 1 of 2 buildings" in str(made["bands_why"])
    facts = json.loads(layout.chip_facts(str(made["chip_set"])).read_text())
    assert facts["nodata_share"] == [0, 0, 0, 1, pytest.approx(29 / 40)]  # of 40 columns around column -9, 29 are outside
    after, before = facts["post_outline"], facts["pre_outline"]
    assert after["cloud"] == [0, 1, 0, 0, 0]
    assert before["cloud"] == [1, 0, 0, 0, 0]
    assert after["nodata"] == [0, 0, 0, 1, 0]
    # by hand: an outline of 20 pixels around column -9 has 19 of them beyond the border
    for shares in (after, before):
        assert shares["outside"] == [0, 0, 0, 0, pytest.approx(0.95, abs=0.05)]
    assert facts["post_scene"] == ["post", "post", "post", None, "post"]
    assert facts["pre_scene"] == ["pre"] * 5
    assert set(facts["scenes"]) == {"pre", "post"}
    one = facts["scenes"]["post"]
    assert (one["role"], one["dtype"], one["gsd_m"], len(one["sha256"]), one["date"]) == ("post", "uint8", 0.5, 64, None)
    assert "path" not in one, "a project may go elsewhere"


def test_the_hidden_are_not_offered(hidden: tuple[Layout, dict], monkeypatch: pytest.MonkeyPatch) -> None:
    layout, made = hidden
    monkeypatch.setattr(queueing.ranking, "scores_now", lambda _: None)
    now = queueing.standing(layout, str(made["chip_set"]))
    assert [building for building, done in zip(now.ids, now.is_answered, strict=True) if not done] == ["clear", "thin"]
    answers = random_audits.answers_of(layout, str(made["chip_set"]))
    assert [random_audits._CODES["not_assessable"] == one for one in answers] == [False, True, False, True, True]
    said = image_quality.image_quality(layout)
    assert said.reasons == said.candidates == {"cloudy": "cloud", "dark": "nodata", "outside": "outside_image"}
    assert said.shifts is None
    finish_run(layout, str(made["chip_set"]))
    assert damage_map.of_run(layout, "ranker-1", 0.5).n["flagged"] == 2


def test_the_map_gives_the_reason_and_an_answer_overrides_it(hidden: tuple[Layout, dict]) -> None:
    layout, made = hidden
    finish_run(layout, str(made["chip_set"]))
    columns = build_damage_map(layout, "latest", None).columns
    assert list(columns["not_assessed_reason"]) == [None, "cloud", None, "nodata", "outside_image"]
    assert list(columns["assessed"]) == [True, False, True, False, False]
    assert list(columns["score"]) == [0.9, None, 0.9, None, None]
    assert columns["damage_binary"][1] == "not_assessed"
    click(layout, "cloudy")
    click(layout, "dark", label="not_damaged")
    click(layout, "clear", label="not_assessable", reason="misaligned")
    columns = build_damage_map(layout, "latest", None).columns
    assert list(columns["not_assessed_reason"]) == ["misaligned", None, None, None, "outside_image"]
    assert list(columns["damage_binary"]) == ["not_assessed", "damaged", "damaged", "not_flagged", "not_assessed"]


def test_chips_of_both_dates_say_how_those_without_pre_are_ranked(hidden: tuple[Layout, dict]) -> None:
    layout, made = hidden
    facts = json.loads(layout.chip_facts(str(made["chip_set"])).read_text()) | {"bands": "pre+post", "bands_why": ""}
    worries = [issue.worry for issue in scene_pair.judge(layout, facts).checks]
    assert any("not assessed" in words and "post alone" in words for words in worries), worries
    result = {**made, "bands": "pre+post", "bands_why": "", "n_not_assessed": {"no_pre_image": 1}}
    assert "post alone" in _chip_words(layout, result)
