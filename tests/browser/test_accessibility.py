"""axe-core on every screen, in both themes: no serious finding against WCAG 2.2 AA; the keyboard reaches what a mouse does."""

from __future__ import annotations

import pytest

from pu_geo.ui.build import FRONTEND
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_finding_on_any_screen(page, village, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not there: it comes with the browser component's packages when that is built")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for screen in SCREENS:
        page.goto(village.url("" if screen == "project" else screen))
        page.locator(".st-key-title-bar").wait_for(timeout=60_000)
        steps.settled(page)
        if screen in ("annotate", "explore", "damage_map"):
            page.wait_for_function(steps.READY, timeout=60_000)
        page.wait_for_timeout(500)
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
            page.locator(".st-key-title-bar").wait_for(timeout=60_000)
            if screen in ("annotate", "explore", "damage_map"):
                page.wait_for_function(steps.READY, timeout=60_000)
            page.wait_for_timeout(500)  # the view asks for another run once it is ready
            steps.settled(page)
            page.get_by_test_id("stMain").get_by_role("button", name=button).first.click()
            page.get_by_test_id("stPopoverBody").or_(page.get_by_role("dialog")).first.wait_for(timeout=20_000)
            page.wait_for_timeout(800)
            found[f"{screen} {button}"] = findings(page)
    assert not any(found.values()), "\n".join(f"{where}: {each}" for where, all_of in found.items() for each in all_of)
