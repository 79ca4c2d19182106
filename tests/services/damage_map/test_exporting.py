"""What is confirmed before a version is written is what it then says; versions are listed, compared and handed out."""

from __future__ import annotations

import csv
import itertools
import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from mapped_parts import RUN, N, answer_audit, say
from small_parts import add_run, click, job_of

from pu_geo.errors import PuGeoError
from pu_geo.project import versions
from pu_geo.project.layout import Layout
from pu_geo.services.damage_map import exporting, mapping
from pu_geo.services.project import choices
from pu_geo.tasks.damage_map.publish import publish


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


def test_a_grade_that_changed_is_a_change_of_the_map_unless_the_version_before_holds_none(mapped: Layout) -> None:
    say(mapped, "b5", "positive")
    write(mapped)
    click(mapped, "b5", label="positive", grade="major")
    assert dict(exporting.summary(mapped, RUN, 0.5).changes) == {"graded_anew": 1}
    write(mapped)
    (one,) = exporting.difference(mapped, "v1", "v2")
    assert (one.building_id, one.change, one.grades) == ("b5", "graded_anew", ("damaged_not_graded", "major"))
    assert changes_of(mapped, "v2") == [["b5", "damage_class", "damaged_not_graded", "major"]]
    state = versions.read_state(mapped, "v2")
    del state["damage_class"]
    versions.write_state(mapped.exports / "v2", state.pop("building_id"), state)
    click(mapped, "b5", label="positive", grade="minor")
    assert not exporting.summary(mapped, RUN, 0.5).changes
    write(mapped)
    assert exporting.difference(mapped, "v2", "v3") == []
    assert changes_of(mapped, "v3") == []


def changes_of(layout: Layout, version: str) -> list[list[str]]:
    with (layout.exports / version / "changes.csv").open(encoding="utf-8-sig") as stream:
        return [list(row.values()) for row in csv.DictReader(stream)]


def test_each_change_has_one_name() -> None:
    kinds = [*exporting.CLASSES, None]
    for before, after in itertools.product(kinds, kinds):
        assert (exporting.change_of(before, after) is None) == (before == after)


def test_gaps_name_what_the_map_cannot_say(mapped: Layout) -> None:
    told = " ".join(exporting.summary(mapped, RUN, 0.5).gaps)
    no_number = "no number of damaged buildings is estimated"
    for words in ("Without an audit", no_number, "2 of 400 buildings", "5 damaged buildings only"):
        assert words in told
    say(mapped, "b5", "positive")
    strict = " ".join(exporting.summary(mapped, RUN, 1.0).gaps)
    assert "1 of 1 confirmed buildings score below the threshold" in strict
    answer_audit(mapped, 200)
    add_run(mapped, "ranker-2", like=RUN)
    told = " ".join(exporting.summary(mapped, "ranker-2", 0.5).gaps)
    assert "Without an audit" in told
    assert no_number not in told, "other checks estimate it"


def test_an_audit_is_in_the_summary_with_its_intervals(mapped: Layout) -> None:
    check = answer_audit(mapped, 200)
    choices.choose_threshold(mapped, RUN, 0.6, f"audit:{check.id}")
    found = exporting.summary(mapped, RUN, 0.6)
    assert found.basis == "set from the accuracy assessment"
    assert "200 random checks count, precision " in found.audit
    assert check.id not in found.audit + found.basis
    assert not [gap for gap in found.gaps if "Without an audit" in gap]


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
    exporting.write_zip(mapped, "v1", tmp_path / "v1.zip")
    with zipfile.ZipFile(tmp_path / "v1.zip") as zipped:
        names = {Path(name).name for name in zipped.namelist()}
    assert {"damage_map.csv", "report.html", "version.json"} <= names
    assert "link.csv" not in names
    with pytest.raises(PuGeoError, match="no version 'v9'"):
        exporting.write_zip(mapped, "v9", tmp_path / "v9.zip")


def test_a_number_that_answers_changed_is_explained(mapped: Layout) -> None:
    limit = mapping.choose_top(mapped, RUN, 20)
    assert (mapping.wanted_of(limit.origin), mapping.basis_words(limit.origin)) == (20, "chosen by a person")
    flagged = [building for building, kind in exporting.classes_now(mapped, RUN, limit.value).items() if kind == "flagged"]
    say(mapped, flagged[0], "not_damaged")
    assert mapping.at_threshold(mapped, RUN, limit.value).n_flagged == 19
