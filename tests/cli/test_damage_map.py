"""The command line exports the map that was chosen, and says which one it is."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_parts import CommandLine
from mapped_parts import RUN, TRUTH, answer_audit, mapped_project
from small_parts import add_run
from typed_parts import TYPED, TYPES, name_types, typed_project

from pu_geo.store import chosen as choices
from pu_geo.store.layout import Layout

N = 120


@pytest.fixture
def mapped(tmp_path: Path) -> Layout:
    return mapped_project(tmp_path, N)


def newer_run(layout: Layout, run_id: str = "ranker-2") -> None:
    """What `pu-geo rank` leaves behind: a run with other scores, and with another threshold."""
    scores = np.random.default_rng(3).random(N)
    add_run(layout, run_id, scores=scores, like=RUN, created_at="2026-03-01T00:00:00.000Z", threshold=0.1)


def test_chosen_run_and_threshold_are_exported_published_audited(mapped: Layout, tmp_path: Path, run: CommandLine) -> None:
    newer_run(mapped)
    chosen = {"run_id": RUN, "threshold": 0.3, "threshold_origin": "person", "audit_id": "not audited"}
    found = run.json("choose", mapped.folder, "--run", RUN, "--threshold", "0.3")
    assert found == {"method": "ranker", "why": "person", **chosen}
    which = f"Run {RUN} (Instant ranker), threshold 0.3 (chosen by a person), no accuracy assessment."
    newer = "Run ranker-2 is newer and not shown; `pu-geo choose event.pugeo --run latest` makes it the map."
    assert run.text("choose", mapped.folder) == f"{which} It is chosen by a person.\n{newer}\n"
    assert which in run.text("export", mapped.folder, "--out", tmp_path / "map.csv", "--format", "csv")
    side = json.loads((tmp_path / "map.run.json").read_text())
    assert chosen.items() <= side.items()
    assert which in run.text("publish", mapped.folder, "--formats", "csv")
    published = mapped.exports / "v1"
    with (published / "damage_map.csv").open(encoding="utf-8-sig") as stream:
        assert {(row["run_id"], row["threshold"]) for row in csv.DictReader(stream)} == {(RUN, "0.3")}
    assert "flagged from 0.3 on (chosen by a person; no accuracy assessment)" in (published / "report.html").read_text()
    version = json.loads((published / "version.json").read_text())
    assert (version["threshold_origin"], version["audit_id"]) == ("person", "not audited")
    check = answer_audit(mapped, 30)
    assert f"threshold 0.3 (chosen by a person), accuracy assessment {check.id}." in run.text("audit", mapped.folder)
    assert run.json("choose", mapped.folder, "--run", "auto")["why"] == "published"


def test_the_top_k_are_chosen_exported_and_published(mapped: Layout, tmp_path: Path, run: CommandLine) -> None:
    assert run.json("choose", mapped.folder, "--top", "30")["threshold_origin"] == "top:30"
    assert "(top 30 buildings: chosen by a person)" in run.text("choose", mapped.folder)
    out = ("--format", "csv", "--out", tmp_path / "m.csv")
    assert run.json("export", mapped.folder, *out)["flagged"] == 30
    assert run.json("export", mapped.folder, "--top", "12", *out)["flagged"] == 12
    assert run.json("publish", mapped.folder, "--formats", "csv", "--top", "7")["threshold_origin"] == "top:7"
    assert (
        "(top 7 buildings: chosen by a person; no accuracy assessment)"
        in (mapped.exports / "v1" / "report.html").read_text()
    )
    assert "both asked for" in run.refused("choose", mapped.folder, "--top", "7", "--threshold", "0.5")
    assert "top 4000 buildings" in run.refused("export", mapped.folder, "--top", "4000", *out)


def test_a_threshold_given_to_an_export_alone_is_said_and_not_kept(mapped: Layout, tmp_path: Path, run: CommandLine) -> None:
    export = ("export", mapped.folder, "--out", tmp_path / "map.geojson")
    assert "threshold 0.2 (chosen by a person)" in run.text(*export, "--threshold", "0.2")
    assert "threshold 0.5 (the run's own)" in run.text(*export)
    run.json("publish", mapped.folder, "--formats", "csv", "--threshold", "0.2")
    assert "threshold 0.2 (chosen by a person)" in run.text(*export), "what was published is the map from then on"


def test_every_verb_that_takes_a_run_takes_the_chosen_one(mapped: Layout, run: CommandLine) -> None:
    newer_run(mapped)
    run.json("choose", mapped.folder, "--run", RUN)
    truth = ("--field", "damage", "--positive", "destroyed")
    assert run.json("evaluate", mapped.folder, *truth)["run_id"] == RUN
    assert run.json("evaluate", mapped.folder, *truth, "--run", "latest")["run_id"] == "ranker-2"
    assert run.json("compare", mapped.folder, "--runs", "chosen", "latest")["runs"][0]["run_id"] == RUN


def test_a_damage_type_has_a_threshold_of_its_own(tmp_path: Path, run: CommandLine) -> None:
    layout = typed_project(tmp_path)
    name_types(layout, [row for row in np.flatnonzero(TRUTH).tolist() if row > 1][:25])
    choose = ("choose", layout.folder, "--run", TYPED)
    before = run.json(*choose)
    assert [one["name"] for one in before["types"]] == list(TYPES)
    assert before["types"][0]["threshold_origin"].startswith("start:")
    after = run.json(*choose, "--type", "roof", "--threshold", "0.4")
    assert (after["types"][0]["threshold"], after["threshold"]) == (0.4, before["threshold"])
    assert "Threshold 0.4000: chosen by a person." in run.text(*choose)
    assert run.json(*choose, "--type", "roof", "--top", "3")["types"][0]["by_score"] == 3
    out = tmp_path / "map.csv"
    assert "roof: " in run.text("export", layout.folder, "--run", TYPED, "--format", "csv", "--out", out)
    with out.open(encoding="utf-8-sig") as stream:
        flagged = sum(row["type_roof"] == "yes" for row in csv.DictReader(stream))
    assert flagged == 3 + after["types"][0]["by_people"]


def test_what_is_refused_leaves_the_chosen_run_as_it_was(tmp_path: Path, run: CommandLine) -> None:
    layout = typed_project(tmp_path)
    choices.choose_run(layout, RUN)
    typed = ("--run", TYPED, "--type", "roof")
    for options, problem in (
        (("--run", TYPED, "--type", "wall", "--threshold", "0.4"), "no damage type 'wall'; it has: roof"),
        (typed, "was named without a threshold"),
        ((*typed, "--threshold", "7"), "between 0 and 1"),
        ((*typed, "--top", "4000"), "4000"),
        (("--run", TYPED, "--top", "4000"), "4000"),
        (("--run", "auto", "--type", "roof"), "roof"),
    ):
        assert problem in run.refused("choose", layout.folder, *options)
        assert (choices.why_chosen(layout), choices.run(layout, "chosen").run_id) == ("person", RUN), options
    run.json("choose", layout.folder, *typed, "--threshold", "0.4")
    assert choices.run(layout, "chosen").run_id == TYPED
