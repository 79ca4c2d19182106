"""From an island of dots to the exported map: labels, an accepted cluster and a named group, all through the real app."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser.damage_view_steps import settle
from browser.make_project import make_project
from browser.real_app import DIM, AppServer, made_up_project
from browser.test_explore import chosen, dots, lasso, marked_on_map, open_explore
from browser.test_training import until

from pu_geo import jobs
from pu_geo.project import labels, pseudo_positives, runs, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout, write_array
from pu_geo.records import RunFacts
from pu_geo.services.explore import discovering

pytestmark = [pytest.mark.browser, pytest.mark.slow]
N, SECONDS = 240, 240.0
INTACT, COLLAPSED, TARPS = 0, 1, 2
NAME = "blue <b>tarps</b>"


@dataclass(frozen=True)
class Event:
    """A served project whose buildings look alike in three kinds; some of the collapsed ones are clicked."""

    address: str
    layout: Layout
    ids: list[str]
    kinds: np.ndarray

    def of_kind(self, kind: int) -> set[str]:
        return {building for building, own in zip(self.ids, self.kinds, strict=True) if own == kind}

    def stored(self) -> dict[str, str]:
        with store.connect(self.layout) as db:
            return dict(labels.current_labels(db))

    def ranked(self) -> RunFacts:
        """Rank by a real job; return the new run."""
        job = jobs.wait(self.layout, jobs.start(self.layout, "rank", {}), seconds=SECONDS)
        assert job.state == "done", job.problem
        with store.connect(self.layout) as db:
            return runs.find(db, str(job.result["run_id"]))


@pytest.fixture(scope="module")
def event(chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Event]:
    folder = tmp_path_factory.mktemp("whole-way")
    pictures = make_project(folder / "pictures", n=N, side=512, chip_px=32)
    ids = json.loads((pictures / "quicklooks" / "footprints.json").read_text())["ids"]
    layout = made_up_project(folder / "event.pugeo", ids, pictures=pictures)
    kinds = np.array([INTACT, INTACT, COLLAPSED, INTACT, TARPS, INTACT])[np.arange(N) % 6]
    _give_looks(layout, ids, kinds)
    with AppServer(folder / "home", project=layout) as app:
        yield Event(app.address, layout, ids, kinds)


def _give_looks(layout: Layout, ids: list[str], kinds: np.ndarray) -> None:
    """Part the kinds in the features, click collapsed ones, and take back what the project was made with."""
    rng = np.random.default_rng(0)
    looks = rng.normal(size=(2, N, DIM))
    for kind in (COLLAPSED, TARPS):
        looks[:, kinds == kind, 8 * kind : 8 * kind + 8] += 4.0
    write_array(layout.features("main"), looks.astype(np.float16))
    clicked = [ids[row] for row in np.flatnonzero(kinds == COLLAPSED)[:12]]
    intact = [ids[row] for row in np.flatnonzero(kinds == INTACT)[:12]]
    with store.connect(layout) as db:
        ops = [LabelOp(f"away-{building}", building, "cleared") for building in labels.current_labels(db)]
        ops += [LabelOp(f"click-{building}", building, "positive") for building in clicked]
        ops += [LabelOp(f"intact-{building}", building, "not_damaged") for building in intact]
        assert not [ack.error for ack in labels.append(db, ops, analyst="before", screen="map") if ack.error]


def newest(event: Event, task: str) -> jobs.JobView:
    """Wait for the job that a button started, and for its end."""
    begun = until(lambda: next((job for job in jobs.all_jobs(event.layout) if job.task == task), None))
    ended = jobs.wait(event.layout, begun.job_id, seconds=SECONDS)
    assert ended.state == "done", (ended.problem, (event.layout.jobs / begun.job_id / "log.txt").read_text())
    return ended


def test_from_an_island_to_the_exported_map(chromium_page, event: Event, screenshots: Path) -> None:
    page, first = chromium_page, event.ranked()
    before, shot = event.stored(), _camera(page, screenshots)
    assert first.n_accepted == 0
    _label_an_island_and_undo(page, event, shot)
    taken = _accept_a_cluster(page, event, shot)
    named = _name_a_group(page, event, shot)
    shot("neighbors", lambda: _look_into(page, "Neighbors"))
    shot("outliers", lambda: _look_into(page, "Outliers"))
    assert event.stored() == before, "neither a cluster nor a name is an answer of a person"

    second = event.ranked()
    assert (second.n_positive, second.n_accepted) == (first.n_positive, len(taken))
    told = _exported(page, event, second, shot)
    rows = {each["properties"]["building_id"]: each["properties"] for each in told["features"]}
    assert {building for building, row in rows.items() if row["discovered_type"] == NAME} == named
    assert {row["discovered_type"] for row in rows.values()} == {NAME, None}
    assert all(rows[building]["label"] is None and not rows[building]["damage_types"] for building in taken)
    assert told["pu_geo"]["n_accepted_from_clusters"] == len(taken)
    assert told["pu_geo"]["n_positive_clicks"] == 12
    assert any(f"{len(taken)} buildings of accepted clusters" in words for words in told["pu_geo"]["run_warnings"])


def _camera(page: Any, folder: Path) -> Callable[..., None]:
    def shot(name: str, after: Callable[[], object] = lambda: None) -> None:
        after()
        page.set_viewport_size({"width": 1400, "height": 2300})  # the page scrolls in a part of its own
        page.wait_for_timeout(1_500)
        page.screenshot(path=folder / f"whole_way_{name}.png")
        page.set_viewport_size({"width": 1400, "height": 900})

    return shot


def _label_an_island_and_undo(page: Any, event: Event, shot: Callable[..., None]) -> None:
    """Lasso the tarps, see them on map and wall, call them damaged, and take that back."""
    before, island = event.stored(), event.of_kind(TARPS)
    open_explore(page, event)
    lasso(page, dots(page, island))
    page.wait_for_timeout(300)
    assert chosen(page) == island
    assert set(page.evaluate("window.__pugeo.wallIds()")) == island
    assert marked_on_map(page, set(event.ids)) == island
    page.get_by_role("button", name=f"Save {len(island)} buildings").wait_for(timeout=30_000)
    page.keyboard.press("1")
    settle(page, 30)
    assert event.stored() == {**before, **dict.fromkeys(island, "positive")}
    shot("lasso")
    page.keyboard.press("Control+z")
    settle(page, 30)
    assert event.stored() == before
    page.keyboard.press("Escape")


def _look_into(page: Any, panel: str) -> None:
    page.get_by_role("radio", name=panel).or_(page.get_by_role("button", name=panel, exact=True)).first.click()


def _accept_a_cluster(page: Any, event: Event, shot: Callable[..., None]) -> set[str]:
    """Cluster the run, and accept the cluster with the largest share of clicks; return what was accepted."""
    _look_into(page, "PUPL clusters")
    page.locator(".st-key-cluster-start button").click(timeout=60_000)
    newest(event, "cluster")
    accept = page.locator(".st-key-cluster-accept button:visible")
    accept.first.wait_for(timeout=60_000)
    shot("clusters")
    n = int(accept.inner_text().rpartition("(")[2].rstrip(") "))
    accept.click()
    page.get_by_text(f"Next run: 12 positives + {n} accepted").wait_for(timeout=60_000)
    shot("accepted")
    with store.connect(event.layout) as db:
        taken = pseudo_positives.accepted_ids(db)
    assert len(taken) == n > 3
    assert taken <= event.of_kind(COLLAPSED) - set(event.stored())
    return taken


def _name_a_group(page: Any, event: Event, shot: Callable[..., None]) -> set[str]:
    """Look for further kinds, and name the group that holds the tarps; return its buildings."""
    _look_into(page, "Discovered types")
    page.locator(".st-key-types-seeds input").fill("1")
    page.locator(".st-key-types-groups input").fill("3")
    page.locator(".st-key-types-groups input").press("Enter")
    page.wait_for_timeout(700)
    page.locator(".st-key-types-start button").click()
    done = newest(event, "discover").result
    page.get_by_role("button", name="Drop", exact=True).nth(2).wait_for(timeout=60_000)
    shot("types")
    groups = discovering.proposal(event.layout, str(done["discovery"])).shown
    inside = [set(group.building_ids) for group in groups]
    place = max(range(3), key=lambda i: len(inside[i] & event.of_kind(TARPS)))
    assert len(inside[place] ^ event.of_kind(TARPS)) <= 4, "the kind that nobody clicked is found"
    page.get_by_role("button", name="Name", exact=True).nth(place).click()
    page.get_by_role("textbox", name="What is it?").fill(NAME)
    page.get_by_role("button", name="Save", exact=True).last.click()
    until(lambda: NAME in discovering.types(event.layout), 30)
    page.get_by_text(NAME).first.wait_for(timeout=30_000)  # as it was written, and no bold word
    shot("named")
    return inside[place]


def _exported(page: Any, event: Event, run: RunFacts, shot: Callable[..., None]) -> dict[str, Any]:
    """Export the run's map on its screen; return what the GeoJSON holds."""
    page.goto(f"{event.address}/damage_map")
    page.get_by_role("tab", name="Export").click(timeout=60_000)
    page.get_by_role("button", name="Export the next version").click()
    job = newest(event, "publish")
    assert job.args["run_id"] == run.run_id
    shot("export")
    return json.loads((Path(str(job.result["out"])) / "damage_map.geojson").read_text(encoding="utf-8"))
