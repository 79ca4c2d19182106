"""Several analysts: what each says, where they differ, how far they agree."""

from __future__ import annotations

import random
from itertools import combinations
from sqlite3 import Connection

import pytest

from pu_geo.project import analysts, labels
from pu_geo.project.analysts import Agreement, AnalystFacts
from pu_geo.records import LABELS, LabelOp


def say(db: Connection, analyst: str, *pairs: tuple[str, str]) -> None:
    number = labels.last_event(db)
    ops = [LabelOp(f"{number}-{i}", building, label) for i, (building, label) in enumerate(pairs)]
    acks = labels.append(db, ops, analyst=analyst, screen="map")
    assert not any(ack.error for ack in acks)


def undo(db: Connection, analyst: str) -> None:
    labels.undo(db, f"u{labels.last_event(db)}", analyst=analyst, screen="map")


def differing(db: Connection) -> dict[str, dict[str, str]]:
    found = analysts.conflicts(db)
    return {building: {answer.analyst: answer.label for answer in answers} for building, answers in found}


def test_each_analyst_counts_their_own_standing_answers(db: Connection) -> None:
    say(db, "bob", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"))
    say(db, "ann", ("b1", "not_damaged"), ("b2", "cleared"))
    say(db, "bob", ("b3", "cleared"), ("b2", "not_damaged"))
    say(db, "eve", ("b9", "positive"))
    undo(db, "eve")
    times = dict(db.execute("SELECT analyst, max(at) FROM label_event GROUP BY analyst").fetchall())
    assert list(analysts.by_analyst(db).items()) == [
        ("bob", AnalystFacts(2, times["bob"])),  # b1, which ann has decided since, and b2
        ("ann", AnalystFacts(1, times["ann"])),
        ("eve", AnalystFacts(0, times["eve"])),
    ]


def test_conflicts_are_buildings_whose_last_answers_differ(db: Connection) -> None:
    say(db, "ann", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"), ("b4", "positive"))
    say(db, "bob", ("b1", "positive"), ("b2", "not_damaged"), ("b3", "cleared"))
    since = {who: labels.current(db, at=event)["b2"].at for who, event in (("ann", 2), ("bob", 6))}
    answers = [("ann", "positive", since["ann"]), ("bob", "not_damaged", since["bob"])]
    assert analysts.conflicts(db) == [("b2", answers)]
    say(db, "ann", ("b2", "not_assessable"))
    assert [answer.analyst for answer in analysts.conflicts(db)[0][1]] == ["bob", "ann"]  # oldest first
    say(db, "ann", ("b2", "not_damaged"))  # she changes her mind
    assert differing(db) == {}


def test_agreement_of_a_worked_example(db: Connection) -> None:
    """b1: + + (alike 1), b2: + - (0), b3: + + - (2 of 6 ordered pairs, 1/3), b4: one answer, not counted.

    Alike on average 4/9; of 7 answers 5 are positive: by chance (25 + 4) / 49 = 29/49; kappa (4/9 - 29/49) / (20/49).
    """
    say(db, "ann", ("b1", "positive"), ("b2", "positive"), ("b3", "positive"), ("b4", "positive"))
    say(db, "bob", ("b1", "positive"), ("b2", "not_damaged"), ("b3", "positive"))
    say(db, "eve", ("b3", "not_damaged"))
    kappa = pytest.approx((4 / 9 - 29 / 49) / (20 / 49), abs=1e-12)
    assert analysts.agreement(db) == Agreement(3, pytest.approx(1 / 3), kappa)
    assert analysts.agreement(db, among={"b1", "b4"}) == Agreement(1, 1.0, None)


def test_one_label_throughout_has_no_kappa_and_perfect_agreement_has_one(db: Connection) -> None:
    assert (analysts.by_analyst(db), analysts.conflicts(db), analysts.agreement(db)) == ({}, [], Agreement(0, None, None))
    for n, label, kappa in ((1, "positive", None), (2, "not_damaged", 1.0)):
        for analyst in ("ann", "bob"):
            say(db, analyst, (f"b{n}", label))
        assert analysts.agreement(db) == Agreement(n, 1.0, kappa)


@pytest.mark.parametrize("seed", range(2))
def test_agreement_equals_counting_every_pair(db: Connection, seed: int) -> None:
    rng = random.Random(seed)
    said: dict[str, dict[str, str]] = {}
    for analyst in ("ann", "bob", "eve"):
        pairs = [(f"b{i}", rng.choice(LABELS)) for i in range(20)]
        say(db, analyst, *pairs)
        for building, label in pairs:
            if label != "cleared":
                said.setdefault(building, {})[analyst] = label
    found = analysts.agreement(db)
    conflicts = differing(db)
    shared = {building: list(own.values()) for building, own in said.items() if len(own) > 1}
    assert conflicts == {building: said[building] for building, own in shared.items() if len(set(own)) > 1}
    alike = [sum(a == b for a, b in combinations(own, 2)) / len(list(combinations(own, 2))) for own in shared.values()]
    every = [label for own in shared.values() for label in own]
    chance = sum((every.count(label) / len(every)) ** 2 for label in LABELS)
    assert found.n == len(shared)
    assert found.share == pytest.approx(1 - len(conflicts) / len(shared))
    assert found.kappa == pytest.approx((sum(alike) / len(alike) - chance) / (1 - chance), abs=1e-12)
