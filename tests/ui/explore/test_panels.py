"""The panels of the Explore screen: clusters, the selection and damage types, the way back, and a press on a button that is gone."""

from pathlib import Path

from app_parts import Started, checked, key_like, press, show_panel, words
from clustered_parts import explored_project, looked
from model_parts import with_chips
from small_parts import logged_job
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest
from type_parts import IDS, KEPT, discovered

from pu_geo.answers import labeling
from pu_geo.explore import discovering, groups
from pu_geo.store import pseudo_positives, queues, store
from pu_geo.store.layout import Layout


def drawn(layout: Layout) -> AppTest:
    return show_panel("explore.group_panel", layout, "draw(layout, 'look', '', 'view')")


def test_a_cluster_is_chosen_by_key_accepted_and_taken_back(tmp_path: Path) -> None:
    layout = looked(explored_project(tmp_path))
    app = press(drawn(layout), "group-J")
    group = groups.grouping(layout, "look").groups[0]
    assert app.session_state["view:selected"] == list(group.building_ids)
    assert app.radio(key="view:groups").value == 0
    assert f"Accept adds {group.n_open} pseudo-positives to the next training" in words(app)
    app = press(app, "Accept")
    assert f"8 damaged + {group.n_open} pseudo-positives" in words(app)
    undo = key_like(app, "group-undo")
    groups.reject(layout, "look", groups.grouping(layout, "look").groups[1], analyst="bob")
    press(app, undo)
    assert len(store.call(layout, pseudo_positives.acts)) == 1, "undo takes back what the page showed"
    app = press(app, "group-J")
    assert app.radio(key="view:groups").value == 1
    stale = drawn(layout)
    number, _ = groups.newest(layout)
    groups.undo(layout, number, analyst="bob")
    press(stale, key_like(stale, "group-undo"))
    assert "stands no more" in words(stale)


def press_twice(app: AppTest, label: str) -> AppTest:
    """Press a button, and once more as it was before the first press had an effect, as a browser sends it: alone."""
    button = next(one for one in app.button if one.label.startswith(label))
    button.click().run()
    late = WidgetStates(widgets=[one for one in button.click().root.get_widget_states().widgets if one.id == button.id])
    return checked(app._run(late))


def n_answers(layout: Layout) -> int:
    """Count the answers that were given, also those that were given again."""
    with store.connect(layout) as db:
        return int(db.execute("SELECT count(*) FROM label_event").fetchone()[0])


def test_a_selection_is_labeled_once_and_queued(tmp_path: Path) -> None:
    layout = explored_project(tmp_path)
    before = n_answers(layout)
    state = {"view:selected": ["b1", "b2", "b5"]}
    app = show_panel("explore.selection_panel", layout, "draw(layout, '', 'view')", **state)
    assert "**3 buildings selected**" in words(app)
    app = press(app, "To the queue")
    (queued, *_) = queues.load_queues(layout, labeling.default_analyst())
    assert [one.building_id for one in queued.items] == ["b1", "b2", "b5"]
    press_twice(app, "Not damaged")
    assert n_answers(layout) == before + 3, "not twice: one undo takes all back"
    app = press(app, "To the queue")
    assert "None of these buildings is open" in words(app)


def named(layout: Layout) -> dict[str, list[str]]:
    return {name: list(each["building_ids"]) for name, each in discovering.types(layout).items()}


def test_the_job_is_started_with_what_was_chosen(project: Layout, started: Started) -> None:
    app = show_panel("explore.type_panel", with_chips(project), "draw(layout, '', 'view')")
    assert "No search yet" in words(app)
    for n_groups in (5, None):
        app.number_input(key="types-groups").set_value(n_groups).run()
        press(app, "types-start")
    assert started == [("discover", {"seed": 0, "n_seeds": 3, "n_groups": n, "preset": "quick"}) for n in (5, None)]
    epoch = {"stage": "training 2 of 3", "epoch": 4, "epochs": 9, "progress": 0.5}
    logged_job(project, "discover", ("epoch", epoch), ("paused", {}), n_seeds=3, preset="standard")
    assert "4 epochs of training 2 of 3 done" in words(show_panel("explore.type_panel", project, "draw(layout, '', 'view')"))


def test_groups_are_named_merged_dropped_and_all_of_it_undone(project: Layout) -> None:
    layout = discovered(project)
    app = show_panel("explore.type_panel", layout, "draw(layout, '', 'view')")
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
