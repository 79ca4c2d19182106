"""The part of the Explore screen where groups are looked for, named, merged and dropped."""

from __future__ import annotations

import pytest
from model_parts import with_chips
from streamlit.testing.v1 import AppTest
from type_parts import IDS, KEPT, discovered

from pu_geo import jobs
from pu_geo.project.layout import Layout
from pu_geo.services.explore import discovering

SCRIPT = """
from pathlib import Path
from pu_geo.project.layout import Layout
from pu_geo.ui.explore import type_panel
type_panel.draw(Layout(Path({folder!r})))
"""


def shown(layout: Layout) -> AppTest:
    app = AppTest.from_string(SCRIPT.format(folder=str(layout.folder)), default_timeout=30).run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    return "\n".join(str(part.value) for part in (*app.markdown, *app.caption, *app.info, *app.error))


def named(layout: Layout) -> dict[str, list[str]]:
    return {name: list(each.facts["building_ids"]) for name, each in discovering.types(layout).items()}


def test_an_empty_project_is_told_what_is_missing(project: Layout) -> None:
    app = shown(project)
    assert "There are no chips yet" in words(app)
    assert not app.button


def test_the_job_is_started_with_what_was_chosen(project: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, dict[str, object]]] = []

    def start(_: Layout, task: str, args: dict[str, object]) -> str:
        started.append((task, args))
        return "1"

    monkeypatch.setattr(jobs, "start", start)
    app = shown(with_chips(project))
    assert "Nothing was looked for yet" in words(app)
    app.number_input(key="types-groups").set_value(5).run()
    app.button(key="types-start").click().run()
    assert not app.exception
    assert started == [("discover", {"seed": 0, "n_seeds": 3, "n_groups": 5})]
    app.number_input(key="types-groups").set_value(0).run()
    app.button(key="types-start").click().run()
    assert started[1][1]["n_groups"] is None


def test_one_group_cannot_be_asked_for(project: Layout) -> None:
    app = shown(with_chips(project))
    app.number_input(key="types-groups").set_value(1).run()
    assert app.button(key="types-start").disabled
    assert "ask for 2 or more" in words(app)


def test_groups_are_named_merged_dropped_and_all_of_it_undone(project: Layout) -> None:
    layout = discovered(project)
    app = shown(layout)
    told = words(app)
    assert "**4 groups**, learned from 6 not damaged, 6 damaged" in told
    assert "**Group 1** · 8 buildings" in told
    assert "stable" in told
    app.text_input(key=f"name-{KEPT}-2").set_value("tarps | <b>")
    app.button(key=f"FormSubmitter:name-form-{KEPT}-2-Save").click().run()
    assert named(layout) == {"tarps | <b>": IDS[8:14]}
    app.multiselect(key=f"merge-{KEPT}").set_value(["2", "3"]).run()
    app.button(key=f"merge-now-{KEPT}").click().run()
    assert named(layout) == {"tarps | <b>": IDS[8:18]}
    assert "**Group 2+3**" in words(app)
    app.button(key=f"drop-{KEPT}-4").click().run()
    assert "Group 4, 1 building, was dropped." in words(app)
    app.button(key=f"back-{KEPT}-4").click().run()
    assert not discovering.proposal(layout).dropped
    for left in (1, 0, 0, 0):
        assert not app.button(key=f"types-undo-{KEPT}").disabled
        app.button(key=f"types-undo-{KEPT}").click().run()
        assert not app.exception
        assert len(discovering.proposal(layout).dropped) == left
    assert named(layout) == {}


def test_undo_takes_back_no_act_that_the_page_did_not_show(project: Layout) -> None:
    layout = discovered(project)
    assert shown(layout).button(key=f"types-undo-{KEPT}").disabled
    discovering.name_group(layout, KEPT, 0, "tarps", analyst="ann")
    app = shown(layout)
    discovering.name_group(layout, KEPT, 1, "mud", analyst="bob")
    app.button(key=f"types-undo-{KEPT}").click().run()
    assert "Something else was decided since by bob" in words(app)
    assert set(named(layout)) == {"tarps", "mud"}
    app = shown(layout)
    for _ in range(2):
        discovering.undo(layout, KEPT, analyst="bob")
    app.button(key=f"types-undo-{KEPT}").click().run()
    assert "Something else was decided since" in words(app)


def test_a_grade_is_refused_in_words(project: Layout) -> None:
    layout = discovered(project)
    app = shown(layout)
    app.text_input(key=f"name-{KEPT}-1").set_value("destroyed")
    app.button(key=f"FormSubmitter:name-form-{KEPT}-1-Save").click().run()
    assert "is a grade of damage" in words(app)
    assert named(layout) == {}


def test_an_empty_name_takes_the_name_away_and_merged_groups_split(project: Layout) -> None:
    layout = discovered(project)
    discovering.merge_groups(layout, KEPT, [0, 1], analyst="ann")
    discovering.name_group(layout, KEPT, 0, "tarps", analyst="ann")
    app = shown(layout)
    app.button(key=f"split-{KEPT}-1+2").click().run()
    assert [group.title for group in discovering.proposal(layout).shown] == ["1", "2", "3", "4"]
    app.text_input(key=f"name-{KEPT}-1").set_value("")
    app.button(key=f"FormSubmitter:name-form-{KEPT}-1-Save").click().run()
    assert named(layout) == {"tarps": IDS[8:14]}
