"""Rounds: equal to a plain loop of FedAwS, what is on the wire, who is late or refused, and what a kill changes."""

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federation_parts import CLASSES, N_CLICKED, NAME, SHORT, N, agreed, led, members_of, require_equal, transport_of
from numpy.typing import NDArray
from small_parts import click, in_tiers, job_of

from pu_geo.errors import FederationError, JobCancelled
from pu_geo.features.rcf import RcfBank
from pu_geo.federation import network_job, rounds_job, wire_job
from pu_geo.federation.agreement import Agreement, Privacy
from pu_geo.federation.member_job import OwnData, Part, feature_space
from pu_geo.federation.rounds_job import read_state
from pu_geo.federation.simulated_job import SimulatedTransport, set_up
from pu_geo.federation.wire_job import Message
from pu_geo.methods.fedaws import Client, Learner, client_update, server_round, theta_of
from pu_geo.store import feature_sets, federations
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout, read_array
from pu_geo.training.data import FeatureViews
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.run import Run
from pu_geo.ui.components import texts

CPU = torch.device("cpu")
Pair = tuple[Layout, Layout]
pytestmark = pytest.mark.slow


def plain_loop(agreement: Agreement, pair: Pair) -> Learner:
    """FedAwS without messages, files of a federation, or members: `client_update` and `server_round` on the projects' features."""
    settings, run = agreement.settings, Run(CPU, agreement.seed)
    clients = []
    damaged, others = np.arange(N_CLICKED), np.arange(N_CLICKED, N)
    for layout, rows in ((pair[0], others), (pair[0], damaged), (pair[1], damaged)):
        views = FeatureViews(np.asarray(feature_sets.views(layout, "set", agreement.features.name)))
        embedder = network_job.new_embedder(agreement)
        chosen = torch.randperm(N, generator=run.generator(2)).numpy()
        drawn = run.generator(2)
        torch.randperm(N, generator=drawn)  # as it is after the order of the rows was drawn
        embedder.trunk.standardize.fit(views.draw(chosen, ("weak",), drawn, CPU)[0])
        clients.append(Client(views, rows, embedder, MicroBatcher(run)))
    learner = network_job.start(agreement)
    for number in range(1, settings.rounds + 1):
        updates = {}
        for row, client in enumerate(clients):
            held = theta_of(client.embedder).items()
            own = {name: each for name, each in held if "standardize" in name or "shape" in name}
            updates[row] = client_update(
                client, {**own, **learner.theta}, learner.class_vectors[row], settings, run.generator(20 + row, number),
                lambda _: None,
            )  # fmt: skip
        learner = server_round(learner, updates, settings)
    return learner


NEAREST = {"spread": "nearest", "n_nearest": 10, "weighting": "chips"}  # more than there are classes


@pytest.mark.parametrize("changes", [{"server_momentum": 0.9}, NEAREST])
def test_three_rounds_equal_a_plain_loop_to_a_millionth(agencies: Pair, changes: dict[str, Any]) -> None:
    agreement = agreed(agencies[0], settings=replace(SHORT, **changes))
    learner, oracle = led(agreement, agencies), plain_loop(agreement, agencies)
    require_equal(learner, oracle, tolerance=1e-6)
    first = network_job.start(agreement)
    assert float((oracle.class_vectors - first.class_vectors).abs().max()) > 0.01
    assert all(one.has_model for one in federations.members(agencies[0].federation(NAME)).values())


class Recorder:
    """Keeps each message, and lets it pass."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Message]] = []

    def __call__(self, row: int, message: Message) -> Message:
        self.messages.append((row, message))
        return message

    def bytes_of(self, kind: str) -> list[tuple[int, bytes]]:
        return [
            (row, b"".join(tensor.numpy().tobytes() for tensor in message.tensors.values()))
            for row, message in self.messages
            if message.kind == kind
        ]


def test_no_chip_no_label_and_no_foreign_row_is_on_the_wire(agencies: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    agreement, recorder = agreed(agencies[0]), Recorder()
    vectors: list[NDArray[np.float32]] = []
    kept = rounds_job._round

    def spy(*args: Any) -> Any:
        vectors.append(args[4].class_vectors.numpy().copy())
        return kept(*args)

    monkeypatch.setattr(rounds_job, "_round", spy)
    led(agreement, agencies, transport_of(agreement, agencies, recorder))
    theta = {"trunk.backbone.0.weight", "trunk.backbone.0.bias", "head.weight", "head.bias"}
    n_theta = 512 * 16 + 16 + 16 * 8 + 8
    for row, message in recorder.messages:
        if message.kind == wire_job.RECEIVED:
            assert not message.tensors
            assert not message.facts
            continue
        is_model = message.kind == wire_job.MODEL
        assert message.tensors.keys() == theta | ({"class_vectors", "took_part"} if is_model else {"own_vector"})
        assert sum(tensor.numel() for tensor in message.tensors.values()) == n_theta + (24 + 6 if is_model else 8)
        assert message.facts.get("n_chips", 1) == 1  # how many there are stays here where all weigh the same
        words = {value for value in message.facts.values() if isinstance(value, str)}
        assert words <= {agreement.digest, CLASSES[row]}
    asks = recorder.bytes_of("ask")
    assert len(asks) == 9
    for number, before in enumerate(vectors):
        for row, content in asks[3 * number : 3 * number + 3]:
            assert before[row].tobytes() in content
            assert not any(before[other].tobytes() in content for other in range(3) if other != row)
    sent = [content for kind in ("ask", "answer", "model") for _, content in recorder.bytes_of(kind)]
    for layout in agencies:
        views = np.asarray(feature_sets.views(layout, "set", agreement.features.name))
        for building in range(N):
            for kind in (np.float16, np.float32):
                assert not any(views[0, building, :4].astype(kind).tobytes() in content for content in sent)
        own = OwnData.read(layout, agreement)
        for statistic in (own.embedder.trunk.standardize.mean, own.embedder.trunk.standardize.scale):
            assert not any(statistic.numpy()[:4].tobytes() in content for content in sent)


def test_the_ledgers_name_each_tensor_that_left_with_its_bytes_and_hash(agencies: Pair) -> None:
    agreement, recorder = agreed(agencies[0]), Recorder()
    led(agreement, agencies, transport_of(agreement, agencies, recorder))
    lines = [federations.ledger(layout.federation(NAME)) for layout in agencies]
    tensors = [one for own in lines for one in own if one.name != federations.FACTS]
    noted = {(one.message, one.round, one.name, one.sha256, one.bytes) for one in tensors}
    left = {
        (message.kind, message.round, name, wire_job.sha256_of(tensor.numpy().tobytes()), tensor.nbytes)
        for _, message in recorder.messages
        for name, tensor in message.tensors.items()
    }
    assert noted == left
    assert {one.to for one in lines[1]} == {wire_job.LEADER}
    assert {one.to for one in lines[0]} == {wire_job.LEADER, *(f"member of {name}" for name in CLASSES)}
    facts = [one for one in lines[1] if one.name == federations.FACTS]
    assert [one.round for one in facts] == [1, 2, 3, 0]
    assert facts[0].values is not None
    assert facts[0].values["class_name"] == "flooded"


Change = Callable[[Message], Message]


def tensors(**changes: Callable[[torch.Tensor], torch.Tensor | None]) -> Change:
    """Change tensors of a message; None takes one away. `head` stands for the weights of the head."""
    names = {"head": "head.weight", "own": "own_vector"}

    def change(message: Message) -> Message:
        found = dict(message.tensors)
        for short, make in changes.items():
            made = make(found.pop(names[short]).clone())
            if made is not None:
                found[names[short]] = made
        return message._replace(tensors=found)

    return change


def facts(**changes: Any) -> Change:
    return lambda message: message._replace(facts={**message.facts, **changes})


def one_value(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(-1)[0] = value
        return tensor

    return change


BAD: dict[str, tuple[Change, str]] = {
    "nan": (tensors(head=one_value(np.nan)), "1 of 128 values of head.weight are no finite numbers"),
    "1e9 norm": (tensors(head=one_value(1e9)), "change of theta has a norm of 1e+09; the agreement allows 100"),
    "1e9 vector": (tensors(own=one_value(-1e9)), "its class vector has a norm of 1e+09"),
    "lacks": (tensors(head=lambda _: None), "lacks 'head.weight' among its tensors"),
    "no vector": (tensors(own=lambda _: None), "lacks 'own_vector' among its tensors"),
    "unknown": (
        lambda message: message._replace(tensors={**message.tensors, "spy": torch.ones(3)}),
        "has an unknown 'spy' among its tensors",
    ),
    "whole W": (tensors(own=lambda own: torch.stack([own] * 3)), "own_vector has the shape (3, 8); it must be (8,)"),
    "shape": (tensors(head=lambda head: head.T), "head.weight has the shape (16, 8); it must be (8, 16)"),
    "type": (tensors(head=torch.Tensor.double), "head.weight is of type float64; it must be float32"),
    "replay": (facts(round=1), "answers round 1; this is round 2"),
    "class": (facts(class_name="destroyed"), "claims the class 'destroyed'; its key is admitted for 'flooded'"),
    "digest": (facts(agreement="0" * 64), "joined another agreement: its digest is 000000000000"),
    "kind": (lambda message: message._replace(kind="ask"), "is of kind 'ask' where 'answer' was due"),
    "chips": (facts(n_chips=-4), "counts -4 chips"),
    "no chips": (facts(n_chips=0), "has no building of the class 'flooded'"),
    "loss": (facts(loss=float("nan")), "loss is no finite number"),
    "huge loss": (facts(loss=1.7e308), "Its loss is 1.7e+308; 0 to 3.61 are possible"),
    "negative loss": (facts(loss=-0.1), "Its loss is -0.1"),
    "other facts": (facts(note="hello"), "has an unknown 'note'"),
    "type of fact": (facts(round="2"), "has '2' for round"),
}


def first_ask(agreement: Agreement, row: int, number: int = 1) -> Message:
    start = network_job.start(agreement)
    found = {**start.theta, wire_job.OWN_VECTOR: start.class_vectors[row].clone()}
    return Message(wire_job.ASK, found, {"round": number, "agreement": agreement.digest})


def test_a_bad_answer_is_refused_in_words(agencies: Pair) -> None:
    agreement = agreed(agencies[0])
    ask = first_ask(agreement, 2, 2)
    good = members_of(agreement, *agencies)[2].reply(ask)
    for what, (change, words) in {"nothing": (lambda message: message, ""), **BAD}.items():
        try:
            found = rounds_job.refusal(agreement, 2, ask, wire_job.checked(change(good), wire_job.ANSWER))
        except FederationError as error:
            found = error.problem
        assert words in found, what
        assert found[-1:] == ("." if words else ""), what


def test_a_round_completes_without_a_bad_answer_as_if_its_member_were_away(agencies: Pair) -> None:
    def is_hit(row: int, message: Message) -> bool:
        return row == 2 and message.kind == "answer" and message.round == 2

    agreement, folder = agreed(agencies[0], quorum=2), agencies[0].federation(NAME)
    bad = transport_of(agreement, agencies, lambda row, each: BAD["nan"][0](each) if is_hit(row, each) else each)
    learner, found = led(agreement, agencies, bad), federations.rounds(folder)
    assert [one.taking_part for one in found] == [[0, 1, 2], [0, 1], [0, 1, 2]]
    assert "no finite numbers" in found[1].refused[2]
    shutil.rmtree(folder)
    away = transport_of(agreement, agencies, lambda row, each: None if is_hit(row, each) else each)
    require_equal(learner, led(agreement, agencies, away))


def test_a_late_member_keeps_its_row_and_returns(agencies: Pair) -> None:
    agreement = agreed(agencies[0], quorum=2, settings=replace(SHORT, fixed_vectors=False, spread_weight=0.0))
    folder = agencies[0].federation(NAME)
    rows: list[torch.Tensor] = []

    def carry(row: int, message: Message) -> Message | None:
        if message.kind == "ask" and row == 2:
            rows.append(message.tensors["own_vector"])
            return None if message.round == 2 else message
        return message

    led(agreement, agencies, transport_of(agreement, agencies, carry))
    found = federations.rounds(folder)
    assert [one.late for one in found] == [[], [2], []]
    assert [one.taking_part for one in found] == [[0, 1, 2], [0, 1], [0, 1, 2]]
    assert not torch.equal(rows[0], rows[1])
    torch.testing.assert_close(rows[1], rows[2], rtol=0, atol=1e-6)  # unit length again, and nothing else


def test_a_round_without_quorum_is_asked_for_again_and_changes_nothing(agencies: Pair) -> None:
    agreement, tries = agreed(agencies[0], tries=2), list[int]()
    folder = agencies[0].federation(NAME)
    plain = led(agreement, agencies)
    shutil.rmtree(folder)

    def carry(row: int, message: Message) -> Message | None:
        if row == 1 and message.kind == "ask" and message.round == 2:
            tries.append(row)
            return None if len(tries) == 1 else message
        return message

    require_equal(plain, led(agreement, agencies, transport_of(agreement, agencies, carry)))
    assert [(one.number, one.is_counted) for one in federations.rounds(folder, is_counted=False)] == [
        (1, True), (2, False), (2, True), (3, True),
    ]  # fmt: skip
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_without_members_it_ends_in_words(agencies: Pair) -> None:
    agreement = agreed(agencies[0], quorum=1, tries=2)
    folder = agencies[0].federation(NAME)
    words = "0 of the 1 members that it needs, in 2 tries: rest was not heard of"
    with pytest.raises(FederationError, match=words) as ended:
        led(agreement, agencies, transport_of(agreement, agencies, lambda *_: None))
    assert ended.value.kind == "quorum"
    assert f"'{texts.START_AGAIN}' on the job's card, or the same command" in ended.value.hint
    assert read_state(folder, agreement) is None
    assert len(federations.rounds(folder, is_counted=False)) == 2


def test_a_class_that_took_part_in_no_round_gets_no_scores(agencies: Pair) -> None:
    """One member trains alone until the last round, which waits for the other class."""
    agreement = replace(agreed(agencies[0], quorum=1), classes=("rest", "destroyed"))
    folder = agencies[0].federation(NAME)
    parts = set_up(agreement, agencies[0], {agencies[0]: {"destroyed": None, "rest": None}})
    with pytest.raises(FederationError, match=r"Nobody trained the class 'rest' in any round.*rest was not heard of"):
        led(agreement, agencies, SimulatedTransport({1: parts[1]}))
    assert [one.late for one in federations.rounds(folder)] == [[0]] * 2
    assert not (folder / federations.MODEL).exists()
    led(agreement, agencies, SimulatedTransport(parts))
    assert federations.rounds(folder)[-1].taking_part == [0, 1]


class _Killed(BaseException):
    """Stands for kill -9: nothing of ours catches it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Kill before or after the n-th write or message."""
    moments = itertools.count(1)

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def then(*args: Any, **values: Any) -> Any:
            if next(moments) == at:
                raise _Killed
            found = work(*args, **values)
            if next(moments) == at:
                raise _Killed
            return found

        return then

    for place, name in (
        (federations, "append_round"), (rounds_job, "write_state"), (rounds_job, "server_round"), (wire_job, "note"), (Part, "reply"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, counted(getattr(place, name)))


@pytest.mark.parametrize(
    "at", in_tiers([1, 7, 8, 13, 14, 15, 16, 17, 18, 19, 20, 33, 40, 47, 54], "kills", quick=[14], ci=[18])
)
def test_a_killed_leader_goes_on_to_the_same_bits(agencies: Pair, at: int) -> None:
    agreement = agreed(agencies[0], settings=replace(SHORT, server_momentum=0.9))
    folder = agencies[0].federation(NAME)
    whole = led(agreement, agencies)
    shutil.rmtree(folder)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, at)
        with pytest.raises(_Killed):
            led(agreement, agencies)
    require_equal(whole, led(agreement, agencies))
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_a_finished_federation_only_sends_its_model_again_by_its_own_whole_state(agencies: Pair) -> None:
    agreement, recorder = agreed(agencies[0]), Recorder()
    folder = agencies[0].federation(NAME)
    first = led(agreement, agencies)
    transport = transport_of(agreement, agencies, recorder)
    require_equal(first, led(agreement, agencies, transport))
    assert {message.kind for _, message in recorder.messages} == {"model", "received"}
    with pytest.raises(FederationError, match="another agreement"):
        led(replace(agreement, seed=5), agencies, transport)
    (folder / federations.STATE).write_bytes(b"half")
    with pytest.raises(FederationError, match="is damaged"):
        led(agreement, agencies, transport)


def test_it_can_be_cancelled_and_goes_on(agencies: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    agreement, folder, job = agreed(agencies[0]), agencies[0].federation(NAME), job_of(agencies[0])
    transport = transport_of(agreement, agencies)
    with monkeypatch.context() as patch:
        patch.setattr(Job, "is_cancelled", lambda _: len(federations.rounds(folder)) >= 2)
        with pytest.raises(JobCancelled):
            rounds_job.lead(job, agreement, transport)
    stored = read_state(folder, agreement)
    assert stored is not None
    assert stored[0] == 2
    led(agreement, agencies)
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


# A member


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (facts(round=0), "is for round 0; there are 3"), (facts(round=4), "is for round 4"),
        (facts(agreement="f" * 64), "is of the agreement ffffffffffff"), (tensors(own=lambda own: own[None]), "has the shape (1, 8)"),
        (tensors(own=one_value(np.nan)), "no finite numbers"), (tensors(own=torch.Tensor.double), "float64"),
        (tensors(head=lambda _: None), "among its tensors"),
    ],
)  # fmt: skip
def test_a_member_refuses_a_wrong_ask_before_it_trains(agencies: Pair, change: Change, words: str) -> None:
    agreement = agreed(agencies[0])
    member, ask = members_of(agreement, *agencies)[2], first_ask(agreement, 2)
    member.reply(ask)
    n_lines = len(federations.ledger(agencies[1].federation(NAME)))
    with pytest.raises(FederationError, match=re.escape(words)):
        member.reply(change(ask))
    assert len(federations.ledger(agencies[1].federation(NAME))) == n_lines


def test_a_member_learns_from_the_buildings_of_its_class_alone(agencies: Pair) -> None:
    click(agencies[0], "b0", "b1", damage_types=["flooded"])
    click(agencies[0], "b2", "b3", "b4", damage_types=["destroyed"])
    click(agencies[0], "b20", "b21", label="not_damaged")
    click(agencies[0], "b30", label="not_assessable")
    agreement = agreed(agencies[0])
    members = set_up(agreement, agencies[0], {agencies[0]: {"flooded": "answers", "destroyed": "answers", "rest": None}})
    assert members[2].rows.tolist() == [0, 1]
    assert members[1].rows.tolist() == [2, 3, 4]
    assert members[0].rows.tolist() == [row for row in range(N_CLICKED, N) if row != 30]
    assert members_of(replace(agreement, id="all"), *agencies)[1].rows.tolist() == list(range(N_CLICKED))


def test_two_classes_of_the_same_buildings_are_refused(agencies: Pair) -> None:
    click(agencies[0], "b0", "b1", damage_types=["flooded"])
    for sources in ((None, None), (None, "answers"), ("answers", None)):
        held = dict(zip(("destroyed", "flooded"), sources, strict=True))
        with pytest.raises(
            FederationError, match=r"All damaged buildings of joplin\.pugeo would be of the class"
        ) as refused:
            set_up(agreed(agencies[0]), agencies[0], {agencies[0]: {**held, "rest": None}})
        assert "--types-from" in refused.value.hint
        assert federations.ids(agencies[0]) == []  # nothing was written


def test_another_federation_of_that_name_is_not_written_over(agencies: Pair) -> None:
    agreement, folder = agreed(agencies[0]), agencies[1].federation(NAME)
    other = replace(agreement, seed=7).to_json()
    federations.write_agreement(folder, other)
    with pytest.raises(FederationError, match="another federation that is called joplin"):
        members_of(agreement, *agencies)
    assert federations.agreement_bytes(folder) == other


def test_a_project_without_buildings_of_the_class_is_refused(agencies: Pair) -> None:
    click(agencies[1], *(f"b{i}" for i in range(N_CLICKED)), label="cleared")
    with pytest.raises(FederationError, match=r"moore\.pugeo has no building of the class 'flooded'"):
        members_of(agreed(agencies[0]), *agencies)


def test_filters_that_are_imagery_and_other_features_or_chips_are_refused(agencies: Pair) -> None:
    agreement = agreed(agencies[0])
    for change, words in (
        ({"fingerprint": "0" * 64}, "none with that fingerprint"),
        ({"size_px": 64}, "chips of pre\\+post, 64 px"),
        ({"bands": "post"}, "chips of post, 24 px"),
    ):
        other = replace(agreement, features=replace(agreement.features, **change))
        with pytest.raises(FederationError, match=words) as refused:
            OwnData.read(agencies[1], other)
        assert "pu-geo" in refused.value.hint
    for path in (agencies[0].folder / "chips").glob("set.shared-*"):
        path.unlink()
    bank = RcfBank.fit(read_array(agencies[0].chips("set")), torch.Generator().manual_seed(0))
    np.savez(agencies[0].filters("set"), allow_pickle=False, **bank.state())
    with pytest.raises(FederationError, match="patches of this project's imagery") as refused:
        feature_space(agencies[0])
    assert refused.value.kind == "imagery"


# Noise


@pytest.mark.parametrize("kind", in_tiers(["local", "central"], "federation", quick=["central"]))
def test_rounds_with_noise_resume_to_the_same_bits(agencies: Pair, kind: str) -> None:
    agreement = agreed(agencies[0], privacy=Privacy(kind, epsilon=200.0))
    folder = agencies[0].federation(NAME)
    whole = led(agreement, agencies)
    plain = agreed(agencies[0])
    assert [one.taking_part for one in federations.rounds(folder)] == [[0, 1, 2]] * 3
    for name in (federations.STATE, federations.ROUNDS, federations.LEDGER):
        (folder / name).unlink()  # as if nothing had been sent
    for layout in agencies:
        for path in (layout.federation(NAME) / federations.KEYS).glob("answered-*"):
            path.unlink()
    require_equal(whole, led(agreement, agencies))
    with pytest.raises(AssertionError):
        require_equal(plain_loop(plain, agencies), whole, tolerance=0.01)


@pytest.mark.parametrize(
    ("kind", "n_rounds"), in_tiers([("central", 1), ("central", 3), ("local", 3)], "federation", quick=[("local", 3)])
)
def test_rounds_with_noise_are_not_done_again_after_their_outcome_was_sent(agencies: Pair, kind: str, n_rounds: int) -> None:
    """The other agency clicks on, and the difference of both outcomes would have no noise."""
    agreement = agreed(agencies[0], privacy=Privacy(kind), settings=replace(SHORT, rounds=n_rounds))
    folder = agencies[0].federation(NAME)
    led(agreement, agencies)
    (folder / federations.STATE).unlink()
    click(agencies[1], "b9", "b10")
    transport, before = transport_of(agreement, agencies), (folder / federations.LEDGER).read_bytes()
    with pytest.raises(FederationError, match=rf"round {n_rounds} of .* and its state here is of round 0") as refused:
        led(agreement, agencies, transport)
    assert "Restore state.safetensors" in refused.value.hint
    (folder / federations.ROUNDS).unlink()  # the ledger alone knows
    with pytest.raises(FederationError, match="its state here is of round 0"):
        led(agreement, agencies, transport)
    assert (folder / federations.LEDGER).read_bytes() == before
    (folder / federations.STATE).write_bytes(b"half")
    with pytest.raises(FederationError, match="is damaged") as damaged:
        led(agreement, agencies, transport)
    assert "remove it" not in damaged.value.hint


@pytest.mark.parametrize(
    ("kind", "at"),
    in_tiers([("local", 1), ("local", 3), ("central", 1), ("central", 3)], "federation", quick=[("local", 1)]),
)
def test_a_round_with_noise_that_was_not_sent_is_done_again(
    agencies: Pair, kind: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement = agreed(agencies[0], privacy=Privacy(kind))
    folder = agencies[0].federation(NAME)

    def killed(*args: Any) -> None:
        if args[2] == at:
            raise _Killed
        write(*args)

    write = rounds_job.write_state
    with monkeypatch.context() as patch:
        patch.setattr(rounds_job, "write_state", killed)
        with pytest.raises(_Killed):
            led(agreement, agencies)
    led(agreement, agencies)
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_with_noise_a_round_is_answered_from_the_data_of_the_first_answer(agencies: Pair) -> None:
    """Once: of two answers with the same noise, over other clicks, the difference would be a plain change."""
    agreement = agreed(agencies[0], privacy=Privacy("local"))
    ask = first_ask(agreement, 2)
    first = members_of(agreement, *agencies)[2].reply(ask)
    click(agencies[1], "b0", "b1", label="cleared")
    again = members_of(agreement, *agencies)[2]
    assert len(again.rows) == N_CLICKED - 2
    same = again.reply(ask)
    assert all(torch.equal(same.tensors[name], tensor) for name, tensor in first.tensors.items())
    assert not torch.equal(again.reply(facts(round=2)(ask)).tensors["own_vector"], first.tensors["own_vector"])
    for other in (ask, tensors(own=lambda own: own.roll(1))(facts(round=2)(ask))):
        with pytest.raises(FederationError, match="another answer would cost privacy"):
            again.reply(other)
    for path in (agencies[1].federation(NAME) / federations.KEYS).glob("answered-*"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FederationError, match="answered last is damaged"):
        again.reply(ask)
