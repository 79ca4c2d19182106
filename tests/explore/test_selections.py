"""Selections with a name are saved, replaced, removed and put back; and written as files."""

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest
from small_parts import add_chips, add_run, click, job_of

from pu_geo import jobs
from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.explore import selections
from pu_geo.maps import exporting
from pu_geo.maps.export_job import export_selection
from pu_geo.store.layout import Layout

RUN = "ranker-1"
IDS = [f"b{i}" for i in range(20)]


@pytest.fixture
def ranked(project: Layout) -> Layout:
    add_chips(project, IDS, size_px=64)
    click(project, "b4")
    add_run(project, RUN, at_event=1, n_positive=1, n_unlabeled=19)
    return project


def save(layout: Layout, name: str, ids: list[str]) -> int:
    return selections.save(layout, name, ids, run_id=RUN, analyst="ann")


def buildings(layout: Layout, name: str) -> list[str]:
    return next(each.facts["building_ids"] for each in selections.saved(layout) if each.name == name)


def test_a_removed_or_replaced_selection_can_be_put_back(project: Layout) -> None:
    assert not save(project, "roofs", ["b1", "b2"])
    assert not save(project, " walls ", ["b3"])
    assert [(each.name, buildings(project, each.name), each.analyst) for each in selections.saved(project)] == [
        ("walls", ["b3"], "ann"), ("roofs", ["b1", "b2"], "ann"),
    ]  # fmt: skip
    removed = selections.remove(project, "roofs", analyst="bob")
    assert [each.name for each in selections.saved(project)] == ["walls"]
    with pytest.raises(ProjectError, match="no selection 'roofs'"):
        selections.remove(project, "roofs", analyst="bob")
    assert selections.put_back(project, "roofs", decision=removed, analyst="bob") == 2
    assert buildings(project, "roofs") == ["b1", "b2"]
    replaced = save(project, "roofs", ["b9"])
    assert replaced, "there was one of this name"
    assert selections.put_back(project, "roofs", decision=replaced, analyst="ann") == 2
    assert buildings(project, "roofs") == ["b1", "b2"]
    now = selections.saved(project)[0]
    assert selections.put_back(project, "roofs", decision=now.decision, analyst="ann") == 1, "and back again"


def test_what_cannot_be_saved_removed_put_back_or_exported_is_refused(project: Layout, ranked: Layout) -> None:
    for act in (selections.remove, partial(selections.put_back, decision=1)):
        with pytest.raises(ProjectError, match="'roofs'"):
            act(project, "roofs", analyst="ann")
    save(project, "roofs", ["b1", "b2"])
    removed = selections.remove(project, "roofs", analyst="ann")
    selections.save(project, "roofs", ["b5"], run_id=RUN, analyst="bob")
    with pytest.raises(ProjectError, match="'roofs' was changed since, by bob"):
        selections.put_back(project, "roofs", decision=removed, analyst="ann")
    assert buildings(project, "roofs") == ["b5"]
    save(ranked, "roofs", ["b1"])
    selections.remove(ranked, "roofs", analyst="ann")
    for decision in (2, 77):
        with pytest.raises(PuGeoError, match=f"Decision {decision} saved no selection"):
            export_selection(job_of(ranked), run_id=RUN, decision=decision, formats=["csv"])


@pytest.mark.parametrize(("name", "ids"), [("roofs", []), ("", ["b1"]), ("x" * 61, ["b1"]), ("a\u202eb", ["b1"])])
def test_nothing_and_names_that_cannot_be_are_refused(project: Layout, name: str, ids: list[str]) -> None:
    with pytest.raises(ProjectError):
        save(project, name, ids)
    assert selections.saved(project) == []


def test_the_job_writes_what_the_damage_map_says_of_these_buildings_alone(
    ranked: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(ranked, "Dächer / west", ["b4", "b19", "b7"])
    asked: dict = {}
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: asked.update(task=task, args=args) or "job-1")
    assert exporting.start_selection(ranked, RUN, "Dächer / west") == "job-1"
    assert asked["task"] == "export_selection"
    json.dumps(asked["args"])
    save(ranked, "Dächer / west", ["b1"])  # since then; the job writes what was saved when it was asked for
    done = export_selection(job_of(ranked), **asked["args"])
    assert (done["n"], done["confirmed"]) == (3, 1)
    table, document = map(Path, done["out"])
    assert table.name == "1-dächer-west.csv"
    found = json.loads(document.read_text(encoding="utf-8"))
    assert {feature["id"] for feature in found["features"]} == {"b4", "b7", "b19"}
    assert found["pu_geo"]["selection"] == "Dächer / west"
    assert [feature["properties"]["triage"] for feature in found["features"] if feature["id"] == "b4"] == ["confirmed"]
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8-sig"))))
    told = json.loads(table.with_name(f"{table.stem}.run.json").read_text())
    assert told["counts"]["confirmed"] == sum(row["triage"] == "confirmed" for row in rows) > 0
    assert sum(told["counts"].values()) == len(rows) == 3
    assert told["title"].startswith("Selection Dächer / west of the damage map: ")
    assert told.keys().isdisjoint({"estimate", "audit"})
    whole = told["of_whole_map"]
    assert sum(whole["counts"].values()) == whole["estimate"]["N"] == 20
    assert whole["audit"] is None
