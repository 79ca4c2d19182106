"""The threshold of a run's map and what it flags; what is confirmed before a version is written is what it then says."""

import csv
import json
import zipfile
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import plain, show
from mapped_parts import RUN, N, answer_audit, say, say_checks
from small_parts import add_run, answer, click, facts_of, job_of, op_of, square_table

from pu_geo import jobs
from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import PuGeoError
from pu_geo.maps import areas, damage_map, exporting, run_card, thresholds
from pu_geo.maps.actions import AddAreas, Publish
from pu_geo.maps.exporting import State
from pu_geo.maps.publish_job import publish
from pu_geo.runs import training
from pu_geo.store import chosen, contents, runs, store
from pu_geo.store.layout import Layout


def scores_of(layout: Layout) -> Any:
    return np.asarray(runs.array(layout, RUN, "scores"), np.float64).round(4)


def test_a_threshold_flags_what_is_open_and_reaches_it(mapped: Layout) -> None:
    for building, label in (("b5", "positive"), ("b6", "not_damaged"), ("b7", "not_assessable")):
        say(mapped, building, label)
    with store.connect(mapped) as db:
        contents.add_footprints(db, square_table(N + 2))
    scores = scores_of(mapped)
    is_open = ~np.isin(np.arange(N), (0, 1, 5, 6, 7))
    limit = float(np.sort(scores[is_open])[-30])  # the 30th
    shown = damage_map.of_run(mapped, RUN, limit)
    assert shown.n == {"confirmed": 1, "flagged": 30, "not_flagged": N - 34, "not_assessed": 5}
    assert (shown.n_open, shown.n_later) == (N - 5, 2)
    kinds = dict(zip(shown.population.ids, shown.classes, strict=True))
    flagged = {f"b{row}" for row in np.flatnonzero(is_open & (scores >= limit))}
    assert {building for building, kind in kinds.items() if kind == "flagged"} == flagged
    assert [kinds[f"b{row}"] for row in (0, 5, 6, 7, N)] == [
        "not_assessed", "confirmed", "not_flagged", "not_assessed", "not_assessed",
    ]  # fmt: skip
    assert thresholds.top(shown, 30) == (pytest.approx(limit), "top:30")
    assert (thresholds.wanted_of("top:30"), chosen.basis_words("top:30")) == (30, "chosen by a person")
    assert damage_map.of_run(mapped, RUN, thresholds.top(shown, N - 5)).n["flagged"] == N - 5


def offer(layout: Layout, run_id: str = RUN) -> thresholds.Offer | None:
    return thresholds.offer(damage_map.of_run(layout, run_id))


def test_an_audit_offers_a_threshold_with_what_both_cost_and_changes_none(mapped: Layout) -> None:
    """Before: the map went from 30 to 106 flagged by itself once the checks ended."""
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), start_k=88)
    start = chosen.threshold(mapped, "ranker-2")
    assert start == (0.5, "start:88")
    assert "1 in" in auditing.plan(mapped, RUN).words
    check = random_audits.begin_audit(mapped, RUN, 250, "ann")
    say_checks(mapped, check, 200)
    assert offer(mapped, "ranker-2") is None, "more answers are to come"
    random_audits.end(mapped, check.id)
    told, found = auditing.how_many(mapped), offer(mapped)
    assert (chosen.threshold(mapped, "ranker-2"), chosen.threshold(mapped, RUN).value) == (start, 0.5), (
        "nothing changes unasked"
    )
    wanted = round(told.total.value) - told.confirmed
    assert (found.threshold.origin, found.n_flagged) == (f"audit:{check.id}", pytest.approx(wanted, abs=1))
    assert found.n_now == damage_map.of_run(mapped, RUN, 0.5).n["flagged"] != found.n_flagged
    here = auditing.at(mapped, RUN, 0.5)
    right = round(here.damaged.value)
    assert f"about {wanted:,} damaged beside the {told.confirmed:,} confirmed" in found.words
    assert (
        f"Now {found.n_now} flagged: about {right} of them damaged, {found.n_now - right} not, and about {wanted - right} damaged missed."
        in found.words
    )
    assert f"With its threshold {found.n_flagged} flagged" in found.words
    assert offer(mapped, "ranker-2").words == found.words, "another run of the same scores"
    with pytest.MonkeyPatch.context() as patch:
        for nothing in (replace(told, n_damaged=0), replace(told, confirmed=round(told.total.value))):
            patch.setattr(auditing, "how_many", lambda _, told=nothing: told)
            assert offer(mapped) is None, "no hit, or nothing left: nothing to recommend"
    chosen.choose_threshold(mapped, RUN, *found.threshold)
    assert damage_map.of_run(mapped, RUN).n["flagged"] == found.n_flagged
    assert offer(mapped) is None
    assert "as the accuracy assessment estimates it" in auditing.plan(mapped, RUN).words


def test_areas_are_read_by_a_job_and_a_map_is_named_in_words(
    mapped: Layout, started: list[tuple[str, dict[str, Any]]], tmp_path: Any
) -> None:
    jobs.start(mapped, AddAreas("/data/areas.geojson", "adm2"))
    assert started == [
        ("add_areas", {"path": "/data/areas.geojson", "layer": "adm2", "name_field": None, "code_field": None})
    ]
    with pytest.raises(PuGeoError, match="No file of areas"):
        AddAreas("", "adm2")
    assert (areas.area_layers(mapped), areas.last_summing_up(mapped, RUN)) == ({}, None)
    assert thresholds.newer_words(mapped, RUN) == []
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), created_at="2026-02-01T00:00:00.000Z")
    assert "ranker-2 is newer" in thresholds.newer_words(mapped, RUN)[0]
    facts = {"run_id": RUN, "threshold": 0.5, "method": "ncpu", "threshold_origin": "person", "audit_id": "check-1"}
    assert (
        thresholds.which_words(facts)
        == "Run ranker-1 (NcPU), threshold 0.5 (chosen by a person), accuracy assessment check-1."
    )
    assert thresholds.which_words({**facts, "audit_id": "no accuracy assessment"}).endswith(", no accuracy assessment.")


def write(layout: Layout, threshold: float = 0.5) -> None:
    args = Publish(("csv",), run=RUN, threshold=threshold).args(layout)
    publish(job_of(layout), **json.loads(json.dumps(args)))


def test_the_map_shown_is_what_the_version_then_says(mapped: Layout) -> None:
    for building, label in (("b5", "positive"), ("b6", "not_damaged"), ("b7", "not_assessable")):
        say(mapped, building, label)
    shown = damage_map.of_run(mapped, RUN, 0.5)
    assert (exporting.since_last(shown), shown.audit_words, len(shown.classes)) == (None, "", N)
    write(mapped)
    assert exporting.states_of(mapped, "v1") == exporting.states_now(shown)
    assert exporting.since_last(shown) == []
    (version,) = exporting.all_versions(mapped)
    assert (version["confirmed"], version["flagged"], version["not_assessed"]) == tuple(
        shown.n[kind] for kind in ("confirmed", "flagged", "not_assessed")
    )
    assert version["audit_id"] == "no accuracy assessment"
    report = (mapped.exports / "v1" / "report.html").read_text(encoding="utf-8")
    assert all(escape(words)[:200] in report for words in shown.cannot_say)


def test_what_changes_is_said_before_and_listed_after(mapped: Layout) -> None:
    say(mapped, "b5", "positive")
    write(mapped)
    shown = damage_map.of_run(mapped, RUN, 0.5)
    flagged = shown.population.ids[shown.classes.index("flagged")]
    say(mapped, flagged, "positive")
    click(mapped, "b5", label="positive", grade="major")
    not_graded = State("confirmed", "damaged_not_graded")
    expected = {("b5", not_graded, State("confirmed", "major")), (flagged, State("flagged"), not_graded)}
    assert set(exporting.since_last(damage_map.of_run(mapped, RUN, 0.5))) == expected
    write(mapped)
    found = exporting.difference(mapped, "v1", "v2")
    assert set(found) == expected
    assert {n for *_, n in exporting.counted(found)} == {1}
    assert set(exporting.difference(mapped, "v2", "v1")) == {(one, after, before) for one, before, after in expected}
    assert ["b5", "damage_class", "damaged_not_graded", "major"] in changes_of(mapped, "v2")
    (mapped.exports / "v1" / "state.json.gz").unlink()
    with pytest.raises(PuGeoError, match="v1 cannot be compared"):
        exporting.difference(mapped, "v1", "v2")


def changes_of(layout: Layout, version: str) -> list[list[str]]:
    with (layout.exports / version / "changes.csv").open(encoding="utf-8-sig") as stream:
        return [list(row.values()) for row in csv.DictReader(stream)]


def test_what_the_map_cannot_say_follows_from_the_data(mapped: Layout) -> None:
    told = " ".join(damage_map.of_run(mapped, RUN, 0.5).cannot_say)
    no_number = "no number of damaged buildings is estimated"
    for words in (
        "Preliminary, not field-validated.", "Without an accuracy assessment", no_number, "2 of 400 buildings", "5 damaged buildings only",
        "There is no picture from before the event", "The date of the pictures after the event is not known.",
    ):  # fmt: skip
        assert words in told
    for word in ("simulated", "disagree", "warns", "unfinished", "no grade", "hardly tells", "score below"):
        assert word not in told
    for name, label in (("ann", "positive"), ("bob", "positive"), ("cy", "not_damaged")):
        say(mapped, "b6", label, analyst=name)
    answer(mapped, op_of("b5"), kind="simulated")
    strict = " ".join(damage_map.of_run(mapped, RUN, 1.0).cannot_say)
    for words in (
        "1 of 1 confirmed buildings score below the threshold", "On 1 buildings people disagree", "1 answers are simulated",
        "1 buildings that people marked damaged have no grade",
    ):  # fmt: skip
        assert words in strict
    assert "hardly tells" in " ".join(damage_map.of_run(mapped, RUN, 0.0).cannot_say)
    check = answer_audit(mapped, 200)
    chosen.choose_threshold(mapped, RUN, 0.6, f"audit:{check.id}")
    found = damage_map.of_run(mapped, RUN)
    assert "200 checks count, precision " in found.audit_words
    assert not [gap for gap in found.cannot_say if "Without an accuracy assessment" in gap]
    add_run(mapped, "ranker-2", like=RUN, warnings=("Loss is odd.",))
    told = " ".join(damage_map.of_run(mapped, "ranker-2", 0.5).cannot_say)
    assert "Without an accuracy assessment" in told
    assert "The method warns: Loss is odd." in told
    assert no_number not in told, "other checks estimate it"


def test_no_other_file_is_handed_out(mapped: Layout, tmp_path: Path) -> None:
    write(mapped)
    folder = mapped.exports / "v1"
    (mapped.exports / "secret").write_text("x")
    (folder / "link.csv").symlink_to(mapped.gpkg)
    assert exporting.version_file(mapped, "v1", "damage_map.csv").is_file()
    for version, name in (
        ("v1", "../v1/damage_map.csv"), ("v1", "..%2fsecret"), ("v1", ".lock"), ("v1", ""), ("..", "secret"), ("v01", "damage_map.csv"),
        ("v2", "damage_map.csv"), ("v1", "link.csv"), ("v1", "sub/damage_map.csv"),
    ):  # fmt: skip
        assert exporting.version_file(mapped, version, name) is None, (version, name)
    assert exporting.write_zip(mapped, "v1", tmp_path / "v1.zip")
    with zipfile.ZipFile(tmp_path / "v1.zip") as zipped:
        names = {Path(name).name for name in zipped.namelist()}
    assert {"damage_map.csv", "report.html", "version.json"} <= names
    assert "link.csv" not in names
    assert not exporting.write_zip(mapped, "v9", tmp_path / "v9.zip")


@pytest.mark.parametrize("stands", ["high", "low", "not checked"])
def test_what_held_out_clicks_say_of_a_run_goes_with_it_everywhere(mapped: Layout, stands: str) -> None:
    facts = {"n_clicks": 10, "place": 0.42, "low": 0.2, "high": 0.64, "lowest": 0.8, "is_weak": stands == "low"}
    add_run(
        mapped, "seen", like=RUN, scores=scores_of(mapped), start_k=20, evidence=None if stands == "not checked" else facts
    )
    run = facts_of(mapped, "seen")
    words = training.evidence_words(run)
    assert ("stand in the middle" in words, "was not checked" in words) == (stands == "low", stands == "not checked")
    assert (words in damage_map.of_run(mapped, "seen").cannot_say) == (stands != "high")
    assert words in run_card.as_markdown(run_card.card(mapped, "seen"))
    assert words in plain(show("train", mapped))
    folder = Path(str(publish(job_of(mapped, "publish"), run_id="seen", formats=["geojson"], threshold=0.5)["out"]))
    assert (words in (folder / "report.html").read_text()) == (stands != "high")
    assert json.loads((folder / "damage_map.run.json").read_text())["ranking_evidence"] == run.evidence
