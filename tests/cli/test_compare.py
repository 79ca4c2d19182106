"""The verbs `compare` and `ensemble`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_parts import job_of, with_chips

from pu_geo import cli
from pu_geo.project import runs, store
from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.tasks.train.train import rank


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PU_GEO_HOME", str(tmp_path / "home"))


@pytest.fixture
def ranked(project: Layout) -> tuple[Layout, RunFacts, RunFacts]:
    """A project with two runs of the instant ranker: the older one, and the newer one."""
    made = with_chips(project)
    for name in ("first", "second"):
        rank(job_of(made, name))
    with store.connect(made) as db:
        newer, older = runs.all_runs(db)
    return made, older, newer


def test_compare_tells_it_in_words_and_as_json(
    ranked: tuple[Layout, RunFacts, RunFacts], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, older, newer = ranked
    assert cli.main(["compare", str(layout.folder), "--runs", older.run_id, "latest"]) == 0
    said = capsys.readouterr().out
    assert f"A = {older.run_id}\nB = {newer.run_id}\n" in said
    assert "Rank correlation (Spearman) 1.00: nearly the same order, over 20 common buildings." in said
    assert "A: PU criterion not enough to judge.\n" in said
    assert said.endswith("A high, B low:\n  none\nB high, A low:\n  none\n")
    assert cli.main(["compare", str(layout.folder), "--runs", older.run_id, newer.run_id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["spearman"], told["n"], told["check_id"]) == (1.0, 20, None)
    assert [run["run_id"] for run in told["runs"]] == [older.run_id, newer.run_id]


def test_ensemble_makes_a_run(ranked: tuple[Layout, RunFacts, RunFacts], capsys: pytest.CaptureFixture[str]) -> None:
    layout, older, newer = ranked
    assert cli.main(["ensemble", str(layout.folder), "--runs", "latest", older.run_id, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    with store.connect(layout) as db:
        facts = runs.find(db, "latest")
    assert (facts.run_id, facts.method) == (made["run_id"], "ensemble")
    assert facts.settings["run_ids"] == [newer.run_id, older.run_id]


@pytest.mark.parametrize("verb", ["compare", "ensemble"])
def test_the_same_run_twice_is_refused(
    ranked: tuple[Layout, RunFacts, RunFacts], capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    layout, _, newer = ranked
    assert cli.main([verb, str(layout.folder), "--runs", newer.run_id, "latest"]) == 2
    assert newer.run_id in capsys.readouterr().err
    assert len(list(layout.jobs.glob("*/spec.json"))) == 0
