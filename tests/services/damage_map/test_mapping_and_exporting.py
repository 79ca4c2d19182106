"""The threshold of a run's map and what it flags; what is confirmed before a version is written is what it then says."""

from __future__ import annotations

import csv
import json
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mapped_parts import RUN, N, answer_audit, say, say_checks
from small_parts import add_run, click, job_of, small_project, square_table

from pu_geo.errors import PuGeoError
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import auditing, exporting, mapping, random_audits
from pu_geo.services.damage_map.mapping import ThresholdView
from pu_geo.services.project import choices
from pu_geo.tasks.damage_map.publish import publish


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
    counts = {"n_flagged": 30, "n_confirmed": 1, "n_not_assessed": 3, "n_open": N - 5, "n_later": 2}
    assert mapping.at_threshold(mapped, RUN, limit) == ThresholdView(n=N, **counts)
    kinds = mapping.classes_now(mapped, RUN, limit)
    flagged = {f"b{row}" for row in np.flatnonzero(is_open & (scores >= limit))}
    assert {building for building, kind in kinds.items() if kind == "flagged"} == flagged
    assert [kinds[f"b{row}"] for row in (0, 5, 6, 7, N)] == [
        "not_assessed", "confirmed", "not_flagged", "not_assessed", "not_assessed",
    ]  # fmt: skip
    assert mapping.top(mapped, RUN, 30) == (pytest.approx(limit), "top:30")
    assert (mapping.wanted_of("top:30"), mapping.basis_words("top:30")) == (30, "chosen by a person")
    assert mapping.at_threshold(mapped, RUN, mapping.top(mapped, RUN, N - 5).value).n_flagged == N - 5
    for k in (0, N - 4, True, 2.0):
        with pytest.raises(PuGeoError, match=f"top {k} buildings"):
            mapping.top(mapped, RUN, k)
    with pytest.raises(PuGeoError, match="both asked for"):
        mapping.map_arguments(mapped, RUN, 0.5, 30)
    own = {"run_id": RUN, "threshold": 0.5, "threshold_origin": choices.threshold(mapped, RUN).origin}
    assert mapping.map_arguments(mapped, RUN, None) == mapping.map_arguments(mapped, RUN, 0.50001) == own
    assert mapping.map_arguments(mapped, RUN, 0.61234) == {**own, "threshold": 0.6123, "threshold_origin": "person"}
    published = mapping.publish_arguments(mapped, RUN, None, ("csv",), ("xbd",), local=True, top=30)
    found = {"run_id": RUN, "threshold": pytest.approx(limit), "threshold_origin": "top:30"}
    assert published == {**found, "formats": ["csv"], "profiles": ["xbd"], "local": True}


def test_an_audit_offers_a_threshold_with_what_both_cost_and_changes_none(mapped: Layout) -> None:
    """Before: the map went from 30 to 106 flagged by itself once the checks ended."""
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), start_k=88)
    start = choices.threshold(mapped, "ranker-2")
    assert start == (0.5, "start:88")
    assert "1 in" in auditing.plan(mapped, RUN).words
    check = random_audits.begin_audit(mapped, RUN, 250, "ann")
    say_checks(mapped, check, 200)
    assert mapping.offer(mapped, "ranker-2") is None, "more answers are to come"
    random_audits.end(mapped, check.id)
    told, found = auditing.how_many(mapped), mapping.offer(mapped, RUN)
    assert (choices.threshold(mapped, "ranker-2"), choices.threshold(mapped, RUN).value) == (start, 0.5), (
        "nothing changes unasked"
    )
    wanted = round(told.total.value) - told.confirmed
    assert (found.threshold.origin, found.n_flagged) == (f"audit:{check.id}", pytest.approx(wanted, abs=1))
    assert found.n_now == mapping.at_threshold(mapped, RUN, 0.5).n_flagged != found.n_flagged
    here = auditing.at(mapped, RUN, 0.5)
    right = round(here.damaged.value)
    assert f"about {wanted:,} damaged beside the {told.confirmed:,} confirmed" in found.words
    assert (
        f"Now {found.n_now} flagged: about {right} of them damaged, {found.n_now - right} not, and about {wanted - right} damaged missed."
        in found.words
    )
    assert f"With its threshold {found.n_flagged} flagged" in found.words
    assert mapping.offer(mapped, "ranker-2").words == found.words, "another run of the same scores"
    with pytest.MonkeyPatch.context() as patch:
        for nothing in (replace(told, n_damaged=0), replace(told, confirmed=round(told.total.value))):
            patch.setattr(auditing, "how_many", lambda _, told=nothing: told)
            assert mapping.offer(mapped, RUN) is None, "no hit, or nothing left: nothing to recommend"
    choices.choose_threshold(mapped, RUN, *found.threshold)
    assert mapping.at_threshold(mapped, RUN, found.threshold.value).n_flagged == found.n_flagged
    assert mapping.offer(mapped, RUN) is None
    assert "as random checks estimate it" in auditing.plan(mapped, RUN).words


def test_jobs_on_a_map_are_started_with_its_run_and_threshold(
    mapped: Layout, started: list[tuple[str, dict[str, Any]]], tmp_path: Any
) -> None:
    args = mapping.map_arguments(mapped, RUN, 0.6)
    mapping.start_publish(mapped, RUN, 0.6, ["csv"], [], local=False)
    mapping.start_summing_up(mapped, RUN, 0.6, 250)
    mapping.start_adding_areas(mapped, "/data/areas.geojson", "adm2")
    assert started == [
        ("publish", {**args, "formats": ["csv"], "profiles": [], "local": False}),
        ("sum_up", {**args, "cell_m": 250}),
        ("add_areas", {"path": "/data/areas.geojson", "layer": "adm2"}),
    ]
    with pytest.raises(PuGeoError, match="No file of areas"):
        mapping.start_adding_areas(mapped, "", "adm2")
    assert mapping.has_place(small_project(tmp_path / "here.pugeo"))
    assert (mapping.area_layers(mapped), mapping.last_summing_up(mapped, RUN), mapping.published(mapped)) == ({}, None, [])
    assert mapping.newer_words(mapped, RUN) == []
    add_run(mapped, "ranker-2", like=RUN, scores=scores_of(mapped), created_at="2026-02-01T00:00:00.000Z")
    assert "ranker-2 is newer" in mapping.newer_words(mapped, RUN)[0]
    facts = {"run_id": RUN, "threshold": 0.5, "method": "ncpu", "threshold_origin": "person", "audit_id": "check-1"}
    assert mapping.which_words(facts) == "Run ranker-1 (NcPU), threshold 0.5 (chosen by a person), audit check-1."
    assert mapping.which_words({**facts, "audit_id": "not audited"}).endswith(", not audited.")


def write(layout: Layout, threshold: float = 0.5) -> None:
    args = mapping.publish_arguments(layout, RUN, threshold, ("csv",), ())
    publish(job_of(layout), **json.loads(json.dumps(args)))


def test_the_summary_is_what_the_version_then_says(mapped: Layout) -> None:
    for building, label in (("b5", "positive"), ("b6", "not_damaged"), ("b7", "not_assessable")):
        say(mapped, building, label)
    found = exporting.summary(mapped, RUN, 0.5)
    assert (found.number, found.before, found.audit) == (1, None, "")
    assert sum(found.n.values()) == N
    write(mapped)
    made = Counter(exporting.classes_of(mapped, "v1").values())
    assert dict(made) == dict(found.n)
    assert exporting.classes_of(mapped, "v1") == exporting.classes_now(mapped, RUN, 0.5)
    (version,) = exporting.all_versions(mapped)
    assert (version.confirmed, version.flagged, version.not_assessed) == tuple(
        found.n[kind] for kind in ("confirmed", "flagged", "not_assessed")
    )
    assert version.is_audited is False


def test_what_changes_is_said_before_and_listed_after(mapped: Layout) -> None:
    write(mapped)
    now = exporting.classes_now(mapped, RUN, 0.5)
    flagged = next(building for building, kind in now.items() if kind == "flagged")
    say(mapped, flagged, "positive")
    found = exporting.summary(mapped, RUN, 0.5)
    assert (found.number, found.before, dict(found.changes)) == (2, "v1", {"newly_confirmed": 1})
    write(mapped)
    (one,) = exporting.difference(mapped, "v1", "v2")
    assert (one.building_id, one.change, one.before, one.after) == (flagged, "newly_confirmed", "flagged", "confirmed")
    (back,) = exporting.difference(mapped, "v2", "v1")
    assert back.change == "no_longer_confirmed"
    (mapped.exports / "v1" / "state.json.gz").unlink()
    with pytest.raises(PuGeoError, match="v1 cannot be compared"):
        exporting.difference(mapped, "v1", "v2")


def test_a_grade_that_changed_is_a_change_of_the_map(mapped: Layout) -> None:
    say(mapped, "b5", "positive")
    write(mapped)
    click(mapped, "b5", label="positive", grade="major")
    assert dict(exporting.summary(mapped, RUN, 0.5).changes) == {"graded_anew": 1}
    write(mapped)
    (one,) = exporting.difference(mapped, "v1", "v2")
    assert (one.building_id, one.change, one.grades) == ("b5", "graded_anew", ("damaged_not_graded", "major"))
    assert changes_of(mapped, "v2") == [["b5", "damage_class", "damaged_not_graded", "major"]]


def changes_of(layout: Layout, version: str) -> list[list[str]]:
    with (layout.exports / version / "changes.csv").open(encoding="utf-8-sig") as stream:
        return [list(row.values()) for row in csv.DictReader(stream)]


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ("confirmed", ["", "no_longer_confirmed", "no_longer_confirmed", "no_longer_assessed", "removed"]),
        ("flagged", ["newly_confirmed", "", "no_longer_flagged", "no_longer_assessed", "removed"]),
        ("not_flagged", ["newly_confirmed", "newly_flagged", "", "no_longer_assessed", "removed"]),
        ("not_assessed", ["newly_confirmed", "newly_flagged", "newly_assessed", "", "removed"]),
        (None, ["added", "added", "added", "added", ""]),
    ],
)
def test_each_change_has_one_name(before: exporting.Class | None, changes: list[str]) -> None:
    assert [exporting.change_of(before, after) or "" for after in (*exporting.CLASSES, None)] == changes


def test_gaps_name_what_the_map_cannot_say(mapped: Layout) -> None:
    told = " ".join(exporting.summary(mapped, RUN, 0.5).gaps)
    no_number = "no number of damaged buildings is estimated"
    for words in ("Without an audit", no_number, "2 of 400 buildings", "5 damaged buildings only"):
        assert words in told
    say(mapped, "b5", "positive")
    strict = " ".join(exporting.summary(mapped, RUN, 1.0).gaps)
    assert "1 of 1 confirmed buildings score below the threshold" in strict
    check = answer_audit(mapped, 200)
    choices.choose_threshold(mapped, RUN, 0.6, f"audit:{check.id}")
    found = exporting.summary(mapped, RUN, 0.6)
    assert (found.basis, check.id in found.audit) == ("set from the accuracy assessment", False)
    assert "200 random checks count, precision " in found.audit
    assert not [gap for gap in found.gaps if "Without an audit" in gap]
    add_run(mapped, "ranker-2", like=RUN)
    told = " ".join(exporting.summary(mapped, "ranker-2", 0.5).gaps)
    assert "Without an audit" in told
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
