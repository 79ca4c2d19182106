"""axe-core on every screen, in both themes: no serious finding against WCAG 2.2 AA; the keyboard reaches what a mouse does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from small_parts import add_run, click

from pu_geo.methods import catalog
from pu_geo.services.project import choices
from pu_geo.services.train import training
from pu_geo.ui.build import FRONTEND
from pu_geo.ui.damage_map.texts import TAB_TYPES
from pu_geo.ui.imagery import texts as imagery_texts
from pu_geo.ui.train import texts as train_texts
from tests.browser import steps

pytestmark = [pytest.mark.browser, pytest.mark.slow]
AXE = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"
SCREENS = ("project", "imagery", "annotate", "train", "explore", "damage_map")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = ("serious", "critical")


def findings(page) -> list[str]:
    """Return what axe-core calls serious or critical on a page, with the elements."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE.read_text(encoding="utf-8"))  # no script tag, which the server forbids
    rules = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = page.evaluate("async (rules) => (await axe.run(document, rules)).violations", rules)
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


def wait_for_screen(page, screen: str) -> None:
    """Wait until a screen that was opened is drawn, and nothing of it is pale because the page runs."""
    page.locator(".st-key-title-bar").wait_for(timeout=60_000)
    if screen in ("annotate", "explore", "damage_map"):
        page.wait_for_function(steps.READY, timeout=60_000)
    steps.wait_for_frames(page, 500)  # the view asks for another run once it is ready
    steps.settled(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_finding_on_any_screen(page, village, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: it comes with the browser component's packages when that is built")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for screen in SCREENS:
        page.goto(village.url("" if screen == "project" else screen))
        wait_for_screen(page, screen)
        page.wait_for_timeout(500)  # what was pale while the page ran is as it should be again
        found[screen] = findings(page)
    assert not any(found.values()), "\n".join(f"{screen}: {each}" for screen, all_of in found.items() for each in all_of)


OPENED = {
    "": ("Browse for another project",), "annotate": ("Grades", "Next 20"), "train": ("Settings", "Rename"),
    "explore": ("Settings", "Selection"), "damage_map": ("Export",),
}  # fmt: skip
"""Screen -> buttons that open something over it."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_finding_in_what_opens_over_a_screen(page, village, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: it comes with the browser component's packages when that is built")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for screen, buttons in OPENED.items():
        for button in buttons:
            page.goto(village.url(screen))
            wait_for_screen(page, screen)
            page.get_by_test_id("stMain").get_by_role("button", name=button).first.click()
            page.get_by_test_id("stPopoverBody").or_(page.get_by_role("dialog")).first.wait_for(timeout=60_000)
            steps.settled(page)  # a dialog is there before all of it is
            page.wait_for_timeout(800)
            found[f"{screen} {button}"] = findings(page)
    assert not any(found.values()), "\n".join(f"{where}: {each}" for where, all_of in found.items() for each in all_of)


def unfold(page, title: str) -> None:
    """Open a step of the Imagery screen, unless it is open."""
    step = page.locator("details", has_text=title)
    step.wait_for(timeout=60_000)
    steps.settled(page)
    if step.get_attribute("open") is None:
        page.get_by_text(title).click()


def layers_and_types(page, village) -> Iterator[str]:
    """Open what layers and damage types bring to the screens, one after the other; yield the name of each."""
    page.goto(village.url("imagery"))
    unfold(page, "1 · Scenes")
    page.get_by_role("tab", name=imagery_texts.LAYERS).click()
    yield "the tab Layers"
    unfold(page, "3 · Chips")
    page.get_by_role("button", name=imagery_texts.FEATURES, exact=True).click()
    page.locator("[class*='st-key-feature-layers']").wait_for(timeout=60_000)
    yield "features of layers"
    steps.open_view(page, village)
    page.get_by_role("group", name="Layer over the imagery").get_by_label("Layer", exact=True).select_option("sar-post")
    page.mouse.click(*steps.go_to(page, next(each for each in village.ids[150:] if each not in village.labels())))
    steps.press(page, "i")
    page.locator(".pugeo .card .types").wait_for(timeout=60_000)
    yield "a layer, and types on the card"
    page.goto(village.url("train"))
    page.locator(".st-key-group-1").get_by_text(catalog.GROUPS["types"]).click(timeout=60_000)
    page.locator(".st-key-start-herocon").wait_for(timeout=60_000)
    steps.settled(page)  # the other methods are there
    page.locator(".st-key-compare-layers").get_by_text(train_texts.COMPARE_LAYERS).click()
    page.locator(".st-key-compare-layers-start").wait_for(timeout=60_000)
    steps.settled(page)
    at = [card.name for group in list(training.cards_by_group().values())[:2] for card in group].index("herocon")
    page.get_by_role("button", name=train_texts.SETTINGS, exact=True).nth(at).click()
    page.locator(".st-key-types-herocon").wait_for(timeout=60_000)
    yield "settings with types, and what each layer adds"
    steps.open_view(page, village, "damage_map")
    page.get_by_role("button", name=TAB_TYPES).click()
    page.locator(".pugeo .legend").get_by_text("flooded").wait_for(timeout=60_000)
    yield "the map of types"
    page.get_by_role("tab", name=TAB_TYPES).click()
    page.locator(".js-plotly-plot").first.wait_for(timeout=60_000)
    yield "the tab Damage types"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_finding_where_layers_and_damage_types_are(page, village, has_layer, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: it comes with the browser component's packages when that is built")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    scores = np.random.default_rng(0).random((len(village.ids), 2)).astype(np.float32)
    for name, rows in (("roof", slice(200, 212)), ("flooded", slice(206, 218))):
        click(village.layout, *village.ids[rows], damage_types=[name])
    typed = {"method": "herocon", "types": ("roof", "flooded"), "types_from": "answers"}
    add_run(
        village.layout,
        "herocon-1",
        ids=village.ids,
        scores=scores.mean(1),
        arrays={"type_scores": scores},
        like="islands-1",
        **typed,
    )
    choices.choose_run(village.layout, "herocon-1")
    found = {}
    for where in layers_and_types(page, village):
        steps.settled(page)
        page.wait_for_timeout(500)
        found[where] = findings(page)
    assert not any(found.values()), "\n".join(f"{where}: {each}" for where, all_of in found.items() for each in all_of)
