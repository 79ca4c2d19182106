"""Leader and members in threads of one process, over TLS on loopback: what arrives, who is refused, and what a broken network does."""

import base64
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from small_parts import job_of, need_extra, small_project

from pu_geo.errors import FederationError, JobCancelled, ProjectError, PuGeoError
from pu_geo.federation import federate_deployed_job, rounds_job, wire_job
from pu_geo.federation.agreement import Agreement, FeatureSpace, Plan
from pu_geo.federation.deployed import fingerprints
from pu_geo.federation.wire_job import Message
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.store import federations
from pu_geo.store.federations import Member
from pu_geo.store.layout import Layout

need_extra("federated")
import httpx  # noqa: E402  # only with the extra
from flwr.supercore.date import now  # noqa: E402
from flwr.supercore.primitives.asymmetric import sign_message  # noqa: E402

from pu_geo.federation.deployed import credentials, membership, node_job, require_flower, superlink_job  # noqa: E402
from pu_geo.federation.deployed.leader_job import FlowerTransport, serving  # noqa: E402

pytestmark = pytest.mark.slow
SPACE = FeatureSpace("shared", "shared", 8, "0" * 64, "post", 32, 0.5)
SETTINGS = FedawsSettings(rounds=2, embedding_dim=4)
AGREEMENT = Agreement(
    "floods", "Floods", ("rest", "destroyed", "flooded"), SPACE, SETTINGS, deadline_s=60.0, quorum=2, tries=1
)
PATIENCE_S = 60.0
Change = Callable[[Message], Message]


def wait_until(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@dataclass
class Echo:
    """A member that sends back what it got, moved by a tenth, unless a test changes it."""

    class_name: str
    change: Change = lambda answer: answer
    asked: list[Message] = field(default_factory=list)
    model: Message | None = None
    noted: list[Message] = field(default_factory=list)

    def reply(self, message: Message) -> Message:
        if message.kind == wire_job.MODEL:
            self.model = message
            return Message(wire_job.RECEIVED, {}, {})
        self.asked.append(message)
        facts = {**message.facts, "class_name": self.class_name, "n_chips": 1, "loss": 0.5}
        return self.change(Message(wire_job.ANSWER, {name: each + 0.1 for name, each in message.tensors.items()}, facts))

    def note(self, message: Message) -> None:
        self.noted.append(message)


@dataclass
class Party:
    """A member in a thread.

    Attributes:
        said: what it reported.
        error: what ended it.
    """

    part: Any
    thread: threading.Thread
    is_over: threading.Event
    said: list[str]
    error: list[Exception] = field(default_factory=list)


class Federation:
    """Keys, members and the leader of a test."""

    def __init__(self, folder: Path, agreement: Agreement) -> None:
        self.folder, self.agreement, self.parties = folder, agreement, list[Party]()
        federations.write_agreement(folder, agreement.to_json())
        federations.write_members(folder, {})

    def admit(self, *rows: int) -> None:
        members = federations.members(self.folder)
        for row in rows:
            public = credentials.public_text(credentials.private_key(membership.key_path(self.folder, row)))
            members[row] = Member(self.agreement.classes[row], "", 0.5, fingerprints.of_key(public), public)
        federations.write_members(self.folder, members)

    def invitation(self) -> membership.Invitation:
        return membership.read_invitation(self.folder / federations.INVITATION)

    def join(self, row: int, part: Any = None, invitation: membership.Invitation | None = None) -> Party:
        part = part or Echo(self.agreement.classes[row])
        party = Party(part, threading.Thread(target=lambda: self._work(party, row, invitation)), threading.Event(), [])
        self.parties.append(party)
        party.thread.daemon = True
        party.thread.start()
        return party

    def _work(self, party: Party, row: int, invitation: membership.Invitation | None) -> None:
        try:
            node_job.take_part(
                invitation or self.invitation(), membership.key_path(self.folder, row), party.part, report=party.said.append,
                is_cancelled=party.is_over.is_set,
            )  # fmt: skip
        except (PuGeoError, JobCancelled) as error:
            party.error.append(error)

    def stop(self) -> None:
        for party in self.parties:
            party.is_over.set()
        for party in self.parties:
            party.thread.join(PATIENCE_S)


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Federation]:
    monkeypatch.setattr(node_job, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(node_job, "POLL_SECONDS", 0.05)
    require_flower(tmp_path)
    made = Federation(tmp_path, AGREEMENT)
    yield made
    made.stop()


@pytest.fixture
def leader(federation: Federation) -> Iterator[FlowerTransport]:
    """Serves; the members of all classes are admitted."""
    federation.admit(0, 1, 2)
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (transport, _):
        yield transport


def asks(number: int = 1) -> dict[int, Message]:
    theta = {"head.weight": torch.linspace(-1, 1, 12).reshape(3, 4), "head.bias": torch.zeros(3)}
    facts: dict[str, wire_job.Fact] = {"round": number, "agreement": AGREEMENT.digest}
    return {row: Message(wire_job.ASK, {**theta, "own_vector": torch.eye(4)[row]}, facts) for row in range(3)}


def model() -> Message:
    return Message(wire_job.MODEL, {"class_vectors": torch.eye(4)[:3]}, {"agreement": AGREEMENT.digest})


def exchange(leader: FlowerTransport, sent: dict[int, Message], deadline_s: float = PATIENCE_S) -> dict[int, Message | str]:
    return dict(leader.exchange(sent, deadline_s=deadline_s, stop=lambda: None, arrived=lambda _: None))


def test_a_member_gets_its_own_row_alone_and_all_arrives_to_the_bit(federation: Federation, leader: FlowerTransport) -> None:
    parties = [federation.join(row) for row in range(3)]
    sent = asks()
    came = exchange(leader, sent)
    for row, party in enumerate(parties):
        (got,), answer = party.part.asked, came[row]
        assert isinstance(answer, Message)
        assert got.tensors.keys() == sent[row].tensors.keys()
        assert all(torch.equal(got.tensors[name], each) for name, each in sent[row].tensors.items())
        assert torch.equal(answer.tensors["head.bias"], torch.full((3,), 0.1))
        assert torch.equal(answer.tensors["own_vector"], sent[row].tensors["own_vector"] + 0.1)
        assert (answer.round, answer.facts["class_name"], answer.facts["loss"]) == (1, AGREEMENT.classes[row], 0.5)
    arrived: list[int] = []
    leader.exchange(dict.fromkeys(range(3), model()), deadline_s=PATIENCE_S, stop=lambda: None, arrived=arrived.append)
    assert sorted(arrived) == [0, 1, 2]
    for party in parties:
        party.thread.join(PATIENCE_S)
        assert torch.equal(party.part.model.tensors["class_vectors"], torch.eye(4)[:3])
        assert not party.error


def test_who_is_away_is_missing_after_the_deadline_and_takes_part_again(
    federation: Federation, leader: FlowerTransport
) -> None:
    federation.join(0)
    assert set(exchange(leader, asks(), deadline_s=3.0)) == {0}
    federation.join(2)
    asked = {row: ask for row, ask in asks(2).items() if row != 1}
    assert set(exchange(leader, asked)) == {0, 2}


def test_a_member_that_was_killed_at_work_gets_its_ask_again_once_it_is_back(
    federation: Federation, leader: FlowerTransport
) -> None:
    release, is_at_work = threading.Event(), threading.Event()

    def hang(answer: Message) -> Message:
        is_at_work.set()
        release.wait(PATIENCE_S)
        return answer

    federation.join(1, Echo("destroyed", hang))
    found: dict[int, Message | str] = {}
    asked = {1: asks()[1]}
    round_of = threading.Thread(target=lambda: found.update(exchange(leader, asked)), daemon=True)
    round_of.start()
    assert is_at_work.wait(PATIENCE_S)
    back = federation.join(1)  # the leader still takes the one before for alive
    round_of.join(PATIENCE_S)
    release.set()
    assert isinstance(found[1], Message)
    assert len(back.part.asked) == 1


def test_a_key_that_is_not_admitted_waits_and_takes_part_once_it_is(federation: Federation) -> None:
    federation.admit(0)
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (leader, _):
        stranger = federation.join(2)
        wait_until(lambda: any("waiting to be admitted" in words for words in stranger.said))
        public = credentials.public_text(credentials.private_key(membership.key_path(federation.folder, 2)))
        assert fingerprints.of_key(public) in stranger.said[-1]
        assert fingerprints.of_key(public) in leader.link.gate.refused
        assert not leader.online()
        federation.admit(2)
        assert set(exchange(leader, {2: asks()[2]})) == {2}
        federation.stop()


def test_a_server_with_another_certificate_is_refused_in_words(federation: Federation, leader: FlowerTransport) -> None:
    credentials.certify(federation.folder / "other", "127.0.0.1")
    real = federation.invitation()
    fake = replace(real, certificate=(federation.folder / "other" / credentials.CA).read_text("ascii"))
    party = federation.join(1, invitation=fake)
    party.thread.join(PATIENCE_S)
    (error,) = party.error
    assert isinstance(error, FederationError)
    assert "is not the leader of the invitation" in error.problem
    assert "Do not go on" in error.hint
    assert not party.part.asked


def test_a_leader_that_runs_another_version_is_refused_before_anything_is_fetched(
    federation: Federation, leader: FlowerTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_job, "app_hash", lambda: "0" * 64)
    party = federation.join(1)
    wait_until(lambda: list(leader.online()) == [1] or party.error)
    exchange(leader, {1: asks()[1]}, deadline_s=3.0)
    party.thread.join(PATIENCE_S)
    assert "another application, or another version" in str(party.error)
    assert not party.part.asked


def test_a_bad_answer_is_refused_with_its_reason_and_the_round_completes(
    federation: Federation, leader: FlowerTransport
) -> None:
    def only_first(answer: Message) -> Message:  # a class that takes part in no round ends the federation
        return answer._replace(facts={**answer.facts, "class_name": "x" * 100_000}) if answer.round == 1 else answer

    deployed = Federation(small_project(federation.folder / "p.pugeo").federation(AGREEMENT.id), AGREEMENT)
    federation.parties = deployed.parties
    deployed.admit(0, 1, 2)
    with serving(deployed.folder, AGREEMENT, "127.0.0.1") as (transport, _):
        bad = deployed.join(1, Echo("destroyed", only_first))
        good = [deployed.join(0), deployed.join(2)]
        wait_until(lambda: len(transport.online()) == 3)
        rounds_job.lead(job_of(Layout(federation.folder / "p.pugeo")), AGREEMENT, transport)
        first = federations.rounds(deployed.folder)[0]
        assert first.taking_part == [0, 2]
        assert "text of 100,000 characters" in first.refused[1]
        assert all(one.has_model for one in federations.members(deployed.folder).values())
        assert all(len(party.part.asked) == 2 for party in good)
        theta = bad.part.model.theta
        before = rounds_job.network_job.start(AGREEMENT).theta
        moved = max(float((theta[name] - each).abs().max()) for name, each in before.items())
        assert moved == pytest.approx(0.2, abs=1e-4)  # two rounds of a tenth: nothing of the bad answer


@pytest.mark.parametrize(
    "error",
    [
        ValueError("cannot reshape /home/ann/secret.npy"),
        ProjectError("/home/ann/secret.npy is damaged.", "Restore it.", kind="lost"),
        FederationError("The training diverged." + 400 * "x", "Ask for a smaller lr."),
    ],
    ids=["value", "project", "federation"],
)
def test_words_of_a_refusal_are_noted_before_they_leave_and_hold_no_path(
    federation: Federation, leader: FlowerTransport, error: Exception
) -> None:
    def fail(answer: Message) -> Message:
        raise error

    party = federation.join(1, Echo("destroyed", fail))
    came = exchange(leader, {1: asks()[1]})[1]
    party.thread.join(PATIENCE_S)
    assert str(error) in str(party.error) if isinstance(error, PuGeoError) else party.error == []
    assert party.part.noted == [Message(wire_job.REFUSAL, {}, {"words": came})]
    assert came == (error.problem[:300] if isinstance(error, FederationError) else node_job.OWN_TROUBLE)
    assert any(str(error) in each for each in party.said)  # here it is said in full


def test_strangers_reach_the_fleet_api_alone_and_only_with_an_admitted_key(
    federation: Federation, leader: FlowerTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.create_default_context(cafile=str(federation.folder / "tls" / credentials.CA))
    public = credentials.public_text(credentials.private_key(membership.key_path(federation.folder, 1)))
    header = base64.b64encode(public.encode()).decode()
    with httpx.Client(base_url=f"https://{federation.invitation().address}", verify=tls, trust_env=False) as client:

        def status(path: str, **more: Any) -> int:
            return client.post(path, **more).status_code

        assert client.get("/docs").status_code == 404
        for path in (
            "/v1/control/start-run", "/v1/control/register-node", "/v1/fleet/register-node", "/v1/fleet/get-fab", "/v1/runtime/acquire-task",
        ):  # fmt: skip
            assert status(path, headers={"flwr-public-key": header}) == 404
        assert status("/v1/fleet/pull-messages") == 403
        assert status("/v1/fleet/pull-messages", headers={"flwr-public-key": "no base64"}) == 403
        # The key is no secret; without a signature of its owner it opens nothing.
        known = {"flwr-public-key": header, "content-type": "application/protobuf"}
        assert status("/v1/fleet/pull-messages", headers=known) == 401
        monkeypatch.setattr(superlink_job, "MAX_BODY", 1000)
        assert status("/v1/fleet/push-object", headers=known, content=bytes(2000)) == 401  # before a byte of it is kept
        key = credentials.private_key(membership.key_path(federation.folder, 1))
        for at, expected in ((now() - timedelta(hours=1), 401), (now(), 413)):
            stamp = at.isoformat()
            signature = base64.b64encode(sign_message(key, stamp.encode())).decode()
            known |= {"flwr-timestamp": stamp, "flwr-signature": signature}
            assert status("/v1/fleet/push-object", headers=known, content=bytes(2000)) == expected
        assert status("/v1/fleet/push-object", headers=known, content=bytes(2000)) == 413
        monkeypatch.setattr(superlink_job, "BODY_SECONDS", 0.2)

        def trickle() -> Iterator[bytes]:
            for _ in range(20):
                yield b"x"
                time.sleep(0.1)

        assert status("/v1/fleet/push-object", headers=known, content=trickle()) == 408


def test_a_port_that_is_taken_is_said_so_and_the_port_of_the_last_time_is_kept(federation: Federation) -> None:
    federation.admit(0)
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (leader, _):
        port = leader.link.port
        with pytest.raises(FederationError, match=rf"cannot be served at 127\.0\.0\.1:{port}"):
            superlink_job.SuperLink(federation.folder / "tls", "127.0.0.1", port)
        with pytest.raises(FederationError, match=rf":{port}: "), serving(federation.folder, AGREEMENT, "127.0.0.1"):
            pass  # no other port: members would look for the leader at the one that they know
    fingerprint = federation.invitation().fingerprint
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (leader, _):
        assert leader.link.port == port
    assert federation.invitation().fingerprint == fingerprint


def test_members_wait_for_a_leader_that_was_away(federation: Federation) -> None:
    federation.admit(0, 1, 2)
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (leader, _):
        party = federation.join(1)
        assert set(exchange(leader, {1: asks()[1]})) == {1}
    wait_until(lambda: "waiting for the leader" in party.said[-1])
    with serving(federation.folder, AGREEMENT, "127.0.0.1") as (leader, _):
        assert set(exchange(leader, {1: asks(2)[1]})) == {1}
    assert [ask.round for ask in party.part.asked] == [1, 2]


@pytest.mark.long(part="federation")
def test_a_leader_that_starts_again_waits_for_a_quorum_and_sends_the_model_to_whom_it_is_missing_alone(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, waited = job_of(small_project(federation.folder / "p.pugeo"), "federate_lead"), list[int]()
    deployed = Federation(job.layout.federation(AGREEMENT.id), replace(AGREEMENT, deadline_s=4.0))
    deployed.admit(0, 1, 2)

    def lead() -> Any:
        return federate_deployed_job.federate_lead(job, federation=AGREEMENT.id, plan=asdict(Plan()), own={})

    def stop(_: object, transport: FlowerTransport, needed: int, *__: object) -> None:
        waited.append(needed)
        raise JobCancelled

    def meet(_: object, transport: FlowerTransport, needed: int, *__: object) -> None:
        waited.append(needed)
        wait_until(lambda: len(transport.online()) == sum(party.thread.is_alive() for party in deployed.parties))

    class Full(Echo):
        def reply(self, message: Message) -> Message:
            raise FederationError("The model could not be stored.", "Make room.")

    monkeypatch.setattr(federate_deployed_job, "_wait_for_members", stop)
    for done in (0, 1):
        if done:
            rounds_job.write_state(
                deployed.folder, deployed.agreement, done, rounds_job.network_job.start(deployed.agreement)
            )
        with pytest.raises(JobCancelled):
            lead()
    monkeypatch.setattr(federate_deployed_job, "_wait_for_members", meet)
    rounds_job.write_state(deployed.folder, deployed.agreement, 2, rounds_job.network_job.start(deployed.agreement))
    parties = [deployed.join(0), deployed.join(1, Full("destroyed"))]
    words = r"have no model: destroyed could not take it \(The model could not be stored\); flooded was away"
    with pytest.raises(FederationError, match=words):
        lead()
    for party in parties:
        party.thread.join(PATIENCE_S)
    parties = [parties[0], deployed.join(1), deployed.join(2)]
    assert lead()["members"] == 3
    deployed.stop()
    assert waited == [3, 2, 0, 0]
    assert all(party.part.model is not None and not party.error for party in parties)
