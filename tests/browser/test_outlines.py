"""A map of more buildings than one map tile of outlines holds: dots far out, outlines where somebody zooms in, and clicks on both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pu_geo.project import labels, store
from tests.browser.conftest import address_of
from tests.browser.real_app import made_up_project
from tests.browser.steps import ask, at_rest, go_to, on_page, settle, spot, wait_for_view

pytestmark = [pytest.mark.browser, pytest.mark.ci]
TILE = re.compile(r"/outlines/[0-9a-f]{32}/(\d+)\.bin\?v=1$")


def test_outlines_come_where_somebody_zooms_in_and_a_click_means_its_building(page, app, tmp_path: Path) -> None:
    ids = [f"b{k:05d}" for k in range(5000)]
    layout = made_up_project(tmp_path / "town.pugeo", ids)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.extend(TILE.findall(request.url)))
    page.goto(address_of(app, layout, "annotate"))
    wait_for_view(page)
    near = {building: go_to(page, building) for building in (ids[2500], ids[-1])}
    page.wait_for_function("window.__pugeo.outlines().missing === 0")
    assert sorted(set(fetched)) == sorted(fetched), "each tile once"
    assert ask(page, "outlines") == {"all": 3, "here": len(fetched), "missing": 0}
    page.mouse.click(*near[ids[-1]])
    at_rest(page)
    ask(page, "setView", ask(page, "gridCenter", ids[2500]), 6.0)  # 16 pixels of the grid are a dot
    at_rest(page)
    page.mouse.click(*spot(page, ids[2500]), button="right")
    given = {ids[-1]: "positive", ids[2500]: "not_damaged"}
    assert on_page(page).items() >= given.items()
    settle(page)
    assert store.call(layout, labels.current_labels).items() >= given.items()
