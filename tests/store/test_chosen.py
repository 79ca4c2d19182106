"""What people chose stays chosen: the run that is shown, thresholds with their origin, and settings of the screens."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import small_parts
from mapped_parts import RUN, mapped_project
from small_parts import click, job_of

from pu_geo.assessment import random_audits
from pu_geo.errors import ProjectError, PuGeoError
from pu_geo.maps import damage_map, thresholds
from pu_geo.maps.publish_job import publish
from pu_geo.methods import catalog
from pu_geo.store import chosen, runs, store
from pu_geo.store.layout import Layout

N = 40


@pytest.fixture
def mapped(tmp_path: Path) -> Layout:
    return mapped_project(tmp_path, N)


def add_run(layout: Layout, run_id: str, method: str = "ranker", month: int = 2) -> None:
    facts = {"method": method, "created_at": f"2026-{month:02}-01T00:00:00.000Z", "threshold": 0.25}
    small_parts.add_run(layout, run_id, scores=np.linspace(0, 1, N), reasons={}, like=RUN, **facts)


def shown(layout: Layout) -> tuple[str, str | None]:
    """The run that is shown, which is the one on the live map, and why."""
    found = chosen.chosen_run(layout)
    with store.connect(layout) as db:
        assert runs.pinned(db) == found.run_id == runs.find(db, "chosen").run_id
    return found.run_id, chosen.why_chosen(layout)


def test_the_shown_run_is_a_persons_else_published_else_audited_else_recommended_else_the_newest(mapped: Layout) -> None:
    assert shown(mapped) == (RUN, "newest")
    add_run(mapped, "best-1", catalog.DEFAULT_METHOD, 2)
    assert shown(mapped) == ("best-1", "recommended")
    add_run(mapped, "quick-1", "ranker", 3)
    assert shown(mapped) == ("best-1", "recommended"), "an instant ranking does not replace it"
    random_audits.begin_audit(mapped, "quick-1", 30, "ann")
    assert shown(mapped) == ("quick-1", "audited")
    add_run(mapped, "best-2", catalog.DEFAULT_METHOD, 4)
    assert shown(mapped) == ("quick-1", "audited"), "no later run drops an audited map"
    publish(job_of(mapped), run_id=RUN, formats=["csv"], threshold=0.4)
    assert shown(mapped) == (RUN, "published")
    chosen.choose_run(mapped, "best-1")
    random_audits.begin_audit(mapped, "best-2", 30, "ann")
    publish(job_of(mapped), run_id="best-2", formats=["csv"], threshold=0.4)
    assert shown(mapped) == ("best-1", "person")
    chosen.choose_automatically(mapped)
    assert shown(mapped) == ("best-2", "published")
    shutil.rmtree(mapped.exports / "v2")  # somebody took it away
    assert shown(mapped) == (RUN, "published")
    assert [chosen.run(mapped, name).run_id for name in ("chosen", "latest", "best-1")] == [RUN, "best-2", "best-1"]
    with pytest.raises(ProjectError, match="no run 'nobody'"):
        chosen.choose_run(mapped, "nobody")


def test_each_run_keeps_its_threshold_and_who_set_it(mapped: Layout) -> None:
    add_run(mapped, "other-1")
    small_parts.add_run(mapped, "start-1", scores=np.linspace(0, 1, N), like=RUN, threshold=0.9, start_k=1234)
    assert chosen.threshold(mapped, "start-1") == (0.9, "start:1234")
    assert chosen.threshold(mapped, RUN) == (0.5, "run")
    chosen.choose_threshold(mapped, RUN, 0.3)
    chosen.choose_threshold(mapped, "other-1", 0.61237, "audit:check-1")
    assert chosen.threshold(mapped, RUN) == (0.3, "person")
    assert chosen.threshold(mapped, "other-1") == (0.6124, "audit:check-1")
    assert "accuracy assessment check-1" in chosen.threshold(mapped, "other-1").words
    for wrong in (-0.01, 1.01, float("nan")):
        with pytest.raises(ProjectError, match="scores lie between 0 and 1"):
            chosen.choose_threshold(mapped, RUN, wrong)
    arguments = {"run_id": RUN, "threshold": 0.3, "threshold_origin": "person"}
    assert thresholds.map_arguments(mapped, RUN, None) == thresholds.map_arguments(mapped, RUN, 0.3) == arguments
    assert thresholds.map_arguments(mapped, "other-1", 0.6124)["threshold_origin"] == "audit:check-1"
    assert thresholds.map_arguments(mapped, "other-1", 0.61)["threshold_origin"] == "person"


def test_the_top_k_are_flagged_of_those_without_an_answer(mapped: Layout) -> None:
    add_run(mapped, "other-1")  # b39 has the highest score
    click(mapped, "b39", "b38", label="not_damaged")
    thresholds.choose(mapped, "other-1", top=5)
    limit = chosen.threshold(mapped, "other-1")
    assert limit.origin == "top:5"
    found = damage_map.of_run(mapped, "other-1")
    assert (found.n["flagged"], found.n_open) == (5, 38)
    for wrong in (0, 39, True, 2.0):
        with pytest.raises(PuGeoError, match="38 are assessed and have no answer"):
            thresholds.choose(mapped, "other-1", top=wrong)  # type: ignore[arg-type]
    with pytest.raises(PuGeoError, match="both asked for"):
        thresholds.map_arguments(mapped, RUN, 0.3, 5)
    assert thresholds.map_arguments(mapped, "other-1", None, 3)["threshold_origin"] == "top:3"
    assert thresholds.map_arguments(mapped, "other-1", limit.value)["threshold_origin"] == "top:5"


def test_settings_of_screens_stay_and_the_log_of_them_is_never_changed(mapped: Layout) -> None:
    assert chosen.setting(mapped, "cell_m") == 500
    for side in (250, 250, 300):
        chosen.choose_setting(mapped, "cell_m", side)
    chosen.choose_setting(mapped, "profiles", ["unosat"])
    assert (chosen.setting(mapped, "cell_m"), chosen.setting(mapped, "profiles")) == (300, ["unosat"])
    with pytest.raises(ProjectError, match="is no setting"):
        chosen.choose_setting(mapped, "colour", 1)  # type: ignore[arg-type]
    with store.connect(mapped) as db:
        assert db.execute("SELECT count(*) FROM choice WHERE name = 'cell_m'").fetchone() == (2,)
        for statement in ("UPDATE choice SET value = '1'", "DELETE FROM threshold"):
            with pytest.raises(Exception, match="choices are never changed"):
                db.execute(statement)
