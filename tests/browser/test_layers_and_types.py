"""The sample event with its radar layer and two damage types, from clicks to an export, driven by mouse and keyboard alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from small_parts import REPOSITORY

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.methods import catalog
from pu_geo.project import contents, labels, store
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import damage_types
from pu_geo.services.project import choices, projects
from pu_geo.services.train import training
from pu_geo.ui.damage_map import texts as map_texts
from pu_geo.ui.imagery import texts as imagery_texts
from pu_geo.ui.train import texts as train_texts
from tests.browser.steps import go, go_to, press, settle, settled, until, wait_for_view
from tests.browser.test_annotate import labels_of_eq_7

pytestmark = [pytest.mark.browser, pytest.mark.long]
VIEWS, TYPES = ("pre", "post", "sar-post"), ("flooded", "roof")
N_OF_EACH = 12  # buildings a type: from 10 on its scores are shown
N_OF_BOTH = 5  # of them
SECONDS = 600.0


def truth_of(layout: Layout) -> dict[str, set[str]]:
    """Return the true types of the sample's damaged buildings, by building id."""
    town = json.loads((REPOSITORY / "sample_data" / "footprints.geojson").read_text(encoding="utf-8"))["features"]
    given = {each["properties"]["uid"]: set(filter(None, (each["properties"]["types"] or "").split("; "))) for each in town}
    with store.connect(layout) as db:
        return {building: given[building] for building in contents.building_ids(db) if given[building]}


def to_mark(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Return which buildings to mark, with their types: `N_OF_EACH` of each type, `N_OF_BOTH` of them with both."""
    truth = truth_of(layout)
    both = [building for building, types in truth.items() if types >= set(TYPES)][:N_OF_BOTH]
    assert len(both) == N_OF_BOTH
    found: dict[str, tuple[str, ...]] = dict.fromkeys(both, TYPES)
    for name, other in (TYPES, TYPES[::-1]):
        alone = [building for building, types in truth.items() if name in types and other not in types]
        found |= dict.fromkeys(alone[: N_OF_EACH - N_OF_BOTH], (name,))
    return found


def ended(layout: Layout, task: str) -> JobView:
    """Wait until the newest job of a task is done; return it."""
    job = until(lambda: next((each for each in jobs.all_jobs(layout) if each.task == task), None))
    found = jobs.wait(layout, job.job_id, seconds=SECONDS)
    assert found.state == "done", found.problem
    return found


def make_features_of_three_layers(page, layout: Layout, screenshots: Path) -> None:
    """Choose each date by itself beside the radar, in place of both dates together."""
    go(page, "Imagery")
    settled(page)
    page.get_by_text("3 · Chips").click()
    page.get_by_role("button", name=imagery_texts.FEATURES, exact=True).click()
    box = page.locator("[class*='st-key-feature-layers']")
    box.get_by_role("button", name="Remove Pre and post together").click()
    page.wait_for_timeout(500)  # until Streamlit's next run has started: the list closes as the page is drawn anew
    settled(page)
    for name in map(imagery_texts.layer_choice, ("pre", "post")):
        box.get_by_role("combobox").fill(name)
        page.get_by_role("option", name=name, exact=True).click()
        page.wait_for_timeout(500)
        settled(page)
    page.get_by_text(imagery_texts.FEATURES_ABOUT).click()  # folds the list, which covers the button
    page.screenshot(path=screenshots / "sample_features.png")
    page.get_by_role("button", name=imagery_texts.MAKE_FEATURES).click()
    assert set(ended(layout, "features").args["request"]["layers"]) == set(VIEWS)


def give_types(page, layout: Layout, wanted: dict[str, tuple[str, ...]], screenshots: Path) -> None:
    """Mark each building damaged by a click on the map, then its types on its card; "no" to water where the roof alone is gone."""
    go(page, "Annotate")
    wait_for_view(page)
    press(page, "i")
    card = page.locator(".pugeo .card")
    for building, types in wanted.items():
        page.mouse.click(*go_to(page, building))
        for name in types:
            card.get_by_role("button", name=f"{name}:").click()
        if types == ("roof",):
            card.get_by_role("button", name="flooded:").click(button="right")
    settle(page)
    page.screenshot(path=screenshots / "sample_types.png")
    with store.connect(layout) as db:
        given = labels.current(db)
    assert {building: tuple(sorted(event.damage_types)) for building, event in given.items()} == wanted
    assert {each for each, event in given.items() if event.absent_types} == {
        each for each in wanted if wanted[each] == ("roof",)
    }


def train_on_types(page, layout: Layout, screenshots: Path) -> str:
    """Train HeroCon quick with the types from answers; return the run's id."""
    go(page, "Train")
    page.locator(".st-key-group-1").get_by_text(catalog.GROUPS["types"]).click()
    page.locator(".st-key-start-herocon").wait_for(timeout=60_000)
    settled(page)
    at = [card.name for group in list(training.cards_by_group().values())[:2] for card in group].index("herocon")
    page.get_by_role("button", name=train_texts.SETTINGS, exact=True).nth(at).click()
    page.locator(".st-key-types-herocon").get_by_role("combobox").click()
    page.get_by_role("option", name="Types given on Annotate").click()
    counts = f"flooded {N_OF_EACH} yes, {N_OF_EACH - N_OF_BOTH} no; roof {N_OF_EACH} yes"
    page.get_by_test_id("stPopoverBody").get_by_text(counts).wait_for(timeout=60_000)
    page.screenshot(path=screenshots / "sample_train.png")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Train HeroCon").click()
    return str(ended(layout, "train").result["run_id"])


def choose_thresholds(page, layout: Layout, run_id: str, screenshots: Path) -> None:
    """Set each type's threshold in its own way: one by its score, the other by how many reach it."""
    go(page, "Damage map")
    wait_for_view(page, "damage_map")
    page.get_by_role("tab", name=map_texts.TAB_TYPES).click()
    scores = [page.locator(f"[class*='st-key-type-threshold-{run_id}-{k}'] input") for k in range(len(TYPES))]
    before = [float(each.input_value()) for each in scores]
    page.locator(".js-plotly-plot").nth(1).wait_for(timeout=60_000)
    page.wait_for_timeout(1_000)
    folder = Path(os.environ.get("PU_GEO_DOCS_IMAGES") or screenshots)
    page.screenshot(path=folder / "damage_types.jpg", type="jpeg", quality=82)
    scores[0].fill("0.4321")
    scores[0].press("Enter")
    page.get_by_text("Threshold 0.4321: chosen by a person").wait_for(timeout=20_000)
    slider = page.locator(f"[class*='st-key-type-top-{run_id}-1']").get_by_role("slider")
    slider.focus()
    press(page, "ArrowLeft", "ArrowLeft")
    until(lambda: types_of(layout, run_id)["roof"].threshold.value > before[1])
    # Each key is a run of the page of its own.
    until(lambda: float(scores[1].input_value()) == pytest.approx(types_of(layout, run_id)["roof"].threshold.value))
    assert types_of(layout, run_id)["flooded"].threshold.value == pytest.approx(0.4321)


def types_of(layout: Layout, run_id: str) -> dict[str, damage_types.TypeOnMap]:
    return {one.name: one for one in on_map(layout, run_id).types}


def on_map(layout: Layout, run_id: str) -> damage_types.TypesOnMap:
    return damage_types.on_map(layout, run_id, choices.threshold(layout, run_id).value)


def export(page, layout: Layout) -> dict[str, dict[str, object]]:
    """Export a version; return building id -> columns, of its GeoJSON."""
    page.get_by_role("button", name=map_texts.EXPORT, exact=True).click()
    page.get_by_role("button", name="Export version 1").click()
    folder = Path(str(ended(layout, "publish").result["out"]))
    document = json.loads((folder / "damage_map.geojson").read_text(encoding="utf-8"))
    return {each["id"]: each["properties"] for each in document["features"]}


def test_the_sample_with_three_layers_and_two_types_from_clicks_to_an_export(
    page, app, sample: Layout, screenshots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects.open_project(str(sample.folder))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{app.address}/?project={projects.token_of(sample)}")
    wanted = to_mark(sample)
    make_features_of_three_layers(page, sample, screenshots)
    give_types(page, sample, wanted, screenshots)
    run_id = train_on_types(page, sample, screenshots)

    run, n_alone = choices.run(sample, run_id), N_OF_EACH - N_OF_BOTH
    assert (run.method, run.types, set(run.views)) == ("herocon", TYPES, set(VIEWS))
    names, known_of = labels_of_eq_7(sample, monkeypatch)
    assert names == TYPES
    of_eq_7 = {each: known_of.count(each) for each in set(known_of)}
    assert of_eq_7 == {(1, 1): N_OF_BOTH, (1, -1): n_alone, (0, 1): n_alone}, "yes, no, and what nobody said"

    choose_thresholds(page, sample, run_id, screenshots)
    columns, shown = export(page, sample), on_map(sample, run_id)
    for one in shown.types:
        by_people, by_score = shown.with_type(one)
        assert set(by_people) == {building for building, types in wanted.items() if one.name in types}
        assert by_score
        in_file = {
            building: (each[f"type_{one.name}"], each[f"type_{one.name}_score"]) for building, each in columns.items()
        }
        assert {building for building, (answer, _) in in_file.items() if answer == "yes"} == {*by_people, *by_score}
        assert min(in_file[building][1] for building in by_score) >= one.threshold.value
        assert {in_file[building][0] for building in columns if columns[building]["damage_binary"] == "not_flagged"} == {
            "no"
        }
