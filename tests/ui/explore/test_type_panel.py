"""The part of the Explore screen where groups are looked for, named, merged and dropped."""

from __future__ import annotations

import os

from app_parts import key_like, press, show_panel, words
from model_parts import with_chips
from small_parts import unheld_job
from type_parts import IDS, KEPT, discovered

from pu_geo import jobs
from pu_geo.jobs.status import PAUSE
from pu_geo.project import events
from pu_geo.project.layout import Layout
from pu_geo.services.explore import discovering


def named(layout: Layout) -> dict[str, list[str]]:
    return {name: list(each.facts["building_ids"]) for name, each in discovering.types(layout).items()}


def test_an_empty_project_is_told_what_is_missing(project: Layout) -> None:
    app = show_panel("explore.type_panel", project)
    assert "There are no chips yet" in words(app)
    assert not app.button


def test_the_job_is_started_with_what_was_chosen(project: Layout, started: list[tuple[str, dict[str, object]]]) -> None:
    app = show_panel("explore.type_panel", with_chips(project))
    assert "No search yet" in words(app)
    for n_groups in (5, 0):
        app.number_input(key="types-groups").set_value(n_groups).run()
        press(app, "types-start")
    assert started == [("discover", {"seed": 0, "n_seeds": 3, "n_groups": n}) for n in (5, None)]
    app.number_input(key="types-groups").set_value(1).run()
    assert app.button(key="types-start").disabled
    assert "ask for 2 or more" in words(app)
    folder = unheld_job(project, "discover", {"n_seeds": 3, "preset": "standard"})
    epoch = {"stage": "training 2 of 3", "epoch": 4, "epochs": 9, "progress": 0.5}
    for kind, values in (("launched", {}), ("turn", {}), ("epoch", epoch)):
        events.append(folder, kind, values)
    lock = jobs.take_lock(folder)
    press(show_panel("explore.type_panel", project), f"pause-{folder.name}")
    assert (folder / PAUSE).exists()
    events.append(folder, "paused")
    os.close(lock)
    app = show_panel("explore.type_panel", project)
    assert "4 epochs of training 2 of 3 done" in words(app)
    assert {f"{key}-{folder.name}" for key in ("resume", "start-over")} <= {button.key for button in app.button}


def test_groups_are_named_merged_dropped_and_all_of_it_undone(project: Layout) -> None:
    layout = discovered(project)
    app = show_panel("explore.type_panel", layout)
    told = words(app)
    assert "**4 groups**, learned from 6 not damaged, 6 damaged" in told
    assert "**Group 1** · 8 buildings" in told
    assert "stable" in told
    app.text_input(key=f"name-{KEPT}-2").set_value("tarps | <b>")
    press(app, f"FormSubmitter:name-form-{KEPT}-2-Save")
    assert named(layout) == {"tarps | <b>": IDS[8:14]}
    app.multiselect(key=f"merge-{KEPT}").set_value(["2", "3"]).run()
    press(app, f"merge-now-{KEPT}")
    assert named(layout) == {"tarps | <b>": IDS[8:18]}
    assert "**Group 2+3**" in words(app)
    press(app, f"drop-{KEPT}-4")
    assert "Group 4, 1 building, was dropped." in words(app)
    press(app, f"back-{KEPT}-4")
    assert not discovering.proposal(layout).dropped
    for left in (1, 0, 0, 0):
        assert not app.button(key=key_like(app, f"types-undo-{KEPT}")).disabled
        press(app, key_like(app, f"types-undo-{KEPT}"))
        assert len(discovering.proposal(layout).dropped) == left
    assert named(layout) == {}


def test_undo_takes_back_no_act_that_the_page_did_not_show(project: Layout) -> None:
    layout = discovered(project)
    app = show_panel("explore.type_panel", layout)
    assert app.button(key=key_like(app, f"types-undo-{KEPT}")).disabled
    discovering.name_group(layout, KEPT, 0, "tarps", analyst="ann")
    app = show_panel("explore.type_panel", layout)
    discovering.name_group(layout, KEPT, 1, "mud", analyst="bob")
    press(app, key_like(app, f"types-undo-{KEPT}"))
    assert "Something else was decided since by bob" in words(app)
    assert set(named(layout)) == {"tarps", "mud"}
    app = show_panel("explore.type_panel", layout)
    for _ in range(2):
        discovering.undo(layout, KEPT, analyst="bob")
    press(app, key_like(app, f"types-undo-{KEPT}"))
    assert "Something else was decided since" in words(app)


def test_a_grade_is_no_name_an_empty_one_takes_it_away_and_merged_groups_split(project: Layout) -> None:
    layout = discovered(project)
    discovering.merge_groups(layout, KEPT, [0, 1], analyst="ann")
    discovering.name_group(layout, KEPT, 0, "tarps", analyst="ann")
    app = show_panel("explore.type_panel", layout)
    press(app, f"split-{KEPT}-1+2")
    assert [group.title for group in discovering.proposal(layout).shown] == ["1", "2", "3", "4"]
    for name, is_grade in (("destroyed", True), ("", False)):
        app.text_input(key=f"name-{KEPT}-1").set_value(name)
        press(app, f"FormSubmitter:name-form-{KEPT}-1-Save")
        assert ("is a grade of damage" in words(app)) is is_grade
    assert named(layout) == {"tarps": IDS[8:14]}
