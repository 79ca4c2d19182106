"""The damage map in the real app: a click tells a building's history and labels nothing; it fits on screens of three sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pu_geo import jobs
from pu_geo.project import labels, store
from pu_geo.records import LabelOp
from pu_geo.services.damage_map import mapping
from pu_geo.services.project import choices
from tests.browser.steps import ask, go_to, on_page, open_view, press, see_all, settled, spots, wait_for_frames

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIZES = ((1280, 720), (1440, 900), (1920, 1080))
NASTY = "<img src=x onerror='window.hit = 1'>"


def test_history_scores_and_an_export(page, village, screenshots: Path) -> None:
    with store.connect(village.layout) as db:
        op = LabelOp("eve-1", village.ids[7], "positive", comment=NASTY)
        labels.append(db, [op], analyst=NASTY, screen="map")
    before, cloudy, hazy = village.labels(), village.ids[100], village.ids[103]
    open_view(page, village, "damage_map")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        wait_for_frames(page, 400)
        box = page.locator(".pugeo").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing to scroll to the side"
        page.screenshot(path=screenshots / f"damage_map-{width}.png")
    page.set_viewport_size({"width": 1400, "height": 900})
    wait_for_frames(page, 400)
    assert (ask(page, "score", cloudy), ask(page, "score", hazy) is None) == (None, False)
    legend = page.locator(".pugeo .legend").inner_text()
    assert "Not assessed" in legend
    assert "cloud" in legend
    _flag_fewer(page, village)

    sent: list[object] = []
    see_all(page)
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    card, history = page.locator(".pugeo .card"), page.locator(".pugeo .history")
    page.mouse.click(*go_to(page, village.ids[7]))
    card.wait_for(timeout=30_000)  # it opens by itself where nothing is labeled
    history.get_by_text("of 400 · score 0.").wait_for(timeout=30_000)
    assert f"{NASTY}: damaged" in history.inner_text()
    assert f"“{NASTY}”" in history.inner_text()
    assert card.locator(".choice").count() == 0
    assert history.locator("img").count() == 0
    history.get_by_text("Similar buildings").wait_for(timeout=30_000)
    history.get_by_text("being worked out").wait_for(state="detached", timeout=60_000)
    history.locator(".picture").last.click()  # a chip that looks like it
    other = page.evaluate("window.__pugeo.selected")
    assert other != village.ids[7]
    see_all(page)
    place = list(spots(page).values())[-1]
    page.mouse.click(*place, button="right")
    press(page, "3", "1", "Control+z")
    card.locator(".cardhead button").click()
    assert card.is_hidden()
    page.mouse.click(*place)
    card.wait_for(timeout=30_000)
    page.wait_for_timeout(500)
    assert (on_page(page), village.labels(), sent) == (before, before, []), "a look is no answer"

    page.get_by_role("button", name="Export", exact=True).click()
    page.get_by_role("button", name="Export version 1").click()
    page.get_by_role("link", name="Open report").wait_for(timeout=120_000)
    with page.context.expect_page(timeout=60_000) as opened:
        page.get_by_role("link", name="Open report").click()
    opened.value.get_by_text("not field-validated").first.wait_for(timeout=60_000)
    opened.value.close()
    job = next(each for each in jobs.all_jobs(village.layout) if each.task == "publish")
    document = json.loads((Path(str(job.result["out"])) / "damage_map.geojson").read_text(encoding="utf-8"))
    confirmed = {each["id"] for each in document["features"] if each["properties"]["triage"] == "confirmed"}
    assert len(document["features"]) == len(village.ids)
    assert confirmed == set(before)


def _flag_fewer(page, village) -> None:
    """Drag the slider: the map's counts follow at once, and what is chosen is stored on release alone."""
    track, run_id = page.locator(".pugeo .flagtrack"), choices.run(village.layout, "chosen").run_id
    before, box = choices.threshold(village.layout, run_id), track.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20, steps=8)
    wait_for_frames(page)
    now = int(track.get_attribute("aria-valuenow"))
    page.locator(".pugeo .legend .category", has_text="Flagged by score").get_by_text(f"{now:,}", exact=True).wait_for(
        timeout=30_000
    )
    assert choices.threshold(village.layout, run_id) == before, "nothing is stored while it is dragged"
    page.mouse.up()
    page.locator(".pugeo .flaghead", has_text="chosen by a person").wait_for(timeout=60_000)
    assert mapping.at_threshold(village.layout, run_id, choices.threshold(village.layout, run_id).value).n_flagged == now


def test_a_list_that_is_opened_after_other_acts_shows_and_keeps_what_counts(page, village) -> None:
    """It is drawn only then, and what a browser shows in it is sent with the next act."""
    run = next(each.name for each in (village.layout.folder / "runs").iterdir())
    mapping.choose_top(village.layout, run, 25)
    before = choices.threshold(village.layout, run)
    open_view(page, village, "damage_map")
    for tab in ("Accuracy assessment", "Map"):
        page.get_by_role("tab", name=tab, exact=True).click()
        settled(page)
    page.locator(".st-key-map-controls").get_by_role("button").nth(1).click()
    field = page.get_by_test_id("stPopoverBody").get_by_label("Threshold", exact=True)
    assert float(field.input_value()) == round(before.value, 4)
    page.get_by_role("tab", name="Accuracy assessment", exact=True).click()
    page.wait_for_timeout(1000)
    settled(page)
    assert choices.threshold(village.layout, run) == before
    assert choices.why_chosen(village.layout) == "newest", "nobody chose the run"
