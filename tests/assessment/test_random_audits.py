"""Random checks: drawn once, blind, shared out, kept, and void where somebody searched on meanwhile."""

from pathlib import Path

import numpy as np
import pytest
from mapped_parts import say
from small_parts import add_chips, click, small_project

from pu_geo.analysis.audit import design
from pu_geo.answers import presence, random_checks
from pu_geo.assessment import random_audits
from pu_geo.errors import PuGeoError
from pu_geo.store import labels, store
from pu_geo.store.layout import Layout

N = 60


@pytest.fixture
def chipped(tmp_path: Path) -> Layout:
    """60 buildings; two have no data, b0 is positive, b1 not damaged."""
    layout = small_project(tmp_path / "event.pugeo", N)
    features = np.random.default_rng(0).normal(size=(2, N, 8)).astype(np.float16)
    nodata = [0.9 if i in (3, 4) else 0.0 for i in range(N)]
    add_chips(layout, [f"b{i}" for i in range(N)], features=features, nodata_share=nodata)
    click(layout, "b0")
    click(layout, "b1", label="not_damaged")
    return layout


def shown(layout: Layout, analyst: str, check: random_checks.Check, **how: bool) -> list[str]:
    return [item.building_id for item in random_audits.check_queue(layout, analyst, check, **how).items]


def answer_all(layout: Layout, check: random_checks.Check, analyst: str) -> None:
    """Answer one queue of a check after another."""
    done = None
    for _ in range(3):
        queue = random_audits.advance_check(layout, analyst, random_checks.load(layout, check.id), done=done)
        done = queue.id
        for item in queue.items:
            say(layout, item.building_id, "not_damaged", analyst=analyst, check=random_checks.load(layout, check.id))


def test_a_stop_check_draws_what_nobody_answered_and_goes_on_as_it_needs(chipped: Layout) -> None:
    check = random_audits.begin_stop_check(chipped, "ann")
    assert sorted(check.sample.rows.tolist()) == sorted(set(range(N)) - {0, 1, 3, 4})
    first = random_audits.check_queue(chipped, "ann", check)
    assert len(first.items) == 20
    assert {item.kind for item in first.items} == {"audit"}
    assert random_audits.check_queue(chipped, "ann", check) == first  # the same after a reload
    for item in first.items:
        say(chipped, item.building_id, "not_damaged", check=random_checks.load(chipped, check.id))
    second = random_audits.advance_check(chipped, "ann", random_checks.load(chipped, check.id), done=first.id)
    assert not {item.building_id for item in second.items} & {item.building_id for item in first.items}
    view = random_audits.stop_view(chipped, random_checks.load(chipped, check.id), at_most_left=5)
    assert (view.n_checked, view.n_damaged, view.is_void) == (20, 0, False)
    assert 0 < view.n_more < 36


def test_two_analysts_share_the_work_and_a_second_reader_does_it_again(chipped: Layout) -> None:
    check = random_audits.begin_stop_check(chipped, "ann")
    ann, bob = shown(chipped, "ann", check), shown(chipped, "bob", random_checks.load(chipped, check.id))
    assert not set(ann) & set(bob)
    check = random_checks.load(chipped, check.id)
    assert shown(chipped, "eve", check, is_second=True) == []
    for building in ann[:3]:
        say(chipped, building, "not_damaged", analyst="ann", check=check)
    queue = random_audits.check_queue(chipped, "eve", check, is_second=True)
    queue = random_audits.advance_check(chipped, "eve", check, done=queue.id, is_second=True)
    assert sorted(item.building_id for item in queue.items) == sorted(ann[:3])
    say(chipped, ann[0], "positive", analyst="eve", check=check)
    queue = random_audits.advance_check(chipped, "eve", check, done=queue.id, is_second=True)
    assert sorted(item.building_id for item in queue.items) == sorted(ann[1:3])


def test_answers_of_a_check_can_be_corrected_and_teach_nothing(chipped: Layout) -> None:
    check = random_audits.begin_stop_check(chipped, "ann")
    (first, second, *_) = shown(chipped, "ann", check)
    check = random_checks.load(chipped, check.id)
    say(chipped, first, "not_damaged", analyst="ann", check=check)
    say(chipped, first, "positive", analyst="bob")  # a correction on the map
    say(chipped, second, "positive", analyst="ann", check=check)
    answers = random_audits.answers_of(chipped, "set")
    row, other = int(first[1:]), int(second[1:])
    assert (answers[0], answers[1], answers[3]) == (design.DAMAGED, design.UNDAMAGED, design.NOT_ASSESSABLE)
    assert (answers[row], answers[other]) == (design.DAMAGED, design.DAMAGED)
    assert random_audits.answered(chipped, check).n_counted == 2
    assert not random_audits.stop_view(chipped, check, 5).is_void  # a correction is no search
    with store.connect(chipped) as db:
        pu = labels.pu_set(db)
    assert not pu.is_positive[other]
    assert pu.is_excluded[other]


@pytest.mark.parametrize("place", [5, -1], ids=["shown", "drawn and not shown"])
def test_a_search_among_the_drawn_makes_a_stop_check_void(chipped: Layout, place: int) -> None:
    """Before: a click of the search on a building that was drawn counted as its check."""
    check = random_audits.begin_stop_check(chipped, "ann")
    drawn = shown(chipped, "ann", check)
    check = random_checks.load(chipped, check.id)
    say(chipped, drawn[0], "not_damaged", analyst="ann", check=check)
    assert not random_audits.stop_view(chipped, check, 5).is_void
    say(chipped, f"b{check.sample.rows[place]}", "positive", analyst="bob")
    view = random_audits.stop_view(chipped, check, 5)
    assert (view.is_void, view.n_checked, view.n_damaged) == (True, 1, 0)


def test_who_went_home_does_not_keep_an_audit_from_its_end(chipped: Layout) -> None:
    check = random_audits.begin_stop_check(chipped, "ann")
    gone = shown(chipped, "ann", random_checks.load(chipped, check.id))  # and never answered by ann
    answer_all(chipped, check, "bob")
    found = random_audits.answered(chipped, random_checks.load(chipped, check.id))
    assert (found.n_open, found.n_counted, found.state) == (0, N - 4, "finished")
    view = random_audits.stop_view(chipped, random_checks.load(chipped, check.id), at_most_left=0)
    assert (view.n_checked, view.n_more) == (N - 4, 0)
    with pytest.raises(PuGeoError, match="nothing left to check"):
        random_audits.begin_stop_check(chipped, "ann")
    assert set(gone) <= {f"b{row}" for row in found.sample.rows}


def test_one_check_is_open_at_a_time_one_analyst_leaves_and_the_others_go_on(chipped: Layout) -> None:
    first, check = (random_audits.begin_stop_check(chipped, "ann") for _ in range(2))
    assert not random_checks.load(chipped, first.id).is_open
    for name in ("ann", "bob"):
        random_audits.check_queue(chipped, name, check)
    random_audits.leave(chipped, check.id, "ann")
    still = random_checks.open_check(chipped)
    assert still.id == check.id
    assert [random_audits.takes_part(chipped, still, name) for name in ("ann", "bob")] == [False, True]
    assert [random_audits.others_in(chipped, still, name) for name in ("ann", "bob")] == [["bob"], []]
    random_audits.leave(chipped, check.id, "bob")
    assert random_checks.open_check(chipped) is None, "nobody is left"
    again = random_audits.resume(chipped, check.id, "ann")
    assert [random_audits.takes_part(chipped, again, name) for name in ("ann", "bob")] == [True, False]
    random_audits.end(chipped, check.id)  # for those too who went home
    assert random_checks.open_check(chipped) is None
    assert random_audits.others_in(chipped, random_checks.load(chipped, check.id), "bob") == []


@pytest.mark.parametrize("is_here", [False, True])
def test_a_former_name_keeps_a_check_open_only_while_somebody_works_under_it(chipped: Layout, is_here: bool) -> None:
    check = random_audits.begin_stop_check(chipped, "analyst-k3f9")
    for name in ("analyst-k3f9", "zoe"):  # renamed in between
        random_audits.check_queue(chipped, name, check)
    if is_here:
        presence.exchange(chipped, {"session": "other", "analyst": "analyst-k3f9", "building": None, "since": 0})
    random_audits.leave(chipped, check.id, "zoe", former={"analyst-k3f9"})
    assert (random_checks.open_check(chipped) is not None) == is_here
