"""What runs are called on every screen: by what made them, or as an analyst named them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mapped_parts import RUN
from small_parts import add_run, facts_of

from pu_geo.errors import ProjectError
from pu_geo.project.layout import Layout
from pu_geo.services.train import run_names
from pu_geo.wording import day_and_time

AT = "2026-11-22T11:29:08.123+00:00"


def test_a_run_is_called_by_what_made_it_and_when(mapped: Layout) -> None:
    run, at = replace(facts_of(mapped, RUN), created_at=AT), day_and_time(AT)
    assert run_names.usual(run) == f"Instant ranker, {at}"
    assert run_names.usual(replace(run, method="propagation")) == f"Propagated ranking, {at}", "it has one preset"
    assert run_names.usual(replace(run, method="ncpu", preset="paper")) == f"NcPU paper, {at}"
    assert run_names.usual(replace(run, method="gone", from_model={"file": "x"})) == f"gone from elsewhere, {at}"
    assert run_names.usual(replace(run, method="ncpu", feature_set="vit")) == f"NcPU quick on vit, {at}"
    layered = replace(
        run, method="herocon", feature_set="layers-1a2b", feature_maker={"kind": "layers"}, views=("sar-post", "pre", "post")
    )
    assert run_names.usual(layered) == f"HeroCon quick on sar-post + pre + post, {at}"
    assert run_names.usual(replace(layered, views=tuple("abcde"))) == f"HeroCon quick on 5 layers, {at}"
    federated = replace(
        run, method="fedaws", preset="federated", feature_set="shared-1", federation={"title": "June floods"}
    )
    assert run_names.usual(federated) == f"June floods (FedAwS), {at}"
    assert run_names.usual(replace(federated, from_model={"file": "x"})) == f"June floods (FedAwS from elsewhere), {at}"
    long = run_names.usual(replace(federated, federation={"title": "Floods of the river and of its small arms"}))
    assert long == f"Floods of the river and of… (FedAwS), {at}"


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
