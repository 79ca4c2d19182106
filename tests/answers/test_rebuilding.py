"""A project is rebuilt from its exported history: the same answers, undo stacks and decisions, to the last row."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from small_parts import small_project, square_table

from pu_geo.answers.export_labels_job import decided_of, export_labels
from pu_geo.answers.import_labels_job import import_labels
from pu_geo.errors import LabelError
from pu_geo.records import LABELS, REASONS, LabelOp
from pu_geo.store import decisions, grades, history, labels, store
from pu_geo.store.grades import Grade
from pu_geo.store.layout import Layout

ANALYSTS = ("ann", "bob", "=eve")
NASTY = ["=1+1", "'=1+1", "-93.1", "@me", "a;b", 'say "x", y', "two\nlines", "\tx", "日本", "'quoted'", "''-", ""]
SCALE = [Grade("", "Roof gone", "major"), Grade("", "Flat", "destroyed")]


def work(layout: Layout, n: int, seed: int) -> None:
    """Let three analysts do n things: answers of every kind, acts of several buildings, undo and redo, decisions, imports."""
    rng = random.Random(seed)
    with store.connect(layout) as db:
        grades.put(db, SCALE)
        for number in range(n):
            analyst, op = rng.choice(ANALYSTS), f"s{seed}-{number}"
            kind = rng.choice(["set"] * 7 + ["undo"] * 4 + ["redo"] * 3 + ["act", "decision", "import"])
            if kind in ("undo", "redo"):
                ops = [LabelOp(op, step=kind)]
            elif kind == "act":
                ops = [LabelOp(f"{op}-{i}", f"b{rng.randrange(20)}", "positive", act=op) for i in range(4)]
            elif kind == "decision":
                named = {"building_ids": [f"b{rng.randrange(20)}" for _ in range(3)], "of": [{"building_ids": ["b19"]}]}
                decisions.decide(db, op, "selection", rng.choice("xyz"), rng.choice([named, None]), analyst=analyst)
                continue
            else:
                label = rng.choice(LABELS)
                ops = [LabelOp(
                    op, f"b{rng.randrange(20)}", label,
                    reason=rng.choice(REASONS) if label == "not_assessable" else "",
                    damage_types=rng.sample(["roof", "=wall", "a;b"], rng.randrange(3)) if label == "positive" else (),
                    absent_types=("=flood", "c;d")[: number % 3] if label == "positive" else (),
                    comment=rng.choice(NASTY),
                    grade=rng.choice(["", "Flat", "roof-gone"]) if label == "positive" else "",
                    **rng.choice([{}, {"shown": "explore"}, {"shown": "audit", "inclusion": 0.1}]),
                    **({"analyst": "guest", "at": "2026-01-01T00:00:00Z"} if kind == "import" else {}),
                )]  # fmt: skip
            how = "import" if kind == "import" else "set"
            assert not [ack.error for ack in labels.append(db, ops, analyst=analyst, screen="map", kind=how) if ack.error]
        grades.put(db, [Grade("flat", "Flat", "destroyed"), Grade("", "Dented", "minor")])


def everything(layout: Layout) -> dict[str, object]:
    with store.connect(layout) as db:
        pu = labels.pu_set(db)
        return {
            "current": labels.current(db),
            "pu": [getattr(pu, name).tolist() for name in ("is_positive", "is_not_damaged", "is_excluded")],
            "history": list(history.rows(db, at=labels.last_event(db))),
            "next": [labels.next_act(db, who, kind) for who in (*ANALYSTS, "guest") for kind in ("undo", "redo")],
            "decided": {key: value for key, value in decided_of(db).items() if key != "grades"},
            "scales": [one["scale"] for one in decided_of(db)["grades"]],
            "standing": {name: (one.facts, one.analyst) for name, one in decisions.standing(db, "selection").items()},
        }


def test_a_fresh_project_becomes_the_one_that_was_exported(project: Layout, tmp_path: Path) -> None:
    work(project, 300, 1)
    before = everything(project)
    assert len(before["history"]) > 120
    result = export_labels(project, str(tmp_path / "labels.csv"))
    fresh = small_project(tmp_path / "fresh.pugeo")
    done = import_labels(fresh, str(result["events_out"]), analyst="carl", rebuild=True)
    assert done["stored"] == result["n_events"]
    assert everything(fresh) == before
    second = export_labels(fresh, str(tmp_path / "second.csv"))
    for name in ("out", "events_out", "decisions_out"):
        assert Path(str(second[name])).read_bytes() == Path(str(result[name])).read_bytes()
    for layout in (project, fresh):  # and everybody goes on in the same way
        for number, who in enumerate(ANALYSTS * 2):
            store.call(layout, labels.undo, f"go-on-{number}", analyst=who, screen="map")
    there, here = ([row[:4] for row in everything(layout)["history"]] for layout in (project, fresh))
    assert there == here


def test_buildings_of_other_ids_are_known_by_their_place(project: Layout, tmp_path: Path) -> None:
    work(project, 120, 4)
    result = export_labels(project, str(tmp_path / "labels.csv"))
    table = replace(square_table(20), building_ids=[f"house-{i}" for i in range(20)])
    fresh = small_project(tmp_path / "fresh.pugeo", table=table)
    import_labels(fresh, str(result["events_out"]), analyst="carl", rebuild=True)
    there, here = (store.call(layout, labels.current_labels) for layout in (project, fresh))
    assert here == {building.replace("b", "house-"): label for building, label in there.items()}
    told = store.call(fresh, decided_of)["decisions"]
    assert "house-19" in json.dumps(told)
    assert '"b19"' not in json.dumps(told)


def test_a_project_with_answers_and_a_file_that_is_no_history_are_refused(project: Layout, tmp_path: Path) -> None:
    work(project, 40, 5)
    result = export_labels(project, str(tmp_path / "labels.csv"))
    before = everything(project)
    with pytest.raises(LabelError, match="has answers or decisions already"):
        import_labels(project, str(result["events_out"]), analyst="ann", rebuild=True)
    with pytest.raises(LabelError, match="no history"):
        import_labels(project, str(result["out"]), analyst="ann", rebuild=True)
    assert everything(project) == before


def test_a_history_that_makes_no_sense_is_refused_whole(project: Layout, tmp_path: Path) -> None:
    work(project, 80, 6)
    events = Path(str(export_labels(project, str(tmp_path / "labels.csv"))["events_out"]))
    text, fresh = events.read_text(), small_project(tmp_path / "fresh.pugeo")
    for find, put, times, words in (
        (",undo,", ",redo,", 1, "was stored as undo"),
        (",undo,", ",redo,", -1, "does not follow"),
        (",positive,", ",damaged!,", 1, "is not one of"),
        (",set,", ",wish,", 1, "is not one of"),
        ("\n1,", f"\n{2**63 - 1},", 1, "from 1 to"),
    ):
        assert find in text
        events.write_text(text.replace(find, put, times))
        with pytest.raises(LabelError, match=words):
            import_labels(fresh, str(events), analyst="carl", rebuild=True)
        assert store.call(fresh, labels.last_event) == 0
        assert store.call(fresh, decided_of)["grades"] == []


def test_without_the_file_of_decisions_answers_come_and_a_note_names_what_did_not(project: Layout, tmp_path: Path) -> None:
    work(project, 40, 7)
    result = export_labels(project, str(tmp_path / "labels.csv"))
    beside = Path(str(result["decisions_out"]))
    beside.write_text("{}")
    fresh = small_project(tmp_path / "fresh.pugeo")
    with pytest.raises(LabelError, match="not a file of decisions"):
        import_labels(fresh, str(result["events_out"]), analyst="carl", rebuild=True)
    beside.unlink()
    done = import_labels(fresh, str(result["events_out"]), analyst="carl", rebuild=True)
    assert "no labels.decisions.json" in str(done["notes"])
    assert store.call(fresh, labels.current_labels) == store.call(project, labels.current_labels)
