"""Two projects on one machine, one with destroyed and one with flooded buildings, train together over TLS, through the app alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_parts import CLASSES, N_DAMAGED, N, agency
from small_parts import need_extra

from pu_geo import jobs
from pu_geo.federation import federating
from pu_geo.jobs import JobView
from pu_geo.maps import damage_map
from pu_geo.store import chosen, federations, runs
from pu_geo.store.layout import Layout, write_json
from pu_geo.ui.damage_map import texts as map_texts
from pu_geo.ui.train import texts
from tests.browser.conftest import address_of
from tests.browser.steps import a_run, choose, ended, fill, settled, until, wait_for_view

pytestmark = [pytest.mark.browser, pytest.mark.long(part="federation")]
TITLE, ID, ROUNDS = "Storm and flood", "storm-and-flood", 8
SECONDS = 300.0


def with_map(layout: Layout) -> Layout:
    """Give a project what the browser draws its map of beside outlines: pictures of nothing."""
    side = 32 * (N + 1)
    pyramid = {"tile_px": 256, "max_zoom": 3, "width": side, "height": side, "resolutions": [8, 4, 2, 1]}
    for role in ("pre", "post"):
        (layout.quicklooks / role).mkdir(parents=True, exist_ok=True)
        write_json(layout.quicklooks / role / "pyramid.json", pyramid)
    return layout


def open_panel(page: Any, address: str, layout: Layout) -> None:
    page.goto(address_of(address, layout, "research"))
    page.get_by_role("tab", name=texts.FEDERATION).click()
    page.get_by_text(texts.FEDERATION_NOTE[:40]).wait_for()
    settled(page)


def field(page: Any, key: str) -> Any:
    return page.locator(f".st-key-{key}")


def large(page: Any, title: str, place: int = 0) -> str:
    """Return the fingerprint below a title, as people read it out; it is the first one in large type, or another one."""
    page.get_by_text(title).wait_for()
    settled(page)  # nothing stands there twice
    lines = [page.locator("h4 code").nth(2 * place + k).inner_text() for k in (0, 1)]
    assert all(len(line.split()) == 4 for line in lines)
    return " ".join(" ".join(lines).split())


def lead(page: Any, layout: Layout) -> Path:
    """Lead a federation of both types, with the class rest; return the invitation."""
    fill(page, field(page, "federation-title").locator("input"), TITLE)
    fill(page, field(page, "federation-types").locator("input"), ", ".join(CLASSES[1:]))
    choose(page, field(page, "lead-class"), "destroyed")
    page.locator(".st-key-federation-settings button").click()
    fill(page, field(page, "federation-rounds").locator("input"), str(ROUNDS))
    page.keyboard.press("Escape")
    page.get_by_role("button", name=texts.LEAD_BUTTON).click()
    path = layout.federation(ID) / federations.INVITATION
    until(lambda: path.is_file() or ended_badly(layout), SECONDS)
    assert not ended_badly(layout)
    return path


def ended_badly(layout: Layout) -> list[JobView]:
    return [job for job in jobs.all_jobs(layout) if job.state in ("failed", "interrupted")]


def join(page: Any, layout: Layout, invitation: Path) -> str:
    """Join for the class flooded; return the fingerprint that the page shows of the federation."""
    with a_run(page):
        page.get_by_role("radio", name=texts.JOIN, exact=True).click()
    fill(page, field(page, "invitation-path").locator("input"), str(invitation))
    shown = large(page, texts.COMPARE_SERVER)
    choose(page, field(page, f"join-{ID}-class"), "flooded")
    with a_run(page):
        page.locator("[class*='st-key-join-same-'] label").click()
    page.get_by_role("button", name=texts.JOIN_BUTTON, exact=True).click()
    until(lambda: (layout.federation(ID) / "request-2.json").is_file())
    return shown


def score(page: Any, layout: Layout) -> str:
    """Score the project's buildings by the finished model and open its map; return the run."""
    page.get_by_role("button", name=texts.SCORE_WITH_IT).click()
    found = ended(layout, "apply_model")
    page.get_by_role("button", name=texts.SHOW_ON_MAP).click()
    wait_for_view(page, "damage_map")
    page.get_by_role("tab", name=map_texts.TAB_TYPES).click()
    page.get_by_text("more like this type than like any other").first.wait_for()
    return str(found.result["run_id"])


def test_two_projects_train_together_over_tls_and_both_get_a_map_with_three_classes(app, new_page, tmp_path: Path) -> None:
    need_extra("federated")
    kinds = {"storm": "destroyed", "water": "flooded"}
    made = (agency(tmp_path / f"{name}.pugeo", kind, seed=k) for k, (name, kind) in enumerate(kinds.items()))
    storm, water = map(with_map, made)
    leader, member = new_page(), new_page()
    open_panel(leader, app.address, storm)
    invitation = lead(leader, storm)
    open_panel(member, app.address, water)
    assert join(member, water, invitation) == large(leader, texts.SERVER_FINGERPRINT)

    key = large(member, texts.OWN_FINGERPRINT.format(name="flooded"), 1)
    request = water.folder / "federation" / ID / "request-2.json"
    fill(leader, field(leader, "request-path").locator("input"), str(request))
    assert large(leader, texts.KEY_FINGERPRINT, 1) == key
    leader.get_by_role("button", name=texts.ADMIT).click()
    for layout in (storm, water):
        until(lambda layout=layout: federating.read(layout, ID).is_over or ended_badly(layout), SECONDS)
        assert ended_badly(layout) == []
    leader.get_by_role("button", name=texts.SCORE_WITH_IT).wait_for()
    leader.locator(".js-plotly-plot").first.wait_for()
    for page, layout in ((leader, storm), (member, water)):
        run = chosen.run(layout, score(page, layout))
        assert run.types == CLASSES[1:]
        three_classes(layout, run.run_id)


def three_classes(layout: Layout, run_id: str) -> None:
    """The map has its own damage type, the other project's, and neither; the project's own damage is of its own type."""
    own = int(layout.folder.stem == "water")
    found = damage_map.of_run(layout, run_id).types
    assert tuple(one.name for one in found.types) == CLASSES[1:]
    scores, kinds = (np.asarray(runs.array(layout, run_id, name)) for name in ("scores", "type_scores"))
    assert scores[:N_DAMAGED].min() > scores[N_DAMAGED:].max(), "damaged, and rest"
    assert (kinds[:N_DAMAGED].argmax(1) == own).all(), "no building here has the type that only the other project knew"
    assert set(found.types[own].states[:N_DAMAGED]) == {"yes"}
    n_own, n_other = (one.states[:N_DAMAGED].count("yes") for one in (found.types[own], found.types[1 - own]))
    assert n_own > n_other
