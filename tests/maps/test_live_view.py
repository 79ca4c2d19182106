"""The live view for QGIS says what an export of the same moment says."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_parts
from mapped_parts import RUN, mapped_project, say
from small_parts import facts_of, job_of, square_table

from pu_geo.assessment import random_audits
from pu_geo.maps.damage_map import of_run
from pu_geo.maps.damage_map_job import build_damage_map
from pu_geo.maps.publish_job import publish
from pu_geo.scenes.chip_job import renew_reasons
from pu_geo.store import chosen as choices
from pu_geo.store import contents, runs, store
from pu_geo.store.layout import Layout, write_json

N = 60
SAME = ("damage_binary", "assessed", "not_assessed_reason", "score", "rank", "threshold", "run_id")
pytestmark = pytest.mark.slow


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(random_audits, "_seed", lambda: 1)
    return mapped_project(tmp_path, N)


def add_run(layout: Layout, run_id: str, scores: np.ndarray, *, method: str = "ranker") -> None:
    """Finish another run of the same chips, as a training does."""
    reasons = choices.reasons_of(layout, facts_of(layout, RUN))
    facts = {"method": method, "created_at": "2026-02-01T00:00:00.000Z", "threshold": 0.25}
    small_parts.add_run(layout, run_id, scores=scores, reasons=reasons, like=RUN, **facts)


def rows(layout: Layout) -> dict[str, dict[str, Any]]:
    with closing(sqlite3.connect(layout.gpkg)) as db:
        db.row_factory = sqlite3.Row
        return {row["building_id"]: dict(row) for row in db.execute("SELECT * FROM damage_map")}


def same(layout: Layout) -> dict[str, dict[str, Any]]:
    """Compare the view with the export of this moment, building by building; return the view."""
    chosen = choices.chosen_run(layout)
    seen = rows(layout)
    exported = build_damage_map(layout, chosen.run_id, None)
    assert list(seen) == list(exported.building_ids)
    for name in SAME:
        told = {building: row[name] for building, row in seen.items()}
        if name == "assessed":
            told = {building: bool(value) for building, value in told.items()}
        assert told == dict(zip(exported.building_ids, exported.columns[name], strict=True)), name
    counts = exported.metadata["counts"]
    assert all(n for kind, n in counts.items() if kind != "confirmed"), (
        "all three kinds are there, or the comparison is worth little"
    )
    assert of_run(layout, chosen.run_id).n["flagged"] == sum(
        row["damage_binary"] == "damaged" and row["label"] is None for row in seen.values()
    )
    return seen


def test_the_view_says_what_an_export_says_after_each_change(mapped: Layout) -> None:
    draw = np.random.default_rng(5)
    first = same(mapped)
    assert (first["b0"]["assessed"], first["b0"]["not_assessed_reason"]) == (0, "nodata")
    assert first["b0"]["score"] is None, "what was not assessed is not colored by a score"
    choices.choose_threshold(mapped, RUN, 0.3)
    lower = same(mapped)
    assert {row["threshold"] for row in lower.values()} == {0.3}
    flagged = [building for building, row in lower.items() if row["damage_binary"] == "damaged"]
    assert len(flagged) > sum(row["damage_binary"] == "damaged" for row in first.values())
    say(mapped, flagged[0], "not_damaged")
    say(mapped, "b0", "positive")  # a person knows better than the picture
    say(mapped, "b5", "not_assessable")
    answered = same(mapped)
    assert [answered[building]["damage_binary"] for building in (flagged[0], "b0", "b5")] == [
        "not_flagged", "damaged", "not_assessed",
    ]  # fmt: skip
    assert answered["b5"]["not_assessed_reason"] == "unclear"
    say(mapped, "b0", "cleared")
    assert same(mapped)["b0"]["damage_binary"] == "not_assessed"
    add_run(mapped, "other-1", draw.random(N))  # the newest
    assert {row["run_id"] for row in same(mapped).values()} == {"other-1"}
    choices.choose_run(mapped, RUN)
    assert {(row["run_id"], row["threshold"]) for row in same(mapped).values()} == {(RUN, 0.3)}
    add_run(mapped, "third-1", draw.random(N), method="propagation")
    assert {row["run_id"] for row in same(mapped).values()} == {RUN}
    choices.choose_automatically(mapped)
    assert {row["run_id"] for row in same(mapped).values()} == {"third-1"}
    with store.connect(mapped) as db:
        contents.add_footprints(db, replace(square_table(3, prefix="new"), n_in=3))
    assert [same(mapped)[f"new{i}"]["damage_binary"] for i in range(3)] == ["not_assessed"] * 3
    publish(job_of(mapped), run_id="other-1", formats=["csv"], threshold=0.61)
    assert {(row["run_id"], row["threshold"]) for row in same(mapped).values()} == {("other-1", 0.61)}


def test_a_score_that_is_the_threshold_after_rounding_is_flagged_everywhere(mapped: Layout) -> None:
    """1/32 is 0.03125 and rounds to even, 0.0312; another rounding would make it 0.0313."""
    scores = np.linspace(0, 0.02, N)
    scores[10:16] = [1 / 32, 3 / 32, 0.03124999, 0.03120001, 0.0311999, 0.5]
    add_run(mapped, "edge-1", scores)
    for threshold in (0.0312, 0.0313, 0.03124, 0.03125):
        choices.choose_threshold(mapped, "edge-1", threshold)
        same(mapped)


def test_reasons_of_a_run_and_what_chips_cut_again_hide_are_in_both(mapped: Layout) -> None:
    with store.connect(mapped) as db:
        runs.put_reasons(db, RUN, {"b2": "a reason that came later"})
    assert same(mapped)["b2"]["not_assessed_reason"] == "a reason that came later"
    assert same(mapped)["b7"]["assessed"]
    facts = json.loads(mapped.chip_facts("set").read_text())
    facts["nodata_share"][7], facts["nodata_share"][0] = 0.9, 0.0
    write_json(mapped.chip_facts("set"), facts)
    with store.connect(mapped) as db:
        renew_reasons(db, mapped, "set")
    seen = same(mapped)
    assert [seen[building]["not_assessed_reason"] for building in ("b0", "b1", "b7")] == [None, "nodata", "nodata"]
