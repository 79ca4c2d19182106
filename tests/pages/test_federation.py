"""The panel Federation of the Train page: folded, what is missing, a start that is refused, how one stands, and a finished one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_parts import plain, press, show
from federation_parts import CLASSES, agency, agreed, shared_set, with_pixels_of
from small_parts import click, small_project
from streamlit.testing.v1 import AppTest

from pu_geo import jobs, wording
from pu_geo.errors import FederationError
from pu_geo.federation.agreement import Agreement, FeatureSpace, Privacy
from pu_geo.federation.member import OwnData, feature_space
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.project import federations, grades, store
from pu_geo.project.federations import Admitted, Membership, Round, Sent
from pu_geo.project.layout import Layout
from pu_geo.services.project import projects
from pu_geo.services.train import federation
from pu_geo.services.train.federation import Plan
from pu_geo.ui.train import texts

pytestmark = pytest.mark.usefixtures("home")

SPACE = FeatureSpace("shared-1", "shared", 512, "ab" * 32, "pre+post", 24, 0.5)
OPEN = {"federation": True}


@pytest.fixture
def storm(tmp_path: Path) -> Layout:
    """A project with eight destroyed buildings and shared features."""
    layout = agency(tmp_path / "storm.pugeo", "destroyed")
    projects.open_project(str(layout.folder))
    return layout


@pytest.fixture
def with_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were installed: the forms are drawn, nothing of Flower is called."""
    monkeypatch.setattr(federation, "is_installed", lambda: True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    """Which jobs the page starts, none of which runs."""
    found: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(jobs, "start", lambda layout, task, args: found.append((task, dict(args))) or "job")
    return found


def with_federation(layout: Layout, *, n_rounds: int = 0, is_over: bool = False, **facts: object) -> Layout:
    """Give a project a federation that it leads, after some rounds of four, with the files that a real one has."""
    usual = {"id": "storm", "title": "Storm *and* flood"}
    made = Agreement(**{**usual, **facts}, classes=CLASSES, features=SPACE, settings=FedawsSettings(rounds=4))  # type: ignore[arg-type]
    folder = layout.federation(made.id)
    federations.write_agreement(folder, made.to_json())
    agencies = {row: Admitted(name, f"KEY {row}", project=f"Agency {row}") for row, name in enumerate(CLASSES)}
    federations.write_members(folder, agencies)
    federations.write_memberships(folder, [Membership("destroyed"), Membership("rest")])
    cosines = ((1.0, 0.0, -0.5), (0.0, 1.0, 0.5), (-0.5, 0.5, 1.0))
    for number in range(1, n_rounds + 1):
        late, refused = ((2,) if number == 1 else ()), ({2: "its change has a norm of 1e9"} if number == 2 else {})
        one = Round(number, store.now(), (0, 1), late, refused, 0.4, cosines, 1.0)
        federations.append_round(folder, one)
        sent = Sent(store.now(), "ask", "flooded", number, "head.weight", "float32", (64, 256), 65536, f"{number:064x}")
        federations.append_sent(folder, [sent])
    if is_over:
        (folder / federations.MODEL).write_bytes(b"model")
    return layout


def test_it_is_folded_for_who_takes_part_in_none(project: Layout) -> None:
    app = show("train", project)
    assert not app.toggle(key="federation").value
    assert "Each agency trains" not in plain(app)


def test_an_empty_project_says_what_is_missing(tmp_path: Path) -> None:
    app = show("train", store.create(tmp_path / "empty.pugeo", "Empty"), **OPEN)
    assert "There are no chips yet: cut them on the Imagery page." in plain(app)


@pytest.mark.usefixtures("with_flower")
def test_features_that_hold_imagery_do_not_do_and_shared_ones_are_made_here(
    project: Layout, started: list[tuple[str, dict[str, object]]]
) -> None:
    from model_parts import with_chips

    app = show("train", with_chips(project), **OPEN)
    assert "patches of this project's imagery" in plain(app)
    press(app, "federation-features")
    assert [(task, args["request"]["maker"]) for task, args in started] == [("features", "shared")]  # type: ignore[index]


def test_without_the_extra_it_says_what_to_install_and_offers_a_trial(
    storm: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[tuple[str, dict[str, object]]]
) -> None:
    monkeypatch.setattr(federation, "is_installed", lambda: False)
    water = agency(tmp_path / "water.pugeo", "flooded", seed=1)
    projects.open_project(str(water.folder))
    app = show("train", storm, **OPEN)
    assert 'pip install -c constraints-federated.txt "pu-geo[federated]"' in plain(app)
    app.text_input(key="trial-title").set_value("Trial").run()
    app.multiselect(key="trial-parties").set_value(["flooded · water.pugeo"]).run()
    app.text_input(key="trial-here").set_value("destroyed").run()
    press(app, "federation-simulate")
    assert started == []
    app.text_input(key=f"trial-{water.folder}").set_value("flooded").run()
    press(app, "federation-simulate")
    ((task, args),) = started
    assert (task, args["name"], args["settings"]) == ("federate_simulate", "trial", {"rounds": "30"})
    assert args["parties"] == [
        {"project": str(storm.folder), "classes": ["destroyed", "rest"], "types_from": None},
        {"project": str(water.folder), "classes": ["flooded"], "types_from": None},
    ]


@pytest.mark.usefixtures("with_flower")
def test_who_leads_chooses_name_types_and_noise(storm: Layout, started: list[tuple[str, dict[str, object]]]) -> None:
    app = show("train", storm, **OPEN)
    assert app.button(key="federation-lead").disabled
    app.text_input(key="federation-title").set_value("Storm & flood").run()
    app.text_input(key="federation-types").set_value("destroyed,  flooded , destroyed").run()
    app.selectbox(key="lead-class").set_value("destroyed").run()
    assert "8 damaged buildings of this project count as destroyed." in plain(app)
    app.selectbox(key="federation-privacy").set_value("local").run()
    app.number_input(key="federation-epsilon").set_value(3.0).run()
    assert "epsilon is 3 at delta 1e-05 for what one member" in plain(app)
    assert "for the 2 classes of this project together" in plain(app)
    press(app, "federation-lead")
    ((task, args),) = started
    assert task == "federate_lead"
    assert (args["federation"], args["types"]) == ("storm-flood", ["destroyed", "flooded"])
    assert args["own"] == [{"class_name": "destroyed", "types_from": None}, {"class_name": "rest", "types_from": None}]
    assert args["privacy"] == {"kind": "local", "epsilon": 3.0, "clip": 1.0}


@pytest.mark.usefixtures("with_flower")
def test_what_was_started_is_shown_and_its_form_closed(
    storm: Layout, started: list[tuple[str, dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = show("train", with_federation(storm, n_rounds=4, is_over=True))
    assert ":green-badge[finished]" in plain(app)
    app.toggle(key="federation-another").set_value(True).run()
    app.text_input(key="federation-title").set_value("June floods").run()
    app.text_input(key="federation-types").set_value("destroyed").run()
    press(app, "federation-lead")
    ((_, args),) = started
    monkeypatch.setattr(federation, "starting", lambda layout: [SimpleNamespace(is_active=True, job_id="job")])
    app.run()
    assert app.button(key="federation-lead").disabled, "it starts already"
    assert texts.STARTS in plain(app)
    monkeypatch.setattr(federation, "starting", lambda layout: [])
    with_federation(storm, id=args["federation"], title="June floods")
    app.run()
    assert app.selectbox(key="federation-shown").value == "june-floods"
    assert "**June floods** :gray-badge[not running]" in plain(app)
    assert not app.toggle(key="federation-another").value
    app.selectbox(key="federation-shown").set_value("storm").run()
    assert ":green-badge[finished]" in plain(app), "people can go back"


@pytest.mark.usefixtures("with_flower")
def test_what_was_joined_is_shown(storm: Layout, tmp_path: Path, started: list[tuple[str, dict[str, object]]]) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    made = agreed(storm)
    facts = {"federation-role": "Join", "invitation-path": str(written(tmp_path / "good", made))}
    app = show("train", with_federation(storm, n_rounds=4, is_over=True), **{"federation-another": True}, **facts)
    app.selectbox(key=f"join-{made.id}-class").set_value("destroyed").run()
    next(each for each in app.checkbox if each.key.startswith("join-same-")).check().run()
    press(app, "federation-join")
    assert app.selectbox(key="federation-shown").value == made.id
    assert not app.toggle(key="federation-another").value


@pytest.mark.usefixtures("with_flower")
def test_an_address_that_nobody_else_can_reach_is_named(storm: Layout, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    app = show("train", storm, **OPEN)
    assert "127.0.0.1 is this computer: only projects on it can join" in app.warning[-1].value.replace("\\", "")
    app.text_input(key="federation-host").set_value("leader.example.org").run()
    assert not app.warning
    made = agreed(storm)
    path = written(storm.federation(made.id), made)
    app = show("train", storm, **OPEN, **{"federation-role": "Join", "invitation-path": str(path)})
    assert "only projects on the leader's computer can join" in app.warning[-1].value.replace("\\", "")
    federations.write_agreement(storm.federation(made.id), made.to_json())
    federations.write_members(storm.federation(made.id), {})
    app = show("train", storm)
    assert "only projects on it can join with this invitation" in app.warning[-1].value.replace("\\", "")
    (large,) = [each.value for each in app.markdown if each.value.startswith("####")]
    first, last = (line.split() for line in large.strip("#` ").split("` `"))
    assert (len(first), " ".join(first + last)) == (4, federation.invitation(path).fingerprint), "read aloud in two lines"
    written(storm.federation(made.id), made, "192.0.2.7")
    assert not show("train", storm).warning


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:9000", "127.1.2.3", "localhost", "localhost:80"])
def test_loopback_is_this_computer(address: str) -> None:
    assert federation.is_local(address)
    assert not federation.is_local(address.replace("127.", "12.").replace("local", "other"))


@pytest.mark.usefixtures("with_flower")
def test_a_class_without_a_building_is_refused(tmp_path: Path, started: list[tuple[str, dict[str, object]]]) -> None:
    layout = agency(tmp_path / "calm.pugeo", "destroyed", label="not_damaged")
    app = show("train", layout, **OPEN)
    app.text_input(key="federation-title").set_value("Storm").run()
    app.text_input(key="federation-types").set_value("destroyed").run()
    app.selectbox(key="lead-class").set_value("destroyed").run()
    press(app, "federation-lead")
    assert "no damaged building of the class 'destroyed'" in plain(app)
    assert started == []


def test_the_screen_counts_the_buildings_that_a_member_takes(storm: Layout) -> None:
    """Grades by their own names, and a building of several types once."""
    with store.connect(storm) as db:
        major, minor = [one for one in grades.known(db) if one.is_offered][:2]
    click(storm, "b0", "b1", "b2", grade=major.id, damage_types=["roof"])
    click(storm, "b3", "b4", grade=minor.id, damage_types=["roof", "flooded"])
    click(storm, "b5", damage_types=["crushed"])
    found = {
        (one.name, one.types_from): one.n
        for one in federation.own_classes(storm)
        if one.types_from in (None, "answers", "grades")
    }
    assert found == {
        ("", None): 8, ("roof", "answers"): 3, ("flooded", "answers"): 2, (major.name, "grades"): 3, (minor.name, "grades"): 2,
    }  # fmt: skip
    types = tuple(dict.fromkeys(name for name, _ in found if name))
    own = OwnData.read(storm, Agreement("storm", "Storm", ("rest", *types), feature_space(storm, shared_set(storm))))
    for (name, source), n in found.items():
        if name:
            assert len(own.rows_of(name, source)) == n
            federation._require_labels(storm, [Membership(name, source)])
    for name, source in ((f"at least {minor.name}", "grades"), ("crushed", "answers")):
        with pytest.raises(federation.FederationError, match="no damaged building of the class"):
            federation._require_labels(storm, [Membership(name, source)])


def test_a_type_that_people_called_damaged_is_a_class_of_its_buildings_alone(storm: Layout) -> None:
    click(storm, "b0", "b1", "b2", damage_types=["damaged"])
    click(storm, "b3", "b4", damage_types=["flooded"])
    offered = {one.name: one.n for one in federation.own_classes(storm) if one.types_from == "answers"}
    assert offered == {"damaged": 3, "flooded": 2}
    agreement = Agreement("storm", "Storm", ("rest", *offered), feature_space(storm, shared_set(storm)))
    assert OwnData.read(storm, agreement).rows_of("damaged", "answers").tolist() == [
        0,
        1,
        2,
    ]  # and none that nobody gave a type


@pytest.mark.usefixtures("with_flower")
def test_a_file_that_is_no_invitation_is_refused_in_words(storm: Layout, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    app = show("train", storm, **OPEN, **{"federation-role": "Join", "invitation-path": str(tmp_path / "other.json")})
    assert "other.json" in app.error[-1].value
    assert "federation-join" not in {each.key for each in app.button}


@pytest.mark.usefixtures("with_flower")
def test_an_invitation_that_cannot_be_read_takes_nothing_else_away(storm: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> federation.Invitation:
        raise federation.FederationError(f"{path.name} is damaged.", "Ask for it again.", kind="invitation")

    monkeypatch.setattr(federation, "invitation", broken)  # which needs the extra
    layout = with_federation(storm, n_rounds=2)
    (layout.federation("storm") / federations.INVITATION).write_text("{", encoding="utf-8")
    app = show("train", layout, **{"federation-another": True})
    assert "invitation.json is damaged" in app.error[-1].value
    assert "**flooded** · Agency 2" in plain(app)
    assert {"ledger-storm", "federation-another"} <= {each.key for each in app.toggle}
    assert app.text_input(key="federation-title").value == ""


def written(folder: Path, agreement: Agreement, host: str = "127.0.0.1") -> Path:
    """Write an invitation of a leader of its own; return its path."""
    from pu_geo.federation.deployed import credentials, membership  # needs the extra

    credentials.certify(folder / "tls", [host])
    authority = (folder / "tls" / credentials.CA).read_text("ascii")
    return membership.write_invitation(folder, membership.Invitation(agreement, f"{host}:9000", authority))


def waiting(layout: Layout) -> tuple[Agreement, Any]:
    """Let a project lead a federation that nobody was admitted to yet; return what it agreed on, and its invitation."""
    from pu_geo.federation.deployed import membership  # needs the extra

    made = agreed(layout)
    folder = layout.federation(made.id)
    invitation = membership.read_invitation(written(folder, made))
    federations.write_agreement(folder, made.to_json())
    federations.write_members(folder, {})
    return made, invitation


def join_buttons(app: AppTest) -> tuple[bool, bool]:
    """Return whether the fingerprint is ticked as compared, and whether Join can be pressed."""
    (tick,) = [each for each in app.checkbox if each.key.startswith("join-same-")]
    return bool(tick.value), not app.button(key="federation-join").disabled


@pytest.mark.usefixtures("with_flower")
@pytest.mark.parametrize("is_replaced", [False, True], ids=["another path", "the same path"])
def test_a_compared_fingerprint_counts_for_no_other_file(
    storm: Layout, tmp_path: Path, started: list[tuple[str, dict[str, object]]], is_replaced: bool
) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    made = agreed(storm)
    good, evil = written(tmp_path / "good", made), written(tmp_path / "evil", made)
    app = show("train", storm, **OPEN, **{"federation-role": "Join", "invitation-path": str(good)})
    app.selectbox(key=f"join-{made.id}-class").set_value("destroyed").run()
    next(each for each in app.checkbox if each.key.startswith("join-same-")).check().run()
    assert join_buttons(app) == (True, True)
    if is_replaced:
        good.write_bytes(evil.read_bytes())
        press(app, "federation-join")
    else:
        app.text_input(key="invitation-path").set_value(str(evil)).run()
    assert join_buttons(app) == (False, False)
    assert (started, federation.ids(storm)) == ([], [])


def test_a_join_names_the_fingerprint_that_people_compared(
    storm: Layout, tmp_path: Path, started: list[tuple[str, dict[str, object]]]
) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    made = agreed(storm)
    good, evil = written(tmp_path / "good", made), written(tmp_path / "evil", made)
    own, seen = [Membership("destroyed")], federation.invitation(good).fingerprint
    with pytest.raises(FederationError, match="The invitation has the fingerprint"):
        federation.start_join(storm, str(evil), own, seen)
    assert federation.ids(storm) == []
    federation.start_join(storm, str(good), own, seen)
    assert [task for task, _ in started] == ["federate_join"]


@pytest.mark.usefixtures("with_flower")
def test_a_click_on_admit_counts_for_the_key_that_was_shown(storm: Layout, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    from pu_geo.federation.deployed import membership  # needs the extra

    made, invitation = waiting(storm)
    asked, other = (
        membership.accept(small_project(tmp_path / f"{name}.pugeo"), invitation, "flooded") for name in ("moore", "other")
    )
    app = show("train", storm, **{"request-path": str(asked)})
    (button,) = [each for each in app.button if each.key and each.key.startswith("admit-")]
    asked.write_bytes(other.read_bytes())
    press(app, button.key)
    assert federations.members(storm.federation(made.id)) == {}
    (button,) = [each for each in app.button if each.key and each.key.startswith("admit-")]
    press(app, button.key)
    assert [one.class_name for one in federations.members(storm.federation(made.id)).values()] == ["flooded"]


@pytest.mark.usefixtures("with_flower")
def test_the_waiting_room_and_the_members_warn_of_other_pixels(storm: Layout, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="comes with the extra federated")
    from pu_geo.federation.deployed import membership  # needs the extra

    made, invitation = waiting(storm)
    far = agency(tmp_path / "far.pugeo", "flooded")
    known_m, other_m = with_pixels_of(far, 4)
    asked = membership.accept(far, invitation, "flooded")
    words = f"knows pixels of {known_m:.2f} m; in flooded they have {other_m:.2f} m"
    assert words not in plain(show("train", storm))
    app = show("train", storm, **{"request-path": str(asked)})
    assert words in plain(app)
    federation.admit(storm, made.id, federation.request(asked))
    assert words in plain(show("train", storm))


def test_federations_of_one_title_are_told_apart(storm: Layout) -> None:
    for name, title in (("storm", "Storm"), ("storm-2", "Storm"), ("flood", "Flood")):
        with_federation(storm, id=name, title=title)
        os.utime(storm.federation(name) / federations.AGREEMENT, (0, 1_800_000_000))
    at = wording.day_and_time("2027-01-15T08:00:00+00:00")
    (choice,) = [one for one in show("train", storm).selectbox if one.label == texts.FEDERATIONS]
    assert sorted(choice.options) == ["Flood", f"Storm · {at} · storm", f"Storm · {at} · storm-2"]


def test_how_it_stands_is_read_from_the_projects_files(storm: Layout) -> None:
    app = show("train", with_federation(storm, n_rounds=2))
    assert app.toggle(key="federation").value, "open without a click"
    said = plain(app)
    assert "**Storm *and* flood** :gray-badge[not running]" in said
    assert "This project leads · its classes: rest and destroyed · 4 rounds · deadline of a round 10 min" in said
    assert "**flooded** · Agency 2 :red-badge[refused]" in said
    assert "its change has a norm of 1e9" in said
    assert "round 1: flooded did not answer in time" in said
    assert "there is no formal privacy" in said
    assert texts.ANGLES in said, "in the text, where a narrow screen does not cut it"
    assert "Classes took part in too few of the 2 rounds: 'flooded' in 0." in said
    now = federation.read(storm, "storm")
    assert [round(angle) for _, angle in now.angles] == [60, 60], "cosine 0.5 is 60 degrees"
    assert {each.key for each in app.button if each.key} & {"score-storm"} == set()


def test_noise_is_shown_with_its_epsilon_for_a_member_and_for_this_project(storm: Layout) -> None:
    app = show("train", with_federation(storm, privacy=Privacy("central", epsilon=8.0, delta=1e-5)))
    # It holds two classes, both in the sum that gets the noise: see the epsilon in tests/federation/test_privacy.py.
    assert "epsilon is 8 at delta 1e-05 for what one member, one class of an agency, contributes" in plain(app)
    assert "up to 18.1 for the 2 classes of this project together" in plain(app)
    assert "no formal privacy" not in plain(app)
    invited = federation.privacy_words({"kind": "local", "clip": 1.0, "epsilon": 8.0, "delta": 1e-5})
    assert "up to 11.9 for an agency that holds two, such as a damage type and rest" in invited


def test_the_ledger_lists_and_saves_each_tensor(storm: Layout) -> None:
    app = show("train", with_federation(storm, n_rounds=3), **{"ledger-storm": True})
    table = app.dataframe[-1].value
    assert table["Round"].tolist() == ["3", "2", "1"]
    assert table["Bytes"].sum() == 3 * 65536
    assert "3 entries, 197 kB in all" in plain(app)
    found = federation.ledger(storm, "storm")
    assert federation.ledger_csv(found).splitlines()[1].endswith(f"head.weight,float32,64 x 256,65536,{1:064x}")
    assert federation.ledger_lines(found).count("\n") == 3
    of_model = Sent(store.now(), "model", "flooded", 0, "class_vectors", "float32", (3, 8), 96, "0" * 64)
    assert federation.ledger_table([of_model])[0]["round"] == "", "and no None on the screen"


def test_what_stayed_on_this_machine_is_no_part_of_what_left_it(storm: Layout) -> None:
    layout = with_federation(storm, n_rounds=1)
    own = Sent(store.now(), "ask", "member of rest", 1, "head.weight", "float32", (64, 256), 65536, "0" * 64, is_here=True)
    federations.append_sent(layout.federation("storm"), [own, own])
    app = show("train", layout, **{"ledger-storm": True})
    assert "1 entry, 66 kB in all" in plain(app)
    assert "2 entries, 131 kB, stayed on this machine" in plain(app)
    assert app.dataframe[-1].value["Left this machine"].tolist() == [False, False, True]
    assert "trial on this machine" not in plain(app)


def test_a_trial_is_marked_as_one(storm: Layout) -> None:
    layout = with_federation(storm, n_rounds=4, is_over=True)
    folder = layout.federation("storm")
    federations.write_members(folder, {row: Admitted(name, project=f"P{row}") for row, name in enumerate(CLASSES)})
    lines = [Sent(**{**one.__dict__, "is_here": True}) for one in federations.ledger(folder)]
    (folder / federations.LEDGER).unlink()
    federations.append_sent(folder, lines)
    app = show("train", layout, **{"ledger-storm": True})
    assert ":violet-badge[trial on this machine]" in plain(app)
    assert "nothing was sent to another one" in plain(app)
    assert "deadline" not in plain(app)
    assert "no formal privacy" not in plain(app)
    assert "4 entries, 262 kB, passed between projects on this machine. Nothing left it." in plain(app)
    assert "in all: every tensor" not in plain(app)


def test_a_finished_one_scores_the_buildings(
    storm: Layout, started: list[tuple[str, dict[str, object]]], monkeypatch
) -> None:
    app = show("train", with_federation(storm, n_rounds=4, is_over=True))
    assert ":green-badge[finished]" in plain(app)
    monkeypatch.setattr(sys.modules["pu_geo.services.train.models"].model_files, "read", lambda path: SimpleNamespace())
    press(app, "score-storm")
    assert started == [("apply_model", {"path": str(storm.federation("storm") / federations.MODEL)})]


@pytest.mark.parametrize("title", ["Storm", "  ", "Überflutung – 2"])
def test_ids_are_made_of_titles_and_differ(title: str, project: Layout) -> None:
    first = federation._new_id(title, project)
    federations.write_agreement(project.federation(first), b"{}")
    assert federation._new_id(title, project) == f"{first}-2"


def test_a_trial_gets_an_id_that_is_free_in_each_project(
    storm: Layout, tmp_path: Path, started: list[tuple[str, dict[str, object]]]
) -> None:
    water = agency(tmp_path / "water.pugeo", "flooded", seed=1)
    federations.write_agreement(water.federation("trial"), b"{}")
    held = {storm.folder: [Membership("destroyed"), Membership("rest")], water.folder: [Membership("flooded")]}
    federation.start_simulation(storm, Plan("Trial"), held)
    assert [args["name"] for _, args in started] == ["trial-2"]


def test_one_class_alone_is_no_federation(storm: Layout) -> None:
    with pytest.raises(federation.FederationError, match="destroyed"):
        federation.start_simulation(storm, Plan("Trial"), {storm.folder: [Membership("destroyed")]})


def test_without_shared_features_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(federation.FederationError, match="no chips"):
        federation.start_lead(small_project(tmp_path / "bare.pugeo"), Plan("Storm", ("destroyed",)), [])
