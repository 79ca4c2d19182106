"""The audit of a run: judged from its own answers, with what was known before as it is, and plain values for exports."""

import json

import numpy as np
import pytest
from mapped_parts import RUN, TRUTH, N, answer_audit, hand_out, say, say_all, say_checks
from small_parts import add_run, click, square_table

from pu_geo.analysis.audit import design as audit
from pu_geo.answers import random_checks
from pu_geo.assessment import auditing, random_audits
from pu_geo.errors import PuGeoError
from pu_geo.runs import training
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import contents, queues, run_names, runs, store
from pu_geo.store.layout import Layout, write_json


def test_an_audit_of_all_tells_the_truth(mapped: Layout) -> None:
    assert auditing.view(mapped, RUN) is auditing.at(mapped, RUN, 0.5) is None
    assert auditing.facts(mapped, RUN, 0.5) is None
    answer_audit(mapped, N - 2)  # two have no data
    found = auditing.view(mapped, RUN)
    n_damaged = int(TRUTH[2:].sum())
    assert (found.total.value, found.total.low, found.total.high) == (n_damaged, n_damaged, n_damaged)
    assert found.n == N - 2
    here = auditing.at(mapped, RUN, 0.3)
    assert (here.flagged, here.precision.value, here.recall.value) == (0, None, 1), (
        "nothing is flagged: all of it is answered"
    )


def test_a_part_of_it_bounds_the_truth_and_few_checks_are_not_enough(mapped: Layout) -> None:
    check = answer_audit(mapped, 12)
    found = auditing.view(mapped, RUN)
    assert found.total.value is None
    assert (found.calibration, "at least 5" in found.no_calibration) == (None, True)
    assert auditing.more_words(found, 120).startswith(
        "120 more take about 20 minutes at 10 seconds each. So far not enough: 12 answers"
    )
    longer = random_audits.extend(mapped, check.id, 120)
    np.testing.assert_array_equal(longer.sample.rows, check.sample.rows)
    found = auditing.view(mapped, RUN)
    assert (found.done.n_drawn, found.done.n_answered) == (150, 12)
    say_checks(mapped, longer, 150)
    found = auditing.view(mapped, RUN)
    assert found.total.low <= TRUTH[2:].sum() <= found.total.high
    assert found.total.low < found.total.high
    half = (found.total.high - found.total.low) / 2
    assert f"from ±{half:,.0f} to about ±0, in about" in auditing.more_words(found, N - 2 - 150), "all are checked then"
    (narrowed,) = (float(auditing.more_words(found, 100).split("to about ±")[1].split(",")[0]) for _ in "1")
    assert 0.4 * half < narrowed < 0.8 * half
    facts = auditing.facts(mapped, RUN, 0.5)
    assert json.loads(json.dumps(facts))["n_answered"] == 150
    assert set(facts["bands"]) == {"high_precision", "high_recall"}
    assert len(facts["calibration"]["score"]) == len(facts["calibration"]["p_low"])


def test_precision_is_of_the_flagged_alone_and_what_people_found_is_on_the_map(mapped: Layout) -> None:
    """Before: "Precision 42 % (42-49)" over "0 of 14 checks above the threshold found damage": own clicks counted."""
    scores = np.asarray(runs.array(mapped, RUN, "scores")).round(4)
    check = answer_audit(mapped, 200)
    before, limit = auditing.at(mapped, RUN, 0.3), 0.3
    others = np.setdiff1d(np.flatnonzero(TRUTH), [0, 1, *check.sample.rows[:200].tolist()])
    hidden = others[scores[others] < limit]
    assert len(hidden)
    say_all(mapped, hidden.tolist())  # found by a search since, below the threshold
    after = auditing.at(mapped, RUN, limit)
    assert (after.flagged, after.precision, after.damaged) == (before.flagged, before.precision, before.damaged)
    assert after.recall.value > before.recall.value
    is_open = random_audits.answers_of(mapped, "set") == OPEN
    flagged = is_open & (scores >= limit)
    assert after.flagged == flagged.sum()
    assert after.precision.low <= TRUTH[flagged].mean() <= after.precision.high
    choice = auditing.choose(auditing.view(mapped, RUN), recall=0.8)
    assert auditing.at(mapped, RUN, choice.estimated).recall.value >= 0.8
    facts = auditing.facts(mapped, RUN, limit)["at_threshold"]
    assert (facts["flagged"], facts["precision"]["value"]) == (after.flagged, after.precision.value), (
        "the export says the same"
    )


OPEN = audit.OPEN


def search_on(layout: Layout) -> None:
    """Click every damaged building that nobody has answered, as a good search does in the end."""
    known = random_audits.answers_of(layout, "set") != OPEN
    say_all(layout, np.flatnonzero(TRUTH & ~known).tolist())


def test_clicks_of_a_search_after_an_audit_was_left_are_no_checks(mapped: Layout) -> None:
    """Before: the drawn buildings that the search had clicked counted, the estimate was twice the TRUTH."""
    check = random_audits.begin_audit(mapped, RUN, 200, "ann")
    say_checks(mapped, check, 80)
    before = auditing.view(mapped, RUN)
    random_audits.leave(mapped, check.id, "ann")
    search_on(mapped)
    after = auditing.view(mapped, RUN)
    n_damaged = int(TRUTH[2:].sum())
    assert (before.done.state, after.done.state) == ("open", "reduced")
    assert (after.done.n_drawn, after.done.n_answered, after.done.n_counted) == (200, 80, 80)
    assert after.total.low <= n_damaged <= after.total.high
    assert after.total.value == pytest.approx(max(before.total.value or 0, n_damaged))
    facts = auditing.facts(mapped, RUN, 0.5)
    assert (facts["state"], facts["n_counted"]) == ("reduced", 80)


@pytest.mark.parametrize("is_left", [True, False])
def test_a_check_of_the_search_lets_no_click_into_an_audit(mapped: Layout, is_left: bool) -> None:
    """Of one that was left, or that Bob, who searches, takes no part in: the queue of the search has checks of its own."""
    check = random_audits.begin_audit(mapped, RUN, 40, "ann")
    say_checks(mapped, check, 3)
    if is_left:
        random_audits.leave(mapped, check.id, "ann")
    rows = check.sample.rows.tolist()
    hand_out(mapped, check, [f"b{row}" for row in rows[3:20]])  # the rest of the queue, on the screen when it was left
    say_all(mapped, rows[3:9])
    assert random_audits.answered(mapped, random_checks.load(mapped, check.id)).n_counted == 3
    say_check_of_search(mapped, f"b{rows[9]}", TRUTH[rows[9]], "ann" if is_left else "bob")
    found = random_audits.answered(mapped, random_checks.load(mapped, check.id))
    assert (found.n_counted, found.n_answered) == (3, 3)
    if is_left:
        random_audits.extend(mapped, check.id, 0)  # opened again: goes on with what is open, and has passed by what is known
    say(mapped, f"b{rows[10]}", "not_damaged", check=check)
    assert random_audits.answered(mapped, random_checks.load(mapped, check.id)).n_counted == 11


def test_two_audits_count_their_own_answers_and_one_that_is_opened_again_closes_the_other(mapped: Layout) -> None:
    first = random_audits.begin_audit(mapped, RUN, 40, "ann")
    say_checks(mapped, first, 3)
    hand_out(mapped, first, [f"b{row}" for row in first.sample.rows[3:20].tolist()])
    say_all(mapped, first.sample.rows[3:9].tolist())
    second = random_audits.begin_audit(mapped, RUN, N - 11, "ann")  # draws all that is open, the first one's rows too
    say_checks(mapped, second, N - 12)
    found = [random_audits.answered(mapped, random_checks.load(mapped, one.id)) for one in (first, second)]
    assert [(one.n_counted, one.n_answered) for one in found] == [(3, 3), (N - 12, N - 12)]
    random_audits.extend(mapped, first.id, 0)
    assert random_checks.open_check(mapped).id == first.id
    say(mapped, f"b{second.sample.rows[N - 12]}", "not_damaged", check=second)  # from a page that was left open
    assert random_audits.answered(mapped, random_checks.load(mapped, second.id)).n_answered == N - 12


def test_checks_of_an_audit_let_no_click_into_the_sample_of_the_search(mapped: Layout) -> None:
    drawn = audit.design(np.zeros(N), np.arange(N) < 2, n=40, seed=3, cuts=())
    arrays = {name: np.asarray(getattr(drawn, name)) for name in ("rows", "stratum", "low", "high", "n_drawn")}
    queues.save_state(mapped, "set", {**arrays, "is_shown": np.zeros(N, np.bool_), "recent": np.zeros(0, np.int64)})
    rows = drawn.rows[:40].tolist()
    for row in rows[:30]:
        say_check_of_search(mapped, f"b{row}", TRUTH[row])
    say_all(mapped, rows[30:38])
    before = auditing.how_many(mapped)
    check = random_audits.begin_audit(mapped, RUN, N - 40, "ann")
    say(mapped, f"b{rows[38]}", "not_damaged", check=check)
    random_audits.leave(mapped, check.id, "ann")
    after = auditing.how_many(mapped)
    assert (before.basis, before.n_checks, after.basis, after.n_checks) == ("queue", 30, "queue", 30)
    say_check_of_search(mapped, f"b{rows[39]}", False)
    assert auditing.how_many(mapped).n_checks == 40


def say_check_of_search(layout: Layout, building: str, is_damaged: bool, analyst: str = "ann") -> None:
    label = "positive" if is_damaged else "not_damaged"
    click(layout, building, label=label, analyst=analyst, shown="audit", inclusion=0.1)


def test_an_audit_that_was_left_at_once_is_void(mapped: Layout) -> None:
    check = random_audits.begin_audit(mapped, RUN, 100, "ann")
    say_checks(mapped, check, 10)
    random_audits.leave(mapped, check.id, "ann")
    search_on(mapped)
    found = auditing.view(mapped, RUN)
    assert found.done.state == "void"
    assert not found.total.is_enough
    told = auditing.how_many(mapped)
    assert (told.basis, told.audit_state, told.confirmed) == ("none", "void", int(TRUTH[2:].sum()))
    assert "not enough to estimate" in told.words


# How many are damaged


def test_without_checks_there_is_no_number_beside_the_confirmed(mapped: Layout) -> None:
    say_all(mapped, np.flatnonzero(TRUTH)[2:17].tolist())
    told = auditing.how_many(mapped)
    assert (told.basis, told.confirmed, told.n, told.n_not_covered) == ("none", 15, N - 2, 0)
    assert (told.total.value, told.total.low, told.total.high) == (None, None, None)
    assert told.words.startswith(
        "15 buildings are confirmed damaged. How many there are in all is not known before an accuracy assessment."
    )
    nothing = dict.fromkeys(("n", "x", "estimate", "low", "high", "run_id", "audit_state"))
    assert told.as_mapping() == {
        **nothing, "N": N - 2, "confirmed": 15, "not_covered": 0, "not_assessed": 2, "method": "not enough to estimate",
        "words": told.words,
    }  # fmt: skip


def test_an_audit_counts_the_confirmed_and_what_was_added_since(mapped: Layout) -> None:
    say_all(mapped, np.flatnonzero(TRUTH)[2:17].tolist())
    answer_audit(mapped, 100)
    before = auditing.how_many(mapped)
    with store.connect(mapped) as db:
        contents.add_footprints(db, square_table(N + 5))
    say(mapped, f"b{N}", "positive")
    say(mapped, f"b{N + 1}", "not_damaged")
    after = auditing.how_many(mapped)
    assert (before.basis, before.n, before.n_not_covered) == ("audit", N - 2, 0)
    assert (after.basis, after.n, after.n_not_covered) == ("audit", N, 3)
    assert after.confirmed == before.confirmed + 1
    assert after.total.value == pytest.approx((before.total.value or 0) + 1)
    assert after.confirmed <= after.total.low <= TRUTH[2:].sum() + 1
    assert "5 more are not assessed and not in this number. 3 of these came later" in after.words
    assert training.data_summary(mapped).n_not_assessed == after.n_not_assessed == 5, "as the map has them"


def test_an_audit_just_begun_does_not_take_the_estimate_away_and_its_run_is_named_beside_another(mapped: Layout) -> None:
    answer_audit(mapped, 100)
    before = auditing.how_many(mapped)
    random_audits.begin_audit(mapped, RUN, 50, "ann")
    after = auditing.how_many(mapped)
    assert after.total == before.total
    assert after.audit_state == "open"
    assert after.words_beside(RUN) == after.words
    run_names.rename(mapped, RUN, "first look")
    after = auditing.how_many(mapped)
    assert (
        after.words_beside("ranker-9")
        == f"{after.words} By the accuracy assessment of first look, another run than this one."
    )
    assert "50 of 50 checks are open" in after.words


def test_every_building_answered_needs_no_estimate(mapped: Layout) -> None:
    say_all(mapped, range(2, N))
    told = auditing.how_many(mapped)
    n_damaged = int(TRUTH[2:].sum())
    assert (told.basis, told.total.value, told.total.low, told.total.high) == ("all", n_damaged, n_damaged, n_damaged)
    assert told.n_not_assessed == 2  # without data
    assert told.words.startswith(f"{n_damaged} of {N - 2} buildings are damaged; ")
    assert "2 were not assessed" in told.words
    assert "not in it" in told.as_mapping()["method"]
    for row in range(2):
        say(mapped, f"b{row}", "not_assessable")  # a person's answer too
    told = auditing.how_many(mapped)
    assert (told.basis, told.n_not_assessed) == ("all", 2)


def test_what_a_run_does_not_assess_is_named_beside_the_number(mapped: Layout) -> None:
    """Before: "About 18 of 248 buildings are damaged", and no word of the 150 in a scene without answers."""
    groups = [0] * (N - 150) + [1] * 150
    write_json(mapped.chip_facts("set"), {**chip_facts(mapped, "set"), "sensor_group": groups, "look_group": groups})
    scores = np.asarray(runs.array(mapped, RUN, "scores"))
    add_run(mapped, "ranker-2", scores=scores, like=RUN, without_answers=(1,))
    answer_audit(mapped, 120, run_id="ranker-2")
    told = auditing.how_many(mapped)
    assert (told.basis, told.n, told.n_not_covered, told.n_not_assessed) == ("audit", 248, 0, 152)
    assert "152 more are not assessed and not in this number." in told.words
    plain = told.as_mapping()
    assert (plain["not_assessed"], plain["run_id"], plain["words"]) == (152, "ranker-2", told.words)
    last = N - 1
    say(mapped, f"b{last}", "positive")  # a person assessed one of them
    after = auditing.how_many(mapped)
    assert (after.n, after.n_not_assessed) == (249, 151)


def test_what_checks_buy_is_shown_before_the_start_and_an_impossible_number_is_refused(mapped: Layout) -> None:
    usual = auditing.plan(mapped, RUN)
    assert (usual.n, usual.fewest, usual.most) == (60, 30, N - 2)
    rows = auditing.offers(mapped, RUN, 0.5, 100)
    assert [row[:2] for row in rows] == [("30", "5 min"), ("60", "10 min"), ("100", "17 min"), ("120", "20 min")]
    for widths in zip(*(map(int, row[2].replace("±", "").split(" / ")) for row in rows), strict=True):
        assert sorted(widths, reverse=True) == list(widths), "as if 1 in 20 were damaged, and half"
    answer_audit(mapped, 100)  # about as wide as it was planned, though damage is not as rare as was supposed
    assert auditing.offers(mapped, RUN, 0.5, 40)[0][2:] != ("cannot be told",) * 3
    above_all = auditing.offers(mapped, RUN, 1.0, 30)[0]
    assert above_all[3] == "cannot be told", "hardly a check is above this threshold"
    for n in (0, 25, N + 1):
        with pytest.raises(PuGeoError, match=f"An accuracy assessment of {n} checks"):
            random_audits.begin_audit(mapped, RUN, n, "ann")
