"""Damage types, from clicks to the map: several of one building, a training that learns them, a threshold for each."""

import pytest

from pu_geo.maps import damage_map, damage_types
from pu_geo.runs import training
from pu_geo.store import chosen
from pu_geo.ui.damage_map import texts as map_texts
from pu_geo.ui.train import texts as train_texts
from tests.browser.accessibility import assert_accessible
from tests.browser.steps import a_run, ended, fill, go, open_view, press, queue, settle, settled, until, wait_for_view
from tests.small_parts import click

pytestmark = [pytest.mark.browser, pytest.mark.ci]
TYPES = ("flooded", "roof")
N_OF_EACH = 12  # buildings a type: from 10 on its scores are shown


def test_types_from_clicks_to_the_map(page, village) -> None:
    kinds = [village.ids[k] for k in range(200, 200 + 2 * N_OF_EACH)]
    for k, name in enumerate(TYPES):
        click(village.layout, *kinds[k * N_OF_EACH :][: N_OF_EACH - 2], damage_types=[name])
    first, second = give_types(page, village)
    run_id = train_on_types(page, village)
    run = chosen.run(village.layout, run_id)
    assert (run.method, set(run.types)) == ("herocon", {*TYPES})

    go(page, "Damage map")
    wait_for_view(page, "damage_map")
    choose_thresholds(page, village, run_id)
    for one in on_map(village, run_id).types:
        by_people, by_score = on_map(village, run_id).with_type(one)
        answered = {each for each, answer in village.answers().items() if one.name in answer.damage_types}
        assert {first, second} <= set(by_people) == answered
        assert by_score


def give_types(page, village) -> tuple[str, str]:
    """Give both types to two buildings of the queue, by keys and by mouse; return them."""
    open_view(page, village)
    pane = page.locator(".pugeo .queuepane")

    def says(name: str, state: str) -> None:
        pane.locator(f"button[aria-label='{name}: {state}']").wait_for()  # with the next frame

    first = queue(page)["current"]
    press(page, "t", "Tab", "Enter")  # past "collapsed", to "roof"
    says("roof", "yes")
    for name in ("flooded", "burned", "burned"):  # the second press: no
        pane.get_by_role("button", name=f"{name}:").click()
    assert queue(page)["current"] == first, "its other types may follow"
    settle(page)
    answer = village.answers()[first]
    assert (answer.label, set(answer.damage_types), answer.absent_types) == ("positive", {*TYPES}, ("burned",))
    pane.get_by_role("button", name="Keep for the next").click()
    press(page, "1")
    second = queue(page)["current"]
    says("flooded", "yes")
    pane.get_by_role("button", name="debris:").click(button="right")
    says("debris", "no")
    settle(page)
    assert second not in village.labels(), "what it has not makes no building damaged"
    pane.get_by_role("button", name="debris:").click(button="right")
    press(page, "1")
    press(page, "Control+z")
    settle(page)
    assert second not in village.labels()
    press(page, "Control+Shift+Z")
    settle(page)
    assert set(village.answers()[second].damage_types) == {*TYPES}
    return first, second


def train_on_types(page, village) -> str:
    """Train HeroCon with the types from answers; return the run's id."""
    go(page, "Train")
    page.get_by_role("link", name=train_texts.RESEARCH).click()
    page.locator(".st-key-start-herocon").wait_for()
    settled(page)
    at = [card.name for card in training.cards_of("types")].index("herocon")
    page.get_by_role("button", name=train_texts.SETTINGS, exact=True).nth(at).click()
    with a_run(page):
        page.locator(".st-key-types-herocon").get_by_role("combobox").click()
        page.get_by_role("option", name="Types given on Annotate").click()
    page.get_by_test_id("stPopoverBody").get_by_text(f"flooded {N_OF_EACH} yes").wait_for()
    assert_accessible(page, "settings with types")
    fill(page, page.locator(".st-key-set-herocon-quick-epochs input"), "2")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Train HeroCon").click()
    return str(ended(village.layout, "train").result["run_id"])


def choose_thresholds(page, village, run_id: str) -> None:
    """Set each type's threshold in its own way: one by its score, the other by how many reach it."""
    threshold = lambda name: next(one for one in on_map(village, run_id).types if one.name == name).threshold.value  # noqa: E731
    names = [one.name for one in on_map(village, run_id).types]
    page.get_by_role("tab", name=map_texts.TAB_TYPES).click()
    scores = [page.locator(f"[class*='st-key-type-threshold-{run_id}-{k}'] input") for k in range(len(TYPES))]
    scores[1].wait_for()
    assert_accessible(page, "damage types")
    before = threshold(names[1])
    fill(page, scores[0], "0.4321")
    assert threshold(names[0]) == pytest.approx(0.4321)
    slider = page.locator(f"[class*='st-key-type-top-{run_id}-1']").get_by_role("slider")
    slider.focus()
    press(page, "ArrowLeft", "ArrowLeft")
    until(lambda: threshold(names[1]) > before)
    # Each key is a run of the page of its own, and while it is drawn a field may be there twice.
    until(lambda: float(scores[1].first.input_value()) == pytest.approx(threshold(names[1]), abs=1e-4))
    assert threshold(names[0]) == pytest.approx(0.4321), "a threshold that was typed is not set back by the next act"


def on_map(village, run_id: str) -> damage_types.TypesOnMap:
    return damage_map.of_run(village.layout, run_id).types
