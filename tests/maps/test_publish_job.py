"""Versions of the damage map: whole, numbered, compared with the one before, and telling no more than the audit does."""

import csv
import json
import os
import signal
from pathlib import Path

import numpy as np
import pyogrio
import pytest
from mapped_parts import RUN, TRUTH, N, answer_audit, mapped_project, say
from small_parts import click, job_of, unheld_job

from pu_geo.answers.import_labels_job import import_labels
from pu_geo.assessment import auditing
from pu_geo.errors import PuGeoError
from pu_geo.geo.export import exporters
from pu_geo.jobs import worker
from pu_geo.maps.actions import Publish
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.maps.publish_job import FILE_NAMES, publish
from pu_geo.store import grades, labels, runs, store, versions
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout


def write(layout: Layout, *formats: str, profiles: tuple[str, ...] = (), threshold: float | None = 0.5) -> dict[str, object]:
    args = Publish(formats or ("geojson-full",), profiles=profiles, run="latest", threshold=threshold).args(layout)
    return publish(job_of(layout), **json.loads(json.dumps(args)))


def features(layout: Layout, version: str) -> dict[str, dict]:
    document = json.loads((layout.exports / version / FILE_NAMES["geojson-full"]).read_text(encoding="utf-8"))
    return {feature["id"]: feature["properties"] for feature in document["features"]}


def test_a_version_holds_all_that_belongs_to_it(mapped: Layout) -> None:
    made = write(mapped, *exporters.EXPORTERS, profiles=("copernicus", "unosat"))
    folder = mapped.exports / "v1"
    assert made["out"] == str(folder)
    names = {path.name for path in folder.iterdir()}
    assert {FILE_NAMES[name] for name in exporters.EXPORTERS} <= names
    assert {"damage_map.codebook.csv", "damage_map.run.json", "version.json", "report.html"} <= names
    assert {"areas_grid500m.csv", "areas_grid500m.geojson"} <= names
    assert sorted(names) == sorted(made["files"])
    table = pyogrio.read_dataframe(folder / "damage_map.gpkg", layer="damage_map")
    assert len(table) == N
    assert set(table["product_version"]) == {"v1"}
    assert "ems_class" in table


def test_the_short_geojson_says_as_honestly_what_the_full_one_says_in_at_most_15_columns(mapped: Layout) -> None:
    say(mapped, "b5", "positive")
    write(mapped, "geojson", "geojson-full", profiles=("copernicus",))
    folder, full = mapped.exports / "v1", features(mapped, "v1")
    document = json.loads((folder / FILE_NAMES["geojson"]).read_text(encoding="utf-8"))
    short = {feature["id"]: feature["properties"] for feature in document["features"]}
    columns = set(short["b5"])
    assert len(columns - {"ems_class"}) <= 15
    assert short == {building: {name: row[name] for name in columns} for building, row in full.items()}
    honest = {
        "assessed",
        "not_assessed_reason",
        "damage_binary",
        "damage_class",
        "triage",
        "label",
        "score",
        "p_low",
        "ems_class",
    }
    assert honest <= columns
    assert document["pu_geo"] == json.loads((folder / "damage_map.run.json").read_bytes())
    with (folder / "damage_map.codebook.csv").open(encoding="utf-8-sig") as stream:
        assert {row["field"] for row in csv.DictReader(stream) if row["in_short_geojson"] == "yes"} == columns


def test_the_next_version_says_what_changed(mapped: Layout) -> None:
    assert write(mapped)["n_changes"] is None
    before = features(mapped, "v1")
    low = next(building for building, row in before.items() if row["triage"] == "below")
    say(mapped, low, "positive")
    again = write(mapped)
    assert again["version"] == "v2"
    with (mapped.exports / "v2" / "changes.csv").open(encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream))
    assert (again["n_changes"], len(rows)) == (1, 4)
    assert {(row["building_id"], row["field"], row["before"], row["after"]) for row in rows} == {
        (low, "damage_binary", "not_flagged", "damaged"),
        (low, "triage", "below", "confirmed"),
        (low, "label", "", "damaged"),
        (low, "damage_class", "", "damaged_not_graded"),
    }
    assert [facts["version"] for facts in versions.all_facts(mapped)] == ["v2", "v1"]


def fails(*_: object) -> None:
    raise PuGeoError("The disk is full.", "Free some space.")


def test_a_failure_and_a_kill_leave_the_versions_as_they_were(mapped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    write(mapped)
    with monkeypatch.context() as full:
        full.setitem(exporters.EXPORTERS, "csv", fails)
        with pytest.raises(PuGeoError, match="disk is full"):
            write(mapped, "geojson", "csv")
    assert [path.name for path in mapped.exports.iterdir() if not path.name.startswith(".lock")] == ["v1"]
    before = {path.name: path.read_bytes() for path in (mapped.exports / "v1").iterdir()}
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # a fork that hangs is a failure, and not the end of all tests
        exporters.EXPORTERS["csv"] = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        write(mapped, "geojson", "csv")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert versions.numbers(mapped) == [1]
    assert list(mapped.exports.glob(".new-*"))
    assert write(mapped)["version"] == "v2"
    assert not list(mapped.exports.glob(".new-*"))
    assert {path.name: path.read_bytes() for path in (mapped.exports / "v1").iterdir()} == before


def test_what_cannot_be_written_is_refused(mapped: Layout) -> None:
    for wrong, words in (
        ({"formats": ["xlsx"]}, "format 'xlsx' is not known"),
        ({"formats": []}, "No format"),
        ({"profiles": ["nobody"]}, "profile 'nobody'"),
        ({"threshold": 1.5}, "threshold is 1.5"),
    ):
        with pytest.raises(PuGeoError, match=words):
            publish(job_of(mapped), **{"run_id": RUN, "formats": ["geojson"], "threshold": 0.5, **wrong})
    assert versions.numbers(mapped) == []


def test_without_an_audit_nothing_is_a_probability_and_two_answers_are_reviewed(mapped: Layout) -> None:
    found = build_damage_map(mapped, RUN, 0.5)
    assert {value for name in ("p_damaged", "p_low", "p_high", "audit_weight") for value in found.columns[name]} == {None}
    assert set(found.columns["triage"]) == {"flagged", "below", "not_assessed"}
    estimate = found.metadata["estimate"]
    assert (estimate["confirmed"], estimate["estimate"], estimate["low"], estimate["high"]) == (0, None, None, None)
    assert estimate["method"] == "not enough to estimate"
    assert estimate == auditing.how_many(mapped).as_mapping()
    # two answers are reviewed
    click(mapped, "b5", "b6", "b7")
    say(mapped, "b6", "not_damaged", analyst="bob")
    say(mapped, "b7", "positive", analyst="bob")
    found = build_damage_map(mapped, RUN, 0.5)
    row = {building: i for i, building in enumerate(found.building_ids)}
    names = ("review_status", "n_labels", "agreement", "label_source")
    told = {b: tuple(found.columns[name][row[b]] for name in names) for b in ("b5", "b6", "b7")}
    assert told == {"b5": ("single", 1, 1.0, "set"), "b6": ("disputed", 2, 0.5, "set"), "b7": ("agreed", 2, 1.0, "set")}
    assert found.columns["review_status"][row["b8"]] is None


def test_an_audit_fills_chances_weights_and_bands(mapped: Layout) -> None:
    check = answer_audit(mapped, 200)
    made = write(mapped)
    rows = features(mapped, "v1")
    audited = {f"b{row}" for row in check.sample.rows[:200]}
    weights = {building: row["audit_weight"] for building, row in rows.items() if row["audit_weight"] is not None}
    assert set(weights) == audited
    assert sum(weights.values()) == pytest.approx(N - 2, rel=0.01)
    chances = [row for building, row in rows.items() if building not in audited and row["assessed"]]
    assert all(row["p_low"] <= row["p_damaged"] <= row["p_high"] for row in chances)
    assert all(rows[building]["p_damaged"] is None for building in audited)  # people answered these
    assert {"confirmed", "below"} <= {row["triage"] for row in rows.values()}
    estimate = made["estimate"]
    assert (estimate["N"], estimate["n"]) == (N - 2, 200)
    assert estimate["low"] <= TRUTH[2:].sum() <= estimate["high"]
    assert estimate == auditing.how_many(mapped).as_mapping()
    report = (mapped.exports / "v1" / "report.html").read_text(encoding="utf-8")
    assert f"About {estimate['estimate']} damaged buildings, between {estimate['low']} and {estimate['high']}" in report
    assert (estimate["not_assessed"], estimate["run_id"]) == (2, RUN)
    told = json.loads((mapped.exports / "v1" / "damage_map.run.json").read_text())["audit"]
    assert "calibration" not in told
    worker.run(unheld_job(mapped, "publish", Publish(("geojson",), run="latest", threshold=0.5).args(mapped)))
    assert json.loads((mapped.exports / "v2" / "damage_map.run.json").read_text())["audit"] == told
    assert (told["check_id"], told["n_answered"]) == (check.id, 200)


def test_bands_follow_the_audits_thresholds(mapped: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = {
        "check_id": "check-x", "calibration": None, "bands": {"high_precision": 0.8, "high_recall": 0.2}, "n": N,
        "n_drawn": 0, "n_answered": 0, "n_damaged": 0, "n_counted": 0, "state": "finished",
        "total": {"value": None, "words": "not enough: 0 checks."},
    }  # fmt: skip
    answer_check = answer_audit(mapped, 1, truth=np.zeros(N, np.bool_))
    monkeypatch.setattr(auditing, "facts", lambda *_: {**audit, "check_id": answer_check.id})
    found = build_damage_map(mapped, RUN, 0.5)
    rounded = np.asarray(runs.array(mapped, RUN, "scores")).round(4)
    scores = dict(zip(runs.building_ids_of(mapped, RUN), rounded, strict=True))
    for building, triage, label in zip(found.building_ids, found.columns["triage"], found.columns["label"], strict=True):
        if label is None and triage != "not_assessed":
            score = scores[building]
            bands = ((0.8, "high_precision"), (0.5, "flagged"), (0.2, "high_recall"), (0.0, "below"))
            assert triage == next(name for least, name in bands if score >= least)


def test_a_damaged_building_is_not_graded_until_a_person_grades_it(mapped: Layout) -> None:
    say(mapped, "b5", "positive")
    write(mapped, profiles=("copernicus", "unosat"))
    names = ("damage_class", "ems_class", "unosat_class", "unosat_class_name")
    ungraded = [features(mapped, "v1")["b5"][name] for name in names]
    assert ungraded == ["damaged_not_graded", "Damaged, not graded", None, "Damaged, not graded"]
    assert [features(mapped, "v1")["b6"][name] for name in names] == [None] * 4
    store.call(mapped, grades.put, [Grade("", "Roof gone", "minor"), *grades.USUAL])
    click(mapped, "b5", grade="Major", damage_types=("Destroyed",))
    click(mapped, "b6", grade="Roof gone")
    write(mapped, profiles=("copernicus", "unosat"))
    found = features(mapped, "v2")
    assert [found["b5"][name] for name in names] == ["major", "Damaged", 2, "Major damage"], "the grade counts"
    assert [found["b6"][name] for name in names] == ["minor", "Possibly damaged", 3, "Minor damage"]
    report = (mapped.exports / "v2" / "report.html").read_text(encoding="utf-8")
    assert "1 major, 1 minor" in report


@pytest.mark.parametrize("name", ["geojson-full", "csv"])
def test_labels_of_an_exported_map_arrive_in_a_new_project(mapped: Layout, tmp_path: Path, name: str) -> None:
    click(mapped, "b5", damage_types=("roof",), absent_types=("flooded",), grade="major", comment="gone")
    click(mapped, "b6", label="not_damaged")
    click(mapped, "b7", label="not_assessable", reason="cloud")
    answer_audit(mapped, 40)
    write(mapped, name)
    (tmp_path / "again").mkdir()
    other = mapped_project(tmp_path / "again")
    done = import_labels(other, str(mapped.exports / "v1" / FILE_NAMES[name]), analyst="bob")
    assert (done["stored"], done["skipped"]) == (43, N - 43)

    def said(one: Layout) -> dict[str, tuple[object, ...]]:
        now = store.call(one, labels.current).items()
        return {
            name: (e.label, e.reason, tuple(e.damage_types), tuple(e.absent_types), e.analyst, e.shown) for name, e in now
        }

    assert said(other) == said(mapped)
    chances, same = (
        [one.inclusion for one in store.call(layout, labels.audit_answers).values()] for layout in (mapped, other)
    )
    assert sorted(same) == pytest.approx(sorted(chances), rel=1e-4)
    assert import_labels(other, str(mapped.exports / "v1" / FILE_NAMES[name]), analyst="bob")["stored"] == 0
