"""The report says what is known, in words that do not say more, and carries nothing that runs or calls home."""

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from map_parts import EVIL, GRID, NOT_ENOUGH, Reader, audited_map, estimate, made_up_areas, made_up_audit, made_up_map

from pu_geo.errors import PuGeoError
from pu_geo.maps.report_job import picture, write_report
from pu_geo.records import DamageMap
from pu_geo.store.documents import plain


def report(tmp_path: Path, damage_map: DamageMap | None = None, areas: Sequence[Mapping[str, Any]] = ()) -> Reader:
    out = tmp_path / "report.html"
    assert write_report(out, damage_map or made_up_map(), areas, None, grid=GRID) == out
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    return Reader(out.read_text(encoding="utf-8"))


def changed(damage_map: DamageMap, **columns: object) -> DamageMap:
    n = len(damage_map.building_ids)
    return replace(damage_map, columns={**damage_map.columns, **{name: [value] * n for name, value in columns.items()}})


def hostile() -> tuple[DamageMap, list[dict[str, object]]]:
    """Scripts wherever a file or a person could have put text."""
    names = (
        "title",
        "run_id",
        "method",
        "preset",
        "product_version",
        "disclaimer",
        "made_with",
        "threshold_origin",
        "audit_id",
    )
    told = {**dict.fromkeys(names, EVIL), "cannot_say": [EVIL], "sha256": {EVIL: EVIL}, "n_positive_clicks": EVIL}
    found = changed(
        made_up_map(**told), post_image_id=EVIL, post_date=EVIL, pre_date=EVIL, not_assessed_reason=EVIL, run_at=EVIL,
        source_footprint=EVIL, score_type=EVIL, labelled_at=EVIL, **{EVIL: EVIL},
    )  # fmt: skip
    nothing = estimate(None, None, None, f"not enough{EVIL}")
    audit = {**made_up_audit(), "at_threshold": {**made_up_audit()["at_threshold"], "recall": nothing}}
    return replace(found, metadata={**found.metadata, "audit": audit}), [
        {**row, "name": EVIL, "pcode": f"P{EVIL}", "post_date": EVIL} for row in made_up_areas()
    ]


def test_nothing_in_the_file_can_be_fetched_or_run_and_no_text_becomes_a_tag(tmp_path: Path) -> None:
    harmless = report(tmp_path, made_up_map(audit=made_up_audit()), made_up_areas())
    found = report(tmp_path, *hostile())
    assert {tag for tag, _ in found.tags} == {tag for tag, _ in harmless.tags}
    assert {name for _, attributes in found.tags for name in attributes} == {name for _, a in harmless.tags for name in a}
    assert found.seen.count("<script>alert(1)</script>") > 20
    assert not {"\u202e", "\ud800", "\x07"} & set(found.seen)
    persian = "\u0645\u06cc\u200c\u0631\u0648\u062f"
    areas = [*made_up_areas(), {**made_up_areas()[0], "name": persian, "pcode": None, "flagged": 99}]
    found = report(tmp_path, made_up_map(audit=made_up_audit()), areas)
    assert persian in found.seen, "names in other scripts are kept"
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in found.tags}
    outward = [(a.get("src") or a.get("href") or "") for _, a in found.tags if {"src", "href", "xlink:href"} & set(a)]
    assert [address[:22] for address in outward] == ["data:image/png;base64,"]
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(|@font-face| on\w+=", raw)
    policies = [a["content"] for tag, a in found.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_without_an_audit_no_number_of_damaged_buildings_stands_as_a_fact(tmp_path: Path) -> None:
    seen = report(tmp_path).seen
    assert "How many buildings are damaged is not known before an accuracy assessment." in seen
    assert seen.index("a rank, not a probability") < seen.index("confirmed damaged by a person")  # in the headline
    assert "not enough to estimate" in seen
    for absent in ("4,321", "4321", "95 % interval", "Areas"):
        assert absent not in seen
    assert "Accuracy assessment None was made of this run's map." in seen
    # of 80: 10 confirmed, 20 flagged, 40 below, 10 not assessed; what people confirmed is counted once
    expected = "10 confirmed damaged by a person 20 flagged by score, to look at: no count of damage 40 not flagged: no proof of an intact"
    assert f"{expected} building 10 not assessed (12 %): nothing is known" in seen
    assert "0 confirmed" in report(tmp_path, made_up_map(0)).seen, "an empty map can be printed"
    assert "License of this map: none stated" in seen
    assert "OpenStreetMap contributors (ODbL)" in seen


def test_an_audit_gives_the_number_with_its_interval_or_words_where_checks_are_too_few(tmp_path: Path) -> None:
    seen = report(tmp_path, audited_map()).seen
    assert "About 33 damaged buildings, between 21 and 58 (95 % interval, of 80 buildings)." in seen
    assert "14 of 55 random checks found damage." in seen
    assert "70 % (50–85)" in seen
    assert "55 answered of 60 drawn; 50 count" in seen
    assert "12 buildings read twice, 75 % alike, kappa 0.50" in seen
    at = {**made_up_audit()["at_threshold"], "precision": NOT_ENOUGH}
    audit = {**made_up_audit(), "total": NOT_ENOUGH, "at_threshold": at, "curve": [], "agreement": None}
    estimate = {**made_up_map().metadata["estimate"], "words": NOT_ENOUGH["words"]}
    seen = report(tmp_path, made_up_map(estimate=estimate, audit=audit)).seen
    assert "How many buildings are damaged is not known." in seen
    assert "About" not in seen
    assert seen.count("not enough: 3 checks; 10 are needed.") == 3
    assert "each building was read by one person" in seen


def rows_of(tmp_path: Path, areas: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    report(tmp_path, areas=areas)
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    table = raw[raw.index("<h2>Areas</h2>") :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    return [[re.sub(r"</?div>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]


def test_fifteen_areas_are_printed_and_the_rest_is_named(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, made_up_areas()[::-1])
    assert [row[0] for row in rows[1:]] == [f"Area {i}" for i in range(15)]
    assert rows[1] == ["Area 0", "P000", "100", "90", "10", "3", "50", "20 (11–32)", "22.7", "2024-02-03"]
    seen = report(tmp_path, areas=made_up_areas()).seen
    assert "and 5 more in areas.csv" in seen
    assert "In 1 of 20 areas no building was assessed" in seen
    # what is not known is a dash, never zero
    areas = [{**made_up_areas()[0], "est_damaged": None, "pct": None}, {**made_up_areas()[-1], "post_date": None}]
    _, no_interval, row = rows_of(tmp_path, areas)
    assert row == ["Area 19", "P019", "119", "0", "119", "–", "–", "–", "–", "–"]
    assert no_interval[7:9] == ["–", "–"]


def test_the_curve_has_a_gap_where_checks_were_too_few(tmp_path: Path) -> None:
    drawn_curves = picture(made_up_audit())
    (_, _, _, precision, _), (*_, recall, _) = drawn_curves.curves
    assert precision == [[(0.0, 0.0), (0.25, 0.25)], [(0.75, 0.75), (1.0, 1.0)]]
    assert recall == [[(0.0, 1.0), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (1.0, 0.0)]]
    assert drawn_curves.mark == (0.4, "threshold of this map")
    drawn = report(tmp_path, audited_map()).tags
    lines = [attributes["points"] for tag, attributes in drawn if tag == "polyline"]
    assert lines[0] == "0.0000,1.0000 0.2500,0.7500", "y goes down in a drawing"
    assert [tag for tag, _ in drawn].count("polygon") == len(lines) == 3

    rows = made_up_audit()["curve"][1:3]  # an estimate between two gaps is a point
    found = picture({**made_up_audit(), "curve": [row | {"recall": NOT_ENOUGH} for row in rows]})
    assert [lines for _, _, _, lines, _ in found.curves] == [[[(0.25, 0.25), (0.25, 0.25)]]]
    none = [{"threshold": 0.5, "precision": NOT_ENOUGH, "recall": NOT_ENOUGH}]
    assert picture({**made_up_audit(), "curve": none}) is None


def test_numbers_are_grouped_and_long_text_is_cut() -> None:
    assert [plain(value) for value in (None, 0, True, 1234567, 10.0, 3.14)] == ["–", "0", "yes", "1,234,567", "10", "3.14"]
    assert [plain("a\n\tb   c"), plain("x" * 50, 10), plain("a&b", 3)] == ["a b c", "x" * 9 + "…", "a&b"]


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    report(tmp_path, audited_map(), made_up_areas())
    first = out.read_bytes()
    report(tmp_path, audited_map(), made_up_areas())
    assert out.read_bytes() == first

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PuGeoError) as error:
        write_report(out, made_up_map(), [], None, grid=GRID)
    assert error.value.kind == "disk"
    assert out.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
