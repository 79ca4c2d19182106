"""The damage map in the real app: a click tells a building's history and labels nothing; how many are flagged is dragged."""

import json
from pathlib import Path

import pytest

from pu_geo.maps import damage_map
from pu_geo.store import chosen
from tests.browser.conftest import CLOUDY, HAZY
from tests.browser.steps import ask, at_rest, ended, go_to, on_page, open_view, press, see_all, spots
from tests.small_parts import click

pytestmark = [pytest.mark.browser, pytest.mark.ci]
NASTY = "<img src=x onerror='window.hit = 1'>"


def test_history_scores_and_an_export(page, village) -> None:
    click(village.layout, village.ids[7], comment=NASTY, analyst=NASTY)
    before = village.labels()
    open_view(page, village, "damage_map")
    scores = [ask(page, "score", village.ids[k]) for k in (CLOUDY, HAZY)]
    assert (scores[0], scores[1] is None) == (None, False)
    legend = page.locator(".pugeo .legend").inner_text()
    assert "Not assessed" in legend
    assert "cloud" in legend
    _flag_fewer(page, village)

    sent: list[object] = []
    see_all(page)
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    card, history = page.locator(".pugeo .card"), page.locator(".pugeo .history")
    page.mouse.click(*go_to(page, village.ids[7]))
    card.wait_for()  # it opens by itself where nothing is labeled
    history.get_by_text("of 400 · score 0.").wait_for()
    assert f"{NASTY}: damaged" in history.inner_text()
    assert f"“{NASTY}”" in history.inner_text()
    assert card.locator(".choice").count() == 0
    assert history.locator("img").count() == 0
    history.get_by_text("Similar buildings").wait_for()
    history.get_by_text("being worked out").wait_for(state="detached")
    history.locator(".picture").last.click()  # a chip that looks like it
    page.wait_for_function("(id) => window.__pugeo.selected !== id", arg=village.ids[7])
    see_all(page)
    place = list(spots(page).values())[-1]
    page.mouse.click(*place, button="right")
    press(page, "3", "1", "Control+z")
    card.locator(".cardhead button").click()
    assert card.is_hidden()
    page.mouse.click(*place)
    card.wait_for()
    at_rest(page)
    assert (on_page(page), village.labels(), sent) == (before, before, []), "a look is no answer"

    page.get_by_role("button", name="Export", exact=True).click()
    page.get_by_role("button", name="Export version 1").click()
    page.get_by_role("link", name="Open report").wait_for(timeout=120_000)
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open report").click()
    opened.value.get_by_text("not field-validated").first.wait_for()
    opened.value.close()
    folder = Path(str(ended(village.layout, "publish").result["out"]))
    features = json.loads((folder / "damage_map.geojson").read_text(encoding="utf-8"))["features"]
    assert len(features) == len(village.ids)
    assert {each["id"] for each in features if each["properties"]["triage"] == "confirmed"} == set(before)


def _flag_fewer(page, village) -> None:
    """Drag the slider: the map's counts follow at once, and what is chosen is stored on release alone."""
    track, run_id = page.locator(".pugeo .flagtrack"), chosen.run(village.layout, "chosen").run_id
    before, box = chosen.threshold(village.layout, run_id), track.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20, steps=8)
    at_rest(page)
    now = int(track.get_attribute("aria-valuenow"))
    flagged = page.locator(".pugeo .legend .category", has_text="Flagged by score")
    flagged.get_by_text(f"{now:,}", exact=True).wait_for()
    assert chosen.threshold(village.layout, run_id) == before, "nothing is stored while it is dragged"
    page.mouse.up()
    page.locator(".pugeo .flaghead", has_text="chosen by a person").wait_for()
    assert damage_map.of_run(village.layout, run_id).n["flagged"] == now
