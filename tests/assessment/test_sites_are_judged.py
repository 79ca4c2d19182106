"""An event of several sites: a queue asks each in its turn, a ranking names those without answers, audits have strata of each."""

from pathlib import Path

import numpy as np
import pytest
from mapped_parts import RUN, TRUTH, answer_audit, mapped_project
from small_parts import add_chips, add_run, click, small_project

from pu_geo.analysis.audit import design as audit
from pu_geo.answers import queueing
from pu_geo.assessment import auditing
from pu_geo.store import population, store

SIZES = (300, 80, 20)


def test_an_audit_draws_from_each_site_and_says_which_it_can_judge(tmp_path: Path) -> None:
    town = mapped_project(tmp_path, sum(SIZES), SIZES)
    check = answer_audit(town, 120)
    of, sample = np.repeat([0, 1, 2], SIZES), check.sample
    assert len({(site, stratum) for site, stratum in zip(of[sample.rows], sample.stratum, strict=True)}) == len(sample.low)
    assert np.bincount(of[sample.rows[: 2 * len(sample.low)]])[2] >= 2
    rows = sample.rows[:120]
    by_hand = sum(TRUTH[rows] / sample.inclusion()[sample.stratum[:120]])
    assert auditing.view(town, RUN).total.value == pytest.approx(by_hand)
    first, second, third = auditing.by_site(town, RUN, 0.4)
    for one, site in ((first, 0), (second, 1)):
        assert one["total"]["low"] <= TRUTH[of == site].sum() <= one["total"]["high"]
    assert sum(one["at_threshold"]["n_checks"] for one in (first, second, third)) == auditing.at(town, RUN, 0.4).n_checks
    assert first["words"].startswith(f"Site 1: damaged {first['total']['value']:,.0f} (")
    assert third["words"].startswith("Site 3: no estimate of damaged, precision and recall; not enough: ")
    assert auditing.facts(town, RUN, 0.4)["sites"] == [first, second, third]


def test_sites_are_strata_as_far_as_the_checks_reach() -> None:
    scores, known = np.random.default_rng(0).random(2000), np.zeros(2000, np.bool_)
    sites = np.repeat(np.arange(20), 100)
    n_strata = [len(audit.design(scores, known, n=n, seed=0, sites=sites).low) for n in (30, 60, 200)]
    assert n_strata == [6, 20, 60]


def test_a_site_without_answers_is_asked_and_named(tmp_path: Path) -> None:
    town = small_project(tmp_path / "e.pugeo", 40, sites=(30, 5, 5))
    draw = np.random.default_rng(0)
    add_chips(town, [f"b{i}" for i in range(40)], features=draw.normal(size=(2, 40, 8)).astype(np.float16))
    click(town, "b0", "b35")
    add_run(town, ids=[f"b{i}" for i in range(40)])
    assert population.silent_sites(town) == "No answers yet in Site 2: the ranking there rests on other sites."
    queue = queueing.current(town, "ann")
    asked = [item.why.partition("; ")[2] for item in queue.items if item.kind == "exploit"]
    assert {*asked[:3]} == {*asked[3:6]} == {f"Site {k}'s turn" for k in (1, 2, 3)}
    with store.connect(town) as db:
        ids = ["b0", "b31", "gone"]
        assert population.sites(db, ids).of.tolist() == [0, 1, -1]
    assert population.of(town, "set", None).sites.of.tolist() == [0] * 30 + [1] * 5 + [2] * 5
