"""The panel Federation of the Train page: folded, what is missing, a start that is refused, how one stands, and a finished one."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from app_parts import Started, plain, press, show
from federation_parts import CLASSES, agency, storm, with_federation, with_flower
from model_parts import with_chips

from pu_geo.federation import federating
from pu_geo.federation.agreement import Privacy
from pu_geo.lifecycle import projects
from pu_geo.store import federations, store
from pu_geo.store.federations import Member, Sent
from pu_geo.store.layout import Layout

__all__ = ["storm", "with_flower"]
pytestmark = pytest.mark.usefixtures("home")
OPEN = {"research-tab": "Federation"}


@pytest.mark.usefixtures("with_flower")
def test_it_is_folded_and_says_what_is_missing(project: Layout, tmp_path: Path, started: Started) -> None:
    empty = show("research", store.create(tmp_path / "empty.pugeo", "Empty"), **OPEN)
    assert "There are no chips yet: cut them on the Imagery page." in plain(empty)
    app = show("research", with_chips(project), **OPEN)
    assert "patches of this project's imagery" in plain(app)
    press(app, "federation-features")
    assert [(task, args["request"]["maker"]) for task, args in started] == [("features", "shared")]


def test_without_the_extra_it_says_what_to_install_and_offers_a_trial(
    storm: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    monkeypatch.setattr(federating, "is_installed", lambda: False)
    water = agency(tmp_path / "water.pugeo", "flooded", seed=1)
    projects.open_project(str(water.folder))
    app = show("research", storm, **OPEN)
    assert 'pip install -c constraints-federated.txt "pu-geo[federated]"' in plain(app)
    app.text_input(key="trial-title").set_value("Trial").run()
    app.multiselect(key="trial-parties").set_value(["flooded · water.pugeo"]).run()
    app.text_input(key="trial-types").set_value("destroyed, flooded").run()
    app.selectbox(key="trial-here-class").set_value("destroyed").run()
    press(app, "federation-simulate")
    assert started == []
    app.selectbox(key=f"trial-{water.folder}-class").set_value("flooded").run()
    press(app, "federation-simulate")
    ((task, args),) = started
    assert (task, args["federation"], args["plan"]["rounds"]) == ("federate_simulate", "trial", 30)
    assert args["parties"] == {str(storm.folder): {"destroyed": None, "rest": None}, str(water.folder): {"flooded": None}}


@pytest.mark.usefixtures("with_flower")
def test_who_leads_chooses_name_types_and_noise(storm: Layout, started: Started) -> None:
    app = show("research", storm, **OPEN)
    assert app.button(key="federation-lead").disabled
    app.text_input(key="federation-title").set_value("Storm & flood")
    app.text_input(key="federation-types").set_value("destroyed,  flooded , destroyed").run()
    app.selectbox(key="lead-class").set_value("destroyed").run()
    assert "8 damaged buildings of this project count as destroyed." in plain(app)
    app.selectbox(key="federation-privacy").set_value("local").run()
    app.number_input(key="federation-epsilon").set_value(3.0).run()
    assert "epsilon is 3 at delta 1e-05 for what one member" in plain(app)
    press(app, "federation-lead")
    ((task, args),) = started
    assert task == "federate_lead"
    assert (args["federation"], args["plan"]["types"]) == ("storm-flood", ("destroyed", "flooded"))
    assert args["own"] == {"destroyed": None, "rest": None}
    assert args["plan"]["privacy"] == {"kind": "local", "epsilon": 3.0, "clip": 1.0, "delta": 1e-5}


@pytest.mark.usefixtures("with_flower")
def test_what_was_started_is_shown_and_its_form_closed(storm: Layout, started: Started) -> None:
    app = show("research", with_federation(storm, n_rounds=4, is_over=True), **{"federation-another": True})
    app.text_input(key="federation-title").set_value("June floods")
    app.text_input(key="federation-types").set_value("destroyed").run()
    press(app, "federation-lead")
    with_federation(storm, id=started[0][1]["federation"], title="June floods")
    app.run()
    assert app.selectbox(key="federation-shown").value == "june-floods"
    assert "**June floods** :gray-badge[not running]" in plain(app)
    assert not app.toggle(key="federation-another").value
    app.selectbox(key="federation-shown").set_value("storm").run()
    assert ":green-badge[finished]" in plain(app), "people can go back"


def test_how_it_stands_and_what_left_this_machine_are_read_from_the_projects_files(storm: Layout) -> None:
    layout = with_federation(storm, n_rounds=2, privacy=Privacy("central", epsilon=8.0, delta=1e-5))
    own = Sent(store.now(), "ask", "member of rest", 1, "head.weight", "float32", (64, 256), 65536, "0" * 64, is_here=True)
    federations.append_sent(layout.federation("storm"), [own, own])
    app = show("research", layout, **{"ledger-storm": True})
    shown = plain(app)
    for words in (
        "**Storm *and* flood** :gray-badge[not running]",
        "leads · its classes: rest and destroyed · 4 rounds · deadline of a round 10 min",
        "**flooded** · Agency 2 :red-badge[refused]", "round 2: flooded refused: its change has a norm of 1e9", "round 1: flooded did not answer in time",
        "epsilon is 8 at delta 1e-05", "'flooded' in 0.", "2 entries, 131 kB in all", "2 entries, 131 kB, stayed on this machine",
    ):  # fmt: skip
        assert words in shown
    for words in ("no formal privacy", "trial on this machine"):
        assert words not in shown
    assert app.dataframe[-1].value["Stayed here"].tolist() == [True, True, False, False]
    assert "score-storm" not in {each.key for each in app.button}


def test_a_finished_trial_says_so_and_scores(storm: Layout, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = with_federation(storm, n_rounds=4, is_over=True)
    folder = layout.federation("storm")
    federations.write_members(folder, {row: Member(name, f"P{row}", 0.5) for row, name in enumerate(CLASSES)})
    (folder / federations.TLS).rmdir()
    lines = [Sent(**{**one.__dict__, "is_here": True}) for one in federations.ledger(folder)]
    (folder / federations.LEDGER).unlink()
    federations.append_sent(folder, lines)
    app = show("research", layout, **{"ledger-storm": True})
    for words in ("[trial on this machine]", "nothing was sent to another one", "4 entries, 262 kB, passed between"):
        assert words in plain(app)
    for words in ("deadline", "no formal privacy"):
        assert words not in plain(app)
    monkeypatch.setattr(sys.modules["pu_geo.runs.models"].model_files, "read", lambda path: SimpleNamespace())
    press(app, "score-storm")
    assert started == [("apply_model", {"path": str(folder / federations.MODEL)})]
