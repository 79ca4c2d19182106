"""The verbs admit, join and serve, as far as they need no connection."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from cli_parts import CommandLine
from federation_parts import NAME, agreed, led, with_pixels_of
from small_parts import job_of, need_extra

from pu_geo.cli import federation as cli
from pu_geo.errors import FederationError
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.federate_deployed_job import federate_lead
from pu_geo.federation.federating import Plan
from pu_geo.federation.member_job import OwnData, Part
from pu_geo.federation.simulated_job import SimulatedTransport
from pu_geo.store import federations, runs, store
from pu_geo.store.layout import Layout

need_extra("federated")
from pu_geo.federation.deployed import credentials, membership  # noqa: E402  # only with the extra

Pair = tuple[Layout, Layout]


def invited(leader: Layout, agreement: Agreement) -> membership.Invitation:
    """The leader's invitation to a federation without members."""
    folder = leader.federation(NAME)
    federations.write_agreement(folder, agreement.to_json())
    federations.write_members(folder, {})
    credentials.certify(folder / federations.TLS, "127.0.0.1")
    authority = (folder / federations.TLS / credentials.CA).read_text("ascii")
    return membership.Invitation(agreement, "127.0.0.1:9092", authority)


def asks(agencies: Pair) -> Path:
    """Moore asks Joplin, which leads, for the class "flooded"."""
    (path,) = membership.accept(agencies[1], invited(agencies[0], agreed(agencies[0])), {"flooded": None})
    return path


@pytest.fixture
def request_file(agencies: Pair) -> Path:
    return asks(agencies)


def test_admit_shows_the_fingerprint_first_and_admits_whoever_read_it_out(
    agencies: Pair, request_file: Path, run: CommandLine
) -> None:
    folder = agencies[0].federation(NAME)
    words = ("federate", "admit", agencies[0].folder, NAME, request_file)
    fingerprint = membership.read_request(request_file).member.fingerprint
    assert fingerprint in run.text(*words)
    assert federations.members(folder) == {}
    assert "Do not admit it" in run.refused(*words, "--fingerprint", "0" * 32)
    assert federations.members(folder) == {}
    assert run.json(*words, "--fingerprint", fingerprint)["class_name"] == "flooded"
    assert federations.members(folder)[2].fingerprint == fingerprint


def test_admit_and_status_warn_whoever_leads_of_other_pixels(agencies: Pair, run: CommandLine) -> None:
    known_m, other_m = with_pixels_of(agencies[1], 4)
    path = asks(agencies)
    words = ("federate", "admit", agencies[0].folder, NAME, path)
    (warning,) = run.json(*words)["warnings"]
    assert f"knows pixels of {known_m:.2f} m; in flooded they have {other_m:.2f} m" in warning
    assert warning in run.text(*words)
    status = ("federate", "status", agencies[0].folder)
    assert run.json(*status)["federations"][0]["warnings"] == []
    assert warning in run.text(*words, "--fingerprint", membership.read_request(path).member.fingerprint)
    assert run.json(*status)["federations"][0]["warnings"] == [warning]
    assert warning in run.text(*status)


def test_the_ledger_marks_what_stays_with_the_leaders_own_classes(agencies: Pair) -> None:
    leader, far = agencies
    folder, agreement = leader.federation(NAME), agreed(leader, quorum=2)
    invitation = invited(leader, agreement)
    membership.write_invitation(folder, invitation)
    for layout, own in ((leader, {"rest": None, "destroyed": None}), (far, {"flooded": None}), (far, {"rest": None})):
        for path in membership.accept(layout, invitation, own):  # in the end the leader gives "rest" away
            asked = membership.read_request(path)
            membership.admit(leader, NAME, asked, asked.member.fingerprint, replace=True)
    held = ((far, "rest"), (leader, "destroyed"), (far, "flooded"))
    data = {layout: OwnData.read(layout, agreement) for layout in agencies}
    led(agreement, agencies, SimulatedTransport({row: Part(data[layout], name) for row, (layout, name) in enumerate(held)}))
    for layout, here in ((leader, {"member of destroyed", "leader"}), (far, set[str]())):
        sent = federations.ledger(layout.federation(NAME))
        assert sent
        assert {one.to for one in sent if one.is_here} == here
    assert {one.to for one in federations.ledger(folder) if not one.is_here} == {"member of rest", "member of flooded"}


def test_join_refuses_what_is_no_invitation_and_serve_an_unknown_federation(
    agencies: Pair, request_file: Path, run: CommandLine
) -> None:
    assert "is no invitation" in run.refused("federate", "join", agencies[1].folder, request_file, "--as", "flooded")
    assert "has no federation 'floods'" in run.refused("federate", "serve", agencies[1].folder, "floods")


def test_serve_ends_with_a_run_of_the_leader_and_makes_it_once(
    agencies: Pair, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = agencies[0]
    led(agreed(leader), agencies)
    real = cli.run_job

    def served(layout: Layout, task: str, *args: Any, **more: Any) -> Any:
        done = {"rounds": 3, "members": 3, "warnings": []}
        return done if task == "federate_lead" else real(layout, task, *args, **more)

    monkeypatch.setattr(cli, "run_job", served)
    first, again = (run.json("federate", "serve", leader.folder, NAME)["run"] for _ in range(2))
    assert first == again
    assert [one.run_id for one in store.call(leader, runs.all_runs)] == [first]
    assert f"the model is the run {first}" in run.text("federate", "serve", leader.folder, NAME)
    (leader.federation(NAME) / federations.MODEL).unlink()
    assert "holds no class, so it has no model" in run.text("federate", "serve", leader.folder, NAME)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("", "is no name or IPv4 address"),
        ("führung.example.org", "is no name or IPv4 address"),
        ("192.0.2.700", "is no name or IPv4 address"),
        ("2001:db8::7", "is an IPv6 address"),
        ("leader.example.org:9092", "is no name or IPv4 address"),
    ],
)
def test_an_address_that_is_none_leaves_no_federation_behind(agencies: Pair, host: str, words: str) -> None:
    with pytest.raises(FederationError, match=words) as refused:
        federate_lead(
            job_of(agencies[0]), federation=NAME, plan=asdict(Plan("Floods", ("flooded",), 1, 5.0, host=host)), own={}
        )
    assert "such as leader.example.org" in refused.value.hint
    assert federations.ids(agencies[0]) == []


def test_join_connects_once_the_fingerprint_was_compared_and_to_no_other_leader_after_that(
    agencies: Pair, request_file: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(
        "pu_geo.cli.federation.run_job", lambda layout, name, *_, **__: ran.append(name) or {"rounds": 1, "run_id": "r"}
    )  # fmt: skip
    folder = agencies[1].federation(NAME)
    real = membership.read_invitation(folder / federations.INVITATION)
    credentials.certify(tmp_path / "other", "127.0.0.1")
    forged = replace(real, certificate=(tmp_path / "other" / credentials.CA).read_text("ascii"))
    paths = [membership.write_invitation(tmp_path / name, each) for name, each in (("real", real), ("forged", forged))]
    words = ("federate", "join", agencies[1].folder)
    shown = run.text(*words, paths[1], "--as", "flooded")
    assert forged.fingerprint in shown
    assert "Nothing was sent yet" in shown
    assert "Do not join" in run.refused(*words, paths[1], "--as", "flooded", "--fingerprint", real.fingerprint)
    assert not ran
    run.text(*words, paths[0], "--as", "flooded", "--fingerprint", real.fingerprint.lower())
    run.text(*words, paths[0], "--as", "flooded")  # compared before
    assert ran == ["federate_join"] * 2
    assert "the one that this project joined with" in run.refused(*words, paths[1], "--as", "flooded")
    assert membership.read_invitation(folder / federations.INVITATION) == real
