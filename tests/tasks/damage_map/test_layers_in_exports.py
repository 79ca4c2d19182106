"""What maps, reports, cards and versions say of layers: those that a run learned from, those that it did not, and who lacks them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from layer_parts import speckle, town_layer
from small_parts import job_of

from pu_geo.geo.export.codebook import fields_of
from pu_geo.project import contents, runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.imagery import layers
from pu_geo.services.train import run_card
from pu_geo.tasks.damage_map.damage_map import build_damage_map
from pu_geo.tasks.damage_map.limits import limits
from pu_geo.tasks.damage_map.publish import publish
from pu_geo.tasks.imagery.chip import chip
from pu_geo.tasks.imagery.layers import add_layer
from pu_geo.tasks.train.train import rank

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.slow]


@pytest.fixture
def learned(ranked_town: Layout, town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A town whose newest run counts as one that learned from the layer half, and whose chips hold the layer whole, too."""
    half = town_layer(town, tmp_path / "h.tif", speckle(256, 160), box=(0, 0, 0.5, 1))
    whole = town_layer(town, tmp_path / "w.tif", speckle(256, 320, bands=1))
    add_layer(job_of(ranked_town), name="half", paths=[str(half)], kind="sar-db")
    add_layer(job_of(ranked_town), name="whole", paths=[str(whole)], when="none")
    chip(job_of(ranked_town), size_px=32)
    rank(job_of(ranked_town))
    found = runs.find
    maker = {"kind": "layers", "views": [{"name": "pre+post"}, {"name": "half"}]}
    monkeypatch.setattr(runs, "find", lambda db, name: replace(found(db, name), feature_maker=maker))
    return ranked_town


def test_a_map_its_version_report_and_card_name_layers_their_scaling_and_who_lacks_them(learned: Layout) -> None:
    found = build_damage_map(learned, "latest", None)
    chips = contents.chip_facts(learned, str(store.call(learned, contents.latest_chip_set)))
    lacks = contents.is_missing(chips)[2]
    assert 0 < lacks.sum() < len(lacks)
    half, whole = found.metadata["layers"]  # type: ignore[misc]
    assert (half["name"], half["is_used"], half["n_missing"], half["unit"]) == ("half", True, lacks.sum(), "dB")
    assert (whole["name"], whole["is_used"], whole["when"]) == ("whole", False, "")
    assert half["scaling"] == chips["scaling"]["half"]["bands"]
    assert len(half["files"][0]["sha256"]) == 64
    assert found.columns["layers_missing"] == [["half"] if lack else [] for lack in lacks]
    (field,) = (field for field in fields_of(found) if field.name == "layers_missing")
    assert field.kind == "list"
    assert f"{lacks.sum()} buildings have no half: their scores rest on the other layers alone." in limits(found, None)
    folder = Path(str(publish(job_of(learned), run_id="latest", formats=["geojson"], threshold=0.5)["out"]))
    facts = json.loads((folder / "version.json").read_text())
    assert [one["name"] for one in facts["layers"]] == ["half", "whole"]
    report = (folder / "report.html").read_text()
    assert "Learned from: half (after the event, SAR in decibels" in report
    assert "In the chips, and not used: whole" in report
    row = json.loads((folder / "damage_map.run.json").read_text())
    assert row["layers"][0]["scaling"] == facts["layers"][0]["scaling"]
    assert [one["name"] for one in run_card.card(learned, "latest")["data"]["layers"]] == ["half", "whole"]


def test_a_map_without_layers_says_nothing_of_them(ranked_town: Layout) -> None:
    found = build_damage_map(ranked_town, "latest", None)
    assert "layers" not in found.metadata
    assert "layers_missing" not in found.columns


def test_an_average_learned_from_what_its_runs_did() -> None:
    one, two = ({"views": [{"name": name}]} for name in ("pre+post", "sar"))
    facts = replace(_facts(), feature_maker={"kind": "several", "sets": {"a": one, "b": two}})
    assert layers.learned_views(facts) == ("pre", "post", "sar")
    assert layers.learned_views(_facts()) == ()


def _facts() -> RunFacts:
    return RunFacts("r", "m", "quick", 0, {}, "s", 0, 0, 0, "", 0.0, "cpu", "linear", 0.5)
