"""Two projects on one machine, one with destroyed and one with flooded buildings, train together over TLS, through the app alone."""

from __future__ import annotations

import csv
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_parts import CLASSES, N_DAMAGED, N, agency
from small_parts import need_extra

from pu_geo import jobs
from pu_geo.jobs import JobView
from pu_geo.project import federations, runs
from pu_geo.project.layout import Layout, read_json, write_json
from pu_geo.services.damage_map import damage_types
from pu_geo.services.project import choices, projects
from pu_geo.services.train import federation
from pu_geo.ui.damage_map import texts as map_texts
from pu_geo.ui.train import texts
from tests.browser.real_app import SHEETS
from tests.browser.steps import settled, until, wait_for_view

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.slow]
TITLE, ID, ROUNDS = "Storm and flood", "storm-and-flood", 8
SECONDS = 300.0


def with_map(layout: Layout) -> Layout:
    """Give a project what the browser draws its map of beside outlines: pictures of nothing."""
    side = 32 * (N + 1)
    pyramid = {"tile_px": 256, "max_zoom": 3, "width": side, "height": side, "resolutions": [8, 4, 2, 1]}
    for role in ("pre", "post"):
        (layout.quicklooks / role).mkdir(parents=True, exist_ok=True)
        write_json(layout.quicklooks / role / "pyramid.json", pyramid)
    facts = layout.chip_facts("set")
    write_json(facts, {**read_json(facts), "sheets": {**SHEETS, "n": N, "n_sheets": 1}})
    return layout


def open_panel(page: Any, address: str, layout: Layout) -> None:
    page.goto(f"{address}/train?project={projects.token_of(layout)}")
    page.locator(".st-key-federation").wait_for(timeout=60_000)
    page.locator(".st-key-federation label").first.click()
    page.get_by_text(texts.FEDERATION_NOTE[:40]).wait_for(timeout=30_000)
    settled(page)


def fill(page: Any, key: str, value: str) -> None:
    field = page.locator(f".st-key-{key} input")
    field.fill(value)
    field.press("Enter")
    page.wait_for_timeout(500)  # until Streamlit's next run has started
    settled(page)


def choose(page: Any, key: str, value: str) -> None:
    """Choose from a list, which closes by itself when the page is drawn anew meanwhile."""
    from playwright.sync_api import Error  # not installed everywhere

    field, option = page.locator(f".st-key-{key}"), page.get_by_role("option", name=value, exact=True)

    def is_chosen() -> bool:
        settled(page)
        if field.locator("input").input_value() == value:
            return True
        field.locator("button").click()
        with suppress(Error):  # of Playwright: no such option, or it was gone before the click
            option.click(timeout=5_000)
        page.wait_for_timeout(300)
        return False

    until(is_chosen, 120.0)
    settled(page)


def large(page: Any, title: str, place: int = 0) -> str:
    """Return the fingerprint below a title, as people read it out; it is the first one in large type, or another one."""
    page.get_by_text(title).wait_for(timeout=60_000)
    settled(page)  # nothing stands there twice
    lines = [page.locator("h4 code").nth(2 * place + k).inner_text() for k in (0, 1)]
    assert all(len(line.split()) == 4 for line in lines)
    return " ".join(" ".join(lines).split())


def lead(page: Any, layout: Layout) -> Path:
    """Lead a federation of both types, with the class rest; return the invitation."""
    fill(page, "federation-title", TITLE)
    fill(page, "federation-types", ", ".join(CLASSES[1:]))
    choose(page, "lead-class", "destroyed")
    page.locator(".st-key-federation-settings button").click()
    fill(page, "federation-rounds", str(ROUNDS))
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
    page.get_by_role("radio", name=texts.JOIN, exact=True).click()
    settled(page)
    fill(page, "invitation-path", str(invitation))
    shown = large(page, texts.COMPARE_SERVER)
    choose(page, f"join-{ID}-class", "flooded")
    page.locator("[class*='st-key-join-same-'] label").click()
    settled(page)
    page.get_by_role("button", name=texts.JOIN_BUTTON, exact=True).click()
    until(lambda: (layout.federation(ID) / "request-2.json").is_file())
    return shown


def is_served(host: str, port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection((host, port), 10):
        return True
    return False


def speaks_tls_only(invitation: Path) -> None:
    """The leader's server shows a certificate of the invitation's CA, and takes no plain connection."""
    facts = read_json(invitation)
    host, _, port = facts["address"].rpartition(":")
    context = ssl.create_default_context(cadata=facts["certificate"])
    until(lambda: is_served(host, int(port)), SECONDS)  # the invitation is written before the job has loaded its server
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain, server_hostname=host) as link:
        assert link.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection((host, int(port)), 10) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def score(page: Any, layout: Layout, screenshots: Path) -> str:
    """Score the project's buildings by the finished model and open its map; return the run."""
    page.get_by_role("button", name=texts.SCORE_WITH_IT).click(timeout=60_000)
    job = until(lambda: next((each for each in jobs.all_jobs(layout) if each.task == "apply_model"), None))
    found = jobs.wait(layout, job.job_id, seconds=SECONDS)
    assert found.state == "done", found.problem
    page.get_by_role("button", name=texts.SHOW_ON_MAP).click(timeout=60_000)
    wait_for_view(page, "damage_map")
    page.get_by_role("tab", name=map_texts.TAB_TYPES).click()
    page.get_by_text("more like this type than like any other").first.wait_for(timeout=60_000)
    page.screenshot(path=screenshots / f"federation_map_{layout.folder.stem}.png")
    return str(found.result["run_id"])


def test_two_projects_train_together_over_tls_and_both_get_a_map_with_three_classes(
    app, new_page, tmp_path: Path, screenshots: Path
) -> None:
    need_extra("federated")
    storm, water = (
        with_map(agency(tmp_path / f"{name}.pugeo", kind, seed=k))
        for k, (name, kind) in enumerate((("storm", "destroyed"), ("water", "flooded")))
    )
    for layout in (storm, water):
        projects.open_project(str(layout.folder))
    leader, member = new_page(), new_page()
    open_panel(leader, app.address, storm)
    invitation = lead(leader, storm)
    open_panel(member, app.address, water)
    assert join(member, water, invitation) == large(leader, texts.SERVER_FINGERPRINT)

    key = large(member, texts.OWN_FINGERPRINT.format(name="flooded"), 1)
    speaks_tls_only(invitation)
    fill(leader, "request-path", str(water.folder / "federation" / ID / "request-2.json"))
    leader.screenshot(path=screenshots / "federation_waiting_room.png", full_page=True)
    assert large(leader, texts.KEY_FINGERPRINT, 1) == key
    leader.get_by_role("button", name=texts.ADMIT).click()
    for layout in (storm, water):
        until(lambda layout=layout: federation.read(layout, ID).is_over or ended_badly(layout), SECONDS)
        assert ended_badly(layout) == []
    leader.get_by_role("button", name=texts.SCORE_WITH_IT).wait_for(timeout=60_000)
    leader.locator(".js-plotly-plot").first.wait_for(timeout=60_000)
    leader.screenshot(path=screenshots / "federation_finished.png", full_page=True)
    left_machine(member, water, tmp_path)
    for page, layout in ((leader, storm), (member, water)):
        run = choices.run(layout, score(page, layout, screenshots))
        assert run.types == CLASSES[1:]
        three_classes(layout, run.run_id)


def left_machine(page: Any, layout: Layout, folder: Path) -> None:
    """The ledger can be saved, and of the class vectors it has the member's own alone."""
    page.locator(f".st-key-ledger-{ID} label").first.click()
    with page.expect_download(timeout=60_000) as waiting:
        page.locator(f".st-key-ledger-csv-{ID} button").click()
    waiting.value.save_as(folder / "ledger.csv")
    with (folder / "ledger.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["message"] for row in rows} == {"answer"}
    assert {int(row["round"]) for row in rows} == set(range(1, ROUNDS + 1))
    assert [row["sha256"] for row in rows] == [one.sha256 for one in federation.ledger(layout, ID)]
    vectors = [row for row in rows if "vector" in row["name"]]
    assert {row["shape"] for row in vectors} == {"64"}, "one row of W, not all of it"
    assert len(vectors) == ROUNDS


def three_classes(layout: Layout, run_id: str) -> None:
    """The map has its own damage type, the other project's, and neither; the project's own damage is of its own type."""
    own = int(layout.folder.stem == "water")
    found = damage_types.on_map(layout, run_id, choices.threshold(layout, run_id).value)
    assert tuple(one.name for one in found.types) == CLASSES[1:]
    scores, kinds = (np.asarray(runs.array(layout, run_id, name)) for name in ("scores", "type_scores"))
    assert scores[:N_DAMAGED].min() > scores[N_DAMAGED:].max(), "damaged, and rest"
    assert (kinds[:N_DAMAGED].argmax(1) == own).all(), "no building here has the type that only the other project knew"
    assert set(found.types[own].states[:N_DAMAGED]) == {"yes"}
    n_own, n_other = (one.states[:N_DAMAGED].count("yes") for one in (found.types[own], found.types[1 - own]))
    assert n_own > n_other
