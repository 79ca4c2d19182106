"""The card of a run, safe to hand on whatever names the files had; what runs are called, and the table of them."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine
from map_parts import Reader
from mapped_parts import RUN, TRUTH, N, answer_audit, say
from model_parts import trained, with_chips
from small_parts import add_run, facts_of

from pu_geo.errors import ProjectError
from pu_geo.maps import run_card
from pu_geo.maps.run_card import figures, judgement_words, limits
from pu_geo.methods import catalog
from pu_geo.runs import results, training
from pu_geo.store import checks, chosen, contents, run_names, store
from pu_geo.store.layout import Layout, sha256_of, write_json
from pu_geo.wording import day_and_time

HOSTILE = (
    "<script>alert(1)</script> [x](http://evil.example) ![y](//evil.example/p.png) | **b** `c` \u202e\x1b[2J :smile: & '\""
)
JUDGED = {
    "n_held_out": 20, "recall": 0.8, "share_called": 0.25, "criterion": 2.56, "low": 1.8, "high": 3.1, "threshold": 0.5,
}  # fmt: skip


def change_facts(layout: Layout, **values: object) -> None:
    """Store the newest run's facts anew, with some of them changed."""
    found = facts_of(layout)
    with store.connect(layout) as db:
        row = json.loads(db.execute("SELECT facts FROM run WHERE run_id = ?", (found.run_id,)).fetchone()[0])
        db.execute("UPDATE run SET facts = ? WHERE run_id = ?", (json.dumps({**row, **values}), found.run_id))


@pytest.mark.slow
def test_it_says_what_the_run_learned_and_how_and_paths_stay_at_home(project: Layout, tmp_path: Path) -> None:
    layout = with_chips(project)
    run_id = trained(layout, "ncpu", epochs=3)
    card, facts = run_card.card(layout, "latest"), facts_of(layout, run_id)
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    run = card["run"]
    assert (run["run_id"], run["title"], run["seed"], run["settings"]["epochs"]) == (run_id, "NcPU", 0, 3)
    assert run["paper"] == catalog.card("ncpu").paper
    assert run["changed"] == {"epochs": 60, "max_steps": 300, "batch_size": 128}
    assert card["labels"] == {
        "at_event": 12, "n_positive": 6, "n_unlabeled": 14, "n_not_damaged": 6, "n_left_out": 0, "n_held_out": 0,
        "n_people": 1, "were_learned": True,
    }  # fmt: skip
    data = card["data"]
    assert (data["project"], data["chip_set"], data["n_buildings"], data["bands"]) == ("Event", "set", 20, "pre+post")
    assert (data["scenes"][0]["file"], data["size_px"], data["not_assessed"]) == ("x.tif", 16, {})
    assert card["versions"] == dict(facts.versions)
    assert card["sha256"] == {
        path.name: sha256_of(path) for path in layout.run(run_id).iterdir() if path.name != "manifest.json"
    }
    assert [report["epoch"] for report in card["curve"]] == [1, 2, 3]
    assert f"NcPU: {catalog.card('ncpu').cannot}" in card["limits"]
    say(layout, "b9", "not_damaged", analyst="bob")
    assert run_card.card(layout, "latest") == card, "clicks after it change nothing"
    change_facts(layout, settings={"weights_file": str(tmp_path / "mine.pt")})
    card = run_card.card(layout, "latest")
    assert card["run"]["settings"]["weights_file"] == "mine.pt"
    for private in (str(tmp_path), "/nowhere", "bob"):
        assert private not in json.dumps(card)


def test_the_audit_is_told(mapped: Layout) -> None:
    assert any("No accuracy assessment" in words for words in run_card.card(mapped, RUN)["limits"])
    answer_audit(mapped, N - 2)
    card = run_card.card(mapped, RUN)
    n_damaged = int(TRUTH[2:].sum())
    assert card["audit"]["total"]["value"] == n_damaged
    assert not any("No accuracy assessment" in words for words in card["limits"])
    assert card["how_many"]["estimate"] == card["how_many"]["low"] == n_damaged
    assert f"Number damaged in the project: {n_damaged} of {N - 2} buildings are damaged" in run_card.as_markdown(card)


def test_judgement_needs_ten_held_out_clicks(mapped: Layout) -> None:
    assert "PU criterion 2.56 (95 % interval 1.80 to 3.10): 80% of 20 held-out clicks" in judgement_words(JUDGED)
    assert judgement_words({**JUDGED, "n_held_out": 10}).startswith("PU criterion")
    for few in (None, {}, {**JUDGED, "n_held_out": 9}, {**JUDGED, "criterion": None}, {**JUDGED, "low": None}):
        assert judgement_words(few).startswith("Not enough to judge: ")
    np.save(mapped.run(RUN) / "held_out.npy", np.arange(20))
    change_facts(mapped, judgement=JUDGED)
    card = run_card.card(mapped, RUN)
    assert (card["judgement"]["criterion"], card["labels"]["n_held_out"]) == (2.56, 20)
    assert "PU criterion 2.56" in run_card.as_html(card)


def test_limits_follow_the_run(mapped: Layout) -> None:
    facts = facts_of(mapped)
    told = " ".join(limits(replace(facts, n_positive=29), has_audit=True))
    assert "learned from 29 damaged buildings" in told
    assert "learned from" not in " ".join(limits(replace(facts, n_positive=30), has_audit=True))
    applied = replace(facts, from_model={"file": "m.zip"})
    assert "trained elsewhere and learned nothing" in " ".join(limits(applied, has_audit=True))


def hostile_card(layout: Layout) -> dict[str, Any]:
    with store.connect(layout) as db:
        db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'name'", (HOSTILE,))
        (scene,) = contents.scenes(db)
        facts = {**json.loads(db.execute("SELECT facts FROM scene").fetchone()[0]), "path": f"/a/{HOSTILE.replace('/', '')}"}
        db.execute("UPDATE scene SET facts = ? WHERE scene_id = ?", (json.dumps(facts), scene.scene_id))
    change_facts(layout, warnings=[HOSTILE], settings={HOSTILE: HOSTILE}, from_model={"file": HOSTILE}, device=HOSTILE)
    write_json(layout.run(RUN) / "curve.json", [{"stage": HOSTILE, "epoch": i, HOSTILE: 1.0 * i} for i in range(3)])
    return run_card.card(layout, RUN)


def test_hostile_names_stay_text_on_the_page_and_in_markdown(mapped: Layout) -> None:
    card = hostile_card(mapped)
    page, text = run_card.as_html(card), run_card.as_markdown(card)
    found = Reader(page)
    assert not {"script", "img", "a", "link", "iframe"} & {tag for tag, _ in found.tags}
    names = {name for _, attributes in found.tags for name in attributes}
    assert not {"src", "href", "style", "onload", "onerror", "onclick"} & names
    assert "alert(1)" in " ".join(found.words)
    assert "url(" not in page
    assert "default-src 'none'; style-src 'unsafe-inline'" in [attributes.get("content") for _, attributes in found.tags]
    assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)`|(?<!\\)!\\?\[|(?<!\\)\*\*", text)
    assert "http://" not in text
    for sign in ("\u202e", "\x1b"):
        assert sign not in page + text
    for line in text.splitlines():
        if line.startswith("|") and "alert" in line:
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 6, 9), line


def test_the_figures_of_a_training_are_summed_up() -> None:
    curve = [
        {"stage": "training", "epoch": i, "loss": loss, "note": "x", "seconds": 3} for i, loss in enumerate((3, 1, 4, 2))
    ]
    assert figures([{"stage": "pretraining", "epoch": 1, "loss": 7.0}, *curve]) == [
        ("loss (pretraining)", 7.0, 7.0, 7.0, 7.0), ("loss (training)", 3, 1, 4, 2),
    ]  # fmt: skip


def test_the_command_writes_each_kind(mapped: Layout, tmp_path: Path, run: CommandLine) -> None:
    folder = str(mapped.folder)
    for suffix, words in ((".html", "<!DOCTYPE html>"), (".md", "# Instant ranker"), (".json", '"made_with"')):
        out = tmp_path / f"card{suffix}"
        run.text("card", folder, "--run", RUN, "--out", out)
        assert words in out.read_text(encoding="utf-8")
    assert run.text("card", folder).startswith("# Instant ranker")
    assert run.json("card", folder)["run"]["run_id"] == RUN
    assert "has no run 'x'" in run.refused("card", folder, "--run", "x")
    assert "written as .html, .md or .json" in run.refused("card", folder, "--out", tmp_path / "card.pdf")
    assert "does not exist" in run.refused("card", folder, "--out", tmp_path / "no" / "card.md")


AT = "2026-11-22T11:29:08.123+00:00"


def test_a_run_is_called_by_what_made_it_and_when(mapped: Layout) -> None:
    run, at = replace(facts_of(mapped, RUN), created_at=AT), day_and_time(AT)
    layered = {"method": "herocon", "feature_set": "layers-1a2b", "feature_maker": {"kind": "layers"}}
    federated = {
        "method": "fedaws",
        "preset": "federated",
        "feature_set": "shared-1",
        "federation": {"title": "June floods"},
    }
    long = "Floods of the river and of its small arms"
    for changes, words in (
        ({}, "Instant ranker"),
        ({"method": "propagation"}, "Propagated ranking"),  # it has one preset
        ({"method": "ncpu", "preset": "paper"}, "NcPU paper"),
        ({"method": "gone", "from_model": {"file": "x"}}, "gone from elsewhere"),
        ({"method": "ncpu", "feature_set": "vit"}, "NcPU quick on vit"),
        ({**layered, "views": ("sar-post", "pre", "post")}, "HeroCon quick on sar-post + pre + post"),
        ({**layered, "views": tuple("abcde")}, "HeroCon quick on 5 layers"),
        (federated, "June floods (FedAwS)"),
        ({**federated, "from_model": {"file": "x"}}, "June floods (FedAwS from elsewhere)"),
        ({**federated, "federation": {"title": long}}, "Floods of the river and of… (FedAwS)"),
    ):
        assert run_names.usual(replace(run, **changes)) == f"{words}, {at}"  # type: ignore[arg-type]


def test_runs_of_one_minute_have_names_of_their_own(project: Layout) -> None:
    for run_id in ("a-1", "a-2", "a-3"):
        add_run(project, run_id, created_at=AT)
    first = f"Instant ranker, {day_and_time(AT)}"
    assert run_names.names(project) == {"a-3": f"{first} (3)", "a-2": f"{first} (2)", "a-1": first}
    run_names.rename(project, "a-1", "before the flood")
    assert run_names.name(project, "a-2") == first


def test_a_name_is_kept_taken_back_and_changes_nothing_of_the_run(mapped: Layout) -> None:
    before = facts_of(mapped, RUN)
    run_names.rename(mapped, RUN, "  second \n opinion ")
    assert run_names.names(mapped) == {RUN: "second opinion"}
    assert facts_of(mapped, RUN) == before
    run_names.rename(mapped, RUN, "")
    assert run_names.name(mapped, RUN) == run_names.usual(before)


def test_a_name_that_is_taken_too_long_or_of_no_run_is_refused(project: Layout) -> None:
    for run_id in ("a-1", "a-2"):
        add_run(project, run_id)
    run_names.rename(project, "a-1", "mine")
    run_names.rename(project, "a-1", "mine")
    with pytest.raises(ProjectError, match="called 'mine' already"):
        run_names.rename(project, "a-2", "mine")
    with pytest.raises(ProjectError, match="61 characters"):
        run_names.rename(project, "a-2", "x" * 61)
    with pytest.raises(ProjectError, match="no run 'gone'"):
        run_names.rename(project, "gone", "y")
    assert run_names.name(project, "gone") == "gone"


def test_audited_runs_have_their_figures_and_checks_are_not_read_for_each_of_the_others(
    mapped: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_audit(mapped, 200)
    for number in range(6):
        add_run(mapped, f"other-{number}", like=RUN, from_model={"n_positive": 40} if number else None, seconds=61.0)
    read, asked = checks.all_checks, []
    monkeypatch.setattr(checks, "all_checks", lambda layout: (asked.append(1), read(layout))[1])
    found = training.all_runs(mapped)
    rows = {row.run_id: row for row in results.table(mapped, found)}
    n_asked = len(asked)
    assert re.fullmatch(r"precision [\d.]+ % \(\d+–\d+\), recall [\d.]+ % \(\d+–\d+\)", rows[RUN].audited)
    assert {row.audited for row in rows.values() if row.run_id != RUN} == {results.NOT_AUDITED}
    assert [run_id for run_id, row in rows.items() if row.is_shown] == [chosen.chosen_run(mapped).run_id]
    assert [rows[f"other-{number}"].n_damaged for number in (0, 1)] == [5, None], "it learned from no labels of this project"
    assert (rows["other-0"].method, rows["other-0"].took, rows["other-0"].judged) == (
        "Instant ranker", "61 s", results.NOT_JUDGED,
    )  # fmt: skip
    asked.clear()
    results.table(mapped, [run for run in found if run.run_id == RUN])
    assert n_asked == len(asked), "as often as for the audited run alone"


def test_a_run_is_judged_with_an_interval_by_ten_held_out_clicks_at_least(project: Layout) -> None:
    add_run(project)
    known = {"n_held_out": 12, "recall": 1.0, "share_called": 0.3, "criterion": 3.3, "low": 2.0, "high": 3.4, "n_called": 4}
    for changed, words in (
        ({}, "100 % (75–100) of 12, 4 flagged"), ({"n_called": None}, "100 % (75–100) of 12"),
        ({"n_held_out": 9}, "not enough: 9 of 10 clicks"), ({"n_held_out": 0}, results.NOT_JUDGED), ({"recall": None}, results.NOT_JUDGED),
    ):  # fmt: skip
        assert results.judged_words(replace(facts_of(project), judgement={**known, **changed})) == words
