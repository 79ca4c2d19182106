"""What axe-core finds on a page against WCAG 2.2 AA, in both themes."""

import pytest

from pu_geo.ui.build import FRONTEND
from tests.browser.steps import settled

AXE = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = ("serious", "critical")
RUN = "async (rules) => (await axe.run({ exclude: [['[data-testid=stToast]']] }, rules)).violations"
"""Streamlit's toasts are dialogs without a name."""
DONE = """() => document.getAnimations().every((each) =>
    each.playState !== "running" || each.effect.getComputedTiming().endTime === Infinity)"""


def assert_accessible(page, part: str = "") -> None:
    """Nothing on a page is called serious or critical, whatever the theme. Skips where axe-core is not there."""
    if not AXE.is_file():
        pytest.skip("axe-core is not there: it comes with the browser component's packages when that is built")
    settled(page)
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(AXE.read_text(encoding="utf-8"))  # no script tag, which the server forbids
    rules = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        is_drawn = "(theme) => getComputedStyle(document.querySelector('.stApp')).colorScheme === theme"
        page.wait_for_function(is_drawn, arg=theme)
        page.wait_for_function(DONE)
        settled(page)  # what was pale while the page ran is as it should be again
        found = page.evaluate(RUN, rules)
        nodes = [(each["id"], node) for each in found if each["impact"] in GRAVE for node in each["nodes"]]
        grave = [f"{rule}: {node['html'][:200]} {node['failureSummary'][:300]}" for rule, node in nodes]
        assert not grave, "\n".join([f"{page.url} {part}, {theme}:", *grave])
