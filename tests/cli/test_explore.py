"""`pu-geo similar` and `pu-geo suspects`: words for people, JSON for machines, refusals in two lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clustered_parts import RUN, explored_project, groups

from pu_geo.cli import main
from pu_geo.project import labels, store
from pu_geo.project.labels import LabelOp


def test_similar_lists_the_group_of_a_building(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = str(explored_project(tmp_path).folder)
    assert main(["similar", project, "--building", "b0", "--count", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["like"] == ["b0"]
    assert {groups()[int(one["building_id"][1:])] for one in told["buildings"]} == {0}
    assert len(told["buildings"]) == 5
    assert main(["similar", project, "--building", "b0", "--count", "19"]) == 0
    assert "(positive)" in capsys.readouterr().out
    assert main(["similar", project, "--building", "nowhere"]) == 2
    assert "knows none of these buildings" in capsys.readouterr().err


def test_suspects_looks_through_once_and_lists_wrong_clicks_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = explored_project(tmp_path, n_positive=18)
    with store.connect(layout) as db:
        labels.append(db, [LabelOp("wrong", "b1", "positive")], analyst="ann", screen="map")
    assert main(["suspects", str(layout.folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"] == RUN
    assert (told["suspects"][0]["why"], told["suspects"][0]["building_ids"]) == ("wrong click", ["b1"])
    jobs_before = list(layout.jobs.glob("*-*"))
    assert main(["suspects", str(layout.folder)]) == 0
    assert capsys.readouterr().out.startswith("wrong click: b1. Clicked as damaged")
    assert list(layout.jobs.glob("*-*")) == jobs_before
