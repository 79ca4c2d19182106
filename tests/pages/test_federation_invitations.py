"""Joining a federation and admitting members on the Train page: what people compared counts, for that file and that key alone."""

from pathlib import Path
from typing import Any

import pytest
from app_parts import Started, press, show
from federation_parts import agreed, storm, with_flower
from small_parts import need_extra, small_project
from streamlit.testing.v1 import AppTest

from pu_geo.errors import FederationError
from pu_geo.federation import federating
from pu_geo.federation.agreement import Agreement
from pu_geo.store import federations
from pu_geo.store.layout import Layout

need_extra("federated")
from pu_geo.federation.deployed import credentials, membership  # noqa: E402  # only with the extra

__all__ = ["storm", "with_flower"]
pytestmark = pytest.mark.usefixtures("home", "with_flower")
OPEN = {"research-tab": "Federation"}


def written(folder: Path, agreement: Agreement, host: str = "127.0.0.1") -> Path:
    """Write an invitation of a leader of its own; return its path."""
    credentials.certify(folder / "tls", host)
    authority = (folder / "tls" / credentials.CA).read_text("ascii")
    return membership.write_invitation(folder, membership.Invitation(agreement, f"{host}:9000", authority))


def waiting(layout: Layout) -> tuple[Agreement, Any]:
    """Let a project lead a federation that nobody was admitted to yet; return what it agreed on, and its invitation."""
    made = agreed(layout)
    folder = layout.federation(made.id)
    invitation = membership.read_invitation(written(folder, made))
    federations.write_agreement(folder, made.to_json())
    federations.write_members(folder, {})
    return made, invitation


def compared(app: AppTest, made: Agreement) -> AppTest:
    """Choose a class, and tick that the fingerprint is the leader's."""
    app.selectbox(key=f"join-{made.id}-class").set_value("destroyed").run()
    next(each for each in app.checkbox if each.key.startswith("join-same-")).check().run()
    return app


def join_buttons(app: AppTest) -> tuple[bool, bool]:
    """Return whether the fingerprint is ticked as compared, and whether Join can be pressed."""
    (tick,) = [each for each in app.checkbox if each.key.startswith("join-same-")]
    return bool(tick.value), not app.button(key="federation-join").disabled


def test_an_address_that_nobody_else_can_reach_is_named(storm: Layout) -> None:
    app = show("research", storm, **OPEN)
    assert "127.0.0.1 is this computer" in app.warning[-1].value.replace("\\", "")
    app.text_input(key="federation-host").set_value("leader.example.org").run()
    assert not app.warning
    made, _ = waiting(storm)
    path = storm.federation(made.id) / federations.INVITATION
    app = show("research", storm, **{"federation-another": True, "federation-role": "Join", "invitation-path": str(path)})
    for words in ("only projects on it can join with this invitation", "only projects on the leader's computer can join"):
        assert any(words in one.value.replace("\\", "") for one in app.warning)
    to_send, to_compare = [each.value for each in app.markdown if each.value.startswith("####")]
    for large in (to_send, to_compare):
        first, last = (line.split() for line in large.strip("#` ").split("` `"))
        assert (len(first), " ".join(first + last)) == (4, federating.invitation(path).fingerprint), "to be read aloud"
    written(storm.federation(made.id), made, "192.0.2.7")
    assert not show("research", storm).warning


@pytest.mark.parametrize("is_replaced", [False, True], ids=["another path", "the same path"])
def test_a_fingerprint_counts_for_no_other_file(storm: Layout, tmp_path: Path, started: Started, is_replaced: bool) -> None:
    made = agreed(storm)
    good, evil = written(tmp_path / "good", made), written(tmp_path / "evil", made)
    app = show("research", storm, **OPEN, **{"federation-role": "Join", "invitation-path": str(good)})
    assert join_buttons(compared(app, made)) == (True, True)
    if is_replaced:
        good.write_bytes(evil.read_bytes())
        press(app, "federation-join")
    else:
        app.text_input(key="invitation-path").set_value(str(evil)).run()
    assert join_buttons(app) == (False, False)
    assert (started, federations.ids(storm)) == ([], [])


def test_a_join_names_the_fingerprint_that_people_compared(storm: Layout, tmp_path: Path, started: Started) -> None:
    made = agreed(storm)
    good, evil = written(tmp_path / "good", made), written(tmp_path / "evil", made)
    own, seen = {"destroyed": None}, federating.invitation(good).fingerprint
    with pytest.raises(FederationError, match="The invitation has the fingerprint"):
        federating.start_join(storm, str(evil), own, seen)
    assert federations.ids(storm) == []
    federating.start_join(storm, str(good), own, seen)
    assert [task for task, _ in started] == ["federate_join"]


def test_a_click_on_admit_counts_for_the_key_that_was_shown(storm: Layout, tmp_path: Path) -> None:
    made, invitation = waiting(storm)
    members = (small_project(tmp_path / f"{name}.pugeo") for name in ("moore", "other"))
    asked, other = (membership.accept(member, invitation, {"flooded": None})[0] for member in members)
    app = show("research", storm, **{"request-path": str(asked)})
    (button,) = [each for each in app.button if each.key and each.key.startswith("admit-")]
    asked.write_bytes(other.read_bytes())
    press(app, button.key)
    assert federations.members(storm.federation(made.id)) == {}
    (button,) = [each for each in app.button if each.key and each.key.startswith("admit-")]
    press(app, button.key)
    assert [one.class_name for one in federations.members(storm.federation(made.id)).values()] == ["flooded"]
