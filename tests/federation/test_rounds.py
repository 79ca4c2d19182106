"""Rounds: equal to a plain loop of FedAwS, what is on the wire, who is late or refused, and what a kill changes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federation_parts import CLASSES, N_CLICKED, NAME, SHORT, N, agreed, members_of, require_equal, transport_of
from numpy.typing import NDArray
from small_parts import click, in_tiers

from pu_geo.errors import FederationError, JobCancelled
from pu_geo.features.rcf import RcfBank
from pu_geo.federation import ledger, network, rounds, wire
from pu_geo.federation.agreement import Agreement, Privacy
from pu_geo.federation.member import Member, OwnData, feature_space
from pu_geo.federation.protocol import Ask
from pu_geo.federation.rounds import lead, read_state
from pu_geo.federation.simulated import SimulatedTransport, set_up
from pu_geo.federation.wire import Packed
from pu_geo.methods.fedaws import Client, Learner, client_update, server_round, theta_of
from pu_geo.project import feature_sets, federations
from pu_geo.project.federations import Membership
from pu_geo.project.layout import Layout, read_array
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
        embedder = network.new_embedder(agreement)
        chosen = torch.randperm(N, generator=run.generator(2)).numpy()
        drawn = run.generator(2)
        torch.randperm(N, generator=drawn)  # as it is after the order of the rows was drawn
        embedder.trunk.standardize.fit(views.draw(chosen, ("weak",), drawn, CPU)[0])
        clients.append(Client(views, rows, embedder, MicroBatcher(run)))
    learner = network.start(agreement)
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
    led = lead(agreement, agencies[0].federation(NAME), transport_of(agreement, agencies))
    oracle = plain_loop(agreement, agencies)
    require_equal(led.learner, oracle, tolerance=1e-6)
    first = network.start(agreement)
    assert float((oracle.class_vectors - first.class_vectors).abs().max()) > 0.01
    assert led.delivered == (0, 1, 2)


class Recorder:
    """Keeps each message, and lets it pass."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Packed]] = []

    def __call__(self, row: int, packed: Packed) -> Packed:
        self.messages.append((row, packed))
        return packed

    def bytes_of(self, kind: str) -> list[tuple[int, bytes]]:
        return [
            (row, b"".join(np.ascontiguousarray(array).tobytes() for array in packed.arrays.values()))
            for row, packed in self.messages
            if packed.kind == kind
        ]


def test_no_chip_no_label_and_no_foreign_row_is_on_the_wire(agencies: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    agreement, recorder = agreed(agencies[0]), Recorder()
    vectors: list[NDArray[np.float32]] = []
    kept = rounds._round

    def spy(*args: Any) -> Any:
        vectors.append(args[4].class_vectors.numpy().copy())
        return kept(*args)

    monkeypatch.setattr(rounds, "_round", spy)
    lead(agreement, agencies[0].federation(NAME), transport_of(agreement, agencies, carry=recorder))
    names = {"theta.trunk.backbone.0.weight", "theta.trunk.backbone.0.bias", "theta.head.weight", "theta.head.bias"}
    n_theta = 512 * 16 + 16 + 16 * 8 + 8
    for row, packed in recorder.messages:
        own = {"class_vectors"} if packed.kind == "model" else {"own_vector"}
        assert packed.arrays.keys() == names | own
        assert sum(array.size for array in packed.arrays.values()) == n_theta + (24 if packed.kind == "model" else 8)
        known = {"protocol", "round", "agreement", "class_name", "n_chips", "loss", "rounds"}
        if packed.kind == "model":
            known |= {f"{name}{k}" for name in ("n_rounds.", "last_round.") for k in range(3)}
        assert packed.facts.keys() <= known
        assert packed.facts.get("n_chips", 1) == 1  # how many there are stays here where all weigh the same
        texts = {value for value in packed.facts.values() if isinstance(value, str)}
        assert texts <= {agreement.digest, CLASSES[row]}
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
    lead(agreement, agencies[0].federation(NAME), transport_of(agreement, agencies, carry=recorder))
    lines = [federations.ledger(layout.federation(NAME)) for layout in agencies]
    tensors = [one for own in lines for one in own if one.name != federations.FACTS]
    noted = {(one.message, one.round, one.name, one.sha256, one.bytes) for one in tensors}
    left = {
        (packed.kind, int(packed.facts.get("round", 0)), name, wire.sha256_of(array), array.nbytes)
        for _, packed in recorder.messages
        for name, array in packed.arrays.items()
    }
    assert noted == left
    assert {one.to for one in lines[1]} == {ledger.LEADER}
    assert {one.to for one in lines[0]} == {ledger.LEADER, *(f"member of {name}" for name in CLASSES)}
    facts = [one for one in lines[1] if one.name == federations.FACTS]
    assert [one.round for one in facts] == [1, 2, 3]
    assert facts[0].values is not None
    assert facts[0].values["class_name"] == "flooded"


Change = Callable[[Packed], Packed]


def arrays(**changes: Callable[[NDArray[Any]], NDArray[Any] | None]) -> Change:
    """Change arrays of a message; None takes one away. `head` stands for the weights of the head."""
    names = {"head": "theta.head.weight", "own": "own_vector"}

    def change(packed: Packed) -> Packed:
        found = dict(packed.arrays)
        for short, make in changes.items():
            made = make(found.pop(names[short]).copy())
            if made is not None:
                found[names[short]] = made
        return packed._replace(arrays=found)

    return change


def facts(**changes: Any) -> Change:
    return lambda packed: packed._replace(facts={**packed.facts, **changes})


def one_value(value: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        array.flat[0] = value
        return array

    return change


BAD: dict[str, tuple[Change, str]] = {
    "nan": (arrays(head=one_value(np.nan)), "1 of 128 values of head.weight are no finite numbers"),
    "1e9 norm": (arrays(head=one_value(1e9)), "change of theta has a norm of 1e+09; the agreement allows 100"),
    "1e9 vector": (arrays(own=one_value(-1e9)), "its class vector has a norm of 1e+09"),
    "lacks": (arrays(head=lambda _: None), "lacks the tensor 'head.weight'"),
    "unknown": (
        lambda packed: packed._replace(arrays={**packed.arrays, "theta.spy": np.ones(3, np.float32)}),
        "holds an unknown tensor 'spy'",
    ),
    "whole W": (arrays(own=lambda own: np.stack([own] * 3)), "own_vector has the shape (3, 8); it must be (8,)"),
    "shape": (arrays(head=lambda head: head.T.copy()), "head.weight has the shape (16, 8); it must be (8, 16)"),
    "object": (arrays(head=lambda head: head.astype(object)), "of type object"),
    "replay": (facts(round=1), "answers round 1; this is round 2"),
    "class": (facts(class_name="destroyed"), "claims the class 'destroyed'; its key is admitted for 'flooded'"),
    "digest": (facts(agreement="0" * 64), "joined another agreement: its digest is 000000000000"),
    "protocol": (facts(protocol=7), "written in protocol 7; here is protocol 1"),
    "chips": (facts(n_chips=-4), "counts -4 chips"),
    "no chips": (facts(n_chips=0), "has no building of the class 'flooded'"),
    "loss": (facts(loss=float("nan")), "loss is no finite number"),
    "huge loss": (facts(loss=1.7e308), "Its loss is 1.7e+308; 0 to 3.61 are possible"),
    "negative loss": (facts(loss=-0.1), "Its loss is -0.1"),
    "other facts": (facts(note="hello"), "has an unknown 'note'"),
    "type of fact": (facts(round="2"), "has '2' for round"),
}


def test_a_bad_answer_is_refused_in_words(agencies: Pair) -> None:
    agreement = agreed(agencies[0])
    member, start = members_of(agreement, *agencies)[2], network.start(agreement)
    ask = Ask(2, start.theta, start.class_vectors[2].clone(), agreement.digest)
    good = wire.pack_answer(member.answer(ask))
    for what, (change, words) in {"nothing": (lambda packed: packed, ""), **BAD}.items():
        try:
            found = rounds.refusal(agreement, 2, ask, wire.unpack_answer(change(good)))
        except FederationError as error:
            found = error.problem
        assert words in found, what
        assert found[-1:] == ("." if words else ""), what


def test_a_round_completes_without_a_bad_answer_as_if_its_member_were_away(agencies: Pair) -> None:
    def is_hit(row: int, packed: Packed) -> bool:
        return row == 2 and packed.kind == "answer" and packed.facts["round"] == 2

    agreement, folder = agreed(agencies[0], quorum=2), agencies[0].federation(NAME)
    transport = transport_of(agreement, agencies, carry=lambda row, each: BAD["nan"][0](each) if is_hit(row, each) else each)
    led = lead(agreement, folder, transport)
    found = federations.rounds(folder)
    assert [one.taking_part for one in found] == [(0, 1, 2), (0, 1), (0, 1, 2)]
    assert "no finite numbers" in found[1].refused[2]
    shutil.rmtree(folder)
    away = transport_of(agreement, agencies, carry=lambda row, each: None if is_hit(row, each) else each)
    require_equal(led.learner, lead(agreement, folder, away).learner)


def test_a_late_member_keeps_its_row_and_returns(agencies: Pair) -> None:
    agreement = agreed(agencies[0], quorum=2, settings=replace(SHORT, fixed_vectors=False, spread_weight=0.0))
    folder = agencies[0].federation(NAME)
    rows: list[torch.Tensor] = []

    def carry(row: int, packed: Packed) -> Packed | None:
        if packed.kind == "ask" and row == 2:
            rows.append(torch.from_numpy(np.array(packed.arrays["own_vector"])))
            return None if packed.facts["round"] == 2 else packed
        return packed

    lead(agreement, folder, transport_of(agreement, agencies, carry=carry))
    found = federations.rounds(folder)
    assert [one.late for one in found] == [(), (2,), ()]
    assert [one.taking_part for one in found] == [(0, 1, 2), (0, 1), (0, 1, 2)]
    assert not torch.equal(rows[0], rows[1])
    torch.testing.assert_close(rows[1], rows[2], rtol=0, atol=1e-6)  # unit length again, and nothing else


def test_a_round_without_quorum_is_asked_for_again_and_changes_nothing(agencies: Pair) -> None:
    agreement, tries = agreed(agencies[0], tries=2), list[int]()
    folder = agencies[0].federation(NAME)
    plain = lead(agreement, folder, transport_of(agreement, agencies))
    shutil.rmtree(folder)

    def carry(row: int, packed: Packed) -> Packed | None:
        if row == 1 and packed.kind == "ask" and packed.facts["round"] == 2:
            tries.append(row)
            return None if len(tries) == 1 else packed
        return packed

    again = lead(agreement, folder, transport_of(agreement, agencies, carry=carry))
    require_equal(plain.learner, again.learner)
    assert [(one.number, one.is_counted) for one in federations.rounds(folder, is_counted=False)] == [
        (1, True), (2, False), (2, True), (3, True),
    ]  # fmt: skip
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_without_members_it_ends_in_words(agencies: Pair) -> None:
    agreement = agreed(agencies[0], quorum=1, tries=2)
    folder = agencies[0].federation(NAME)
    transport = transport_of(agreement, agencies, carry=lambda *_: None)
    words = "0 of the 1 members that it needs, in 2 tries: rest was not heard of"
    with pytest.raises(FederationError, match=words) as ended:
        lead(agreement, folder, transport)
    assert ended.value.kind == "quorum"
    assert f"'{texts.START_AGAIN}' on the job's card, or the same command" in ended.value.hint
    assert read_state(folder, agreement) is None
    assert len(federations.rounds(folder, is_counted=False)) == 2


def test_a_class_that_took_part_in_no_round_gets_no_scores(agencies: Pair) -> None:
    """One member trains alone until the last round, which waits for the other class."""
    agreement = replace(agreed(agencies[0], quorum=1), classes=("rest", "destroyed"))
    folder, held = agencies[0].federation(NAME), [Membership("destroyed"), Membership("rest")]
    members = set_up(agreement, agencies[0], [(agencies[0], held)])
    alone = SimulatedTransport({1: members[1]})
    with pytest.raises(FederationError, match=r"Nobody trained the class 'rest' in any round.*rest was not heard of"):
        lead(agreement, folder, alone)
    assert [one.late for one in federations.rounds(folder)] == [(0,)] * 2
    assert alone.models == {}
    assert lead(agreement, folder, SimulatedTransport(members)).delivered == (0, 1)
    assert federations.rounds(folder)[-1].taking_part == (0, 1)


class _Killed(BaseException):
    """Stands for kill -9: nothing of ours catches it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Kill before or after the n-th write or message of `lead`."""
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
        (federations, "append_round"), (rounds, "write_state"), (rounds, "server_round"), (ledger, "note"), (Member, "answer"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, counted(getattr(place, name)))


@pytest.mark.parametrize(
    "at", in_tiers([1, 7, 8, 13, 14, 15, 16, 17, 18, 19, 20, 33, 40, 47, 54], "kills", quick=[14], ci=[18])
)
def test_a_killed_leader_goes_on_to_the_same_bits(agencies: Pair, at: int) -> None:
    agreement = agreed(agencies[0], settings=replace(SHORT, server_momentum=0.9))
    folder = agencies[0].federation(NAME)
    whole = lead(agreement, folder, transport_of(agreement, agencies))
    shutil.rmtree(folder)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, at)
        with pytest.raises(_Killed):
            lead(agreement, folder, transport_of(agreement, agencies))
    resumed = lead(agreement, folder, transport_of(agreement, agencies))
    require_equal(whole.learner, resumed.learner)
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_a_finished_federation_only_sends_its_model_again_by_its_own_whole_state(agencies: Pair) -> None:
    agreement, recorder = agreed(agencies[0]), Recorder()
    folder = agencies[0].federation(NAME)
    first = lead(agreement, folder, transport_of(agreement, agencies))
    transport = transport_of(agreement, agencies, carry=recorder)
    require_equal(first.learner, lead(agreement, folder, transport).learner)
    assert {packed.kind for _, packed in recorder.messages} == {"model"}
    with pytest.raises(FederationError, match="another agreement"):
        lead(replace(agreement, seed=5), folder, transport)
    (folder / federations.STATE).write_bytes(b"half")
    with pytest.raises(FederationError, match="is damaged"):
        lead(agreement, folder, transport)


def test_it_can_be_cancelled_and_goes_on(agencies: Pair) -> None:
    agreement, seen = agreed(agencies[0]), list[int]()
    folder = agencies[0].federation(NAME)
    with pytest.raises(JobCancelled):
        lead(
            agreement, folder, transport_of(agreement, agencies), report=lambda each: seen.append(each["round"]),
            is_cancelled=lambda: len(seen) >= 2,
        )  # fmt: skip
    stored = read_state(folder, agreement)
    assert stored is not None
    assert stored[0] == 2
    lead(agreement, folder, transport_of(agreement, agencies), report=lambda each: seen.append(each["round"]))
    assert seen == [1, 2, 3]


# A member


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"round": 0}, "is for round 0; there are 3"), ({"round": 4}, "is for round 4"),
        ({"agreement": "f" * 64}, "is of the agreement ffffffffffff"), ({"own_vector": torch.ones(3, 8)}, "other tensors"),
        ({"own_vector": torch.full((8,), torch.nan)}, "no finite float32"),
        ({"own_vector": torch.ones(8, dtype=torch.float64)}, "no finite float32"), ({"theta": {}}, "other tensors"),
    ],
)  # fmt: skip
def test_a_member_refuses_a_wrong_ask_before_it_trains(agencies: Pair, change: dict[str, Any], words: str) -> None:
    agreement = agreed(agencies[0])
    member = members_of(agreement, *agencies)[2]
    start = network.start(agreement)
    ask = Ask(1, start.theta, start.class_vectors[2].clone(), agreement.digest)
    member.answer(ask)
    n_lines = len(federations.ledger(agencies[1].federation(NAME)))
    with pytest.raises(FederationError, match=words):
        member.answer(ask._replace(**change))
    assert len(federations.ledger(agencies[1].federation(NAME))) == n_lines


def test_a_member_learns_from_the_buildings_of_its_class_alone(agencies: Pair) -> None:
    click(agencies[0], "b0", "b1", damage_types=["flooded"])
    click(agencies[0], "b2", "b3", "b4", damage_types=["destroyed"])
    click(agencies[0], "b20", "b21", label="not_damaged")
    click(agencies[0], "b30", label="not_assessable")
    agreement = agreed(agencies[0])
    held = [Membership("flooded", "answers"), Membership("destroyed", "answers"), Membership("rest")]
    members = set_up(agreement, agencies[0], [(agencies[0], held)])
    assert members[2].rows.tolist() == [0, 1]
    assert members[1].rows.tolist() == [2, 3, 4]
    assert members[0].rows.tolist() == [row for row in range(N_CLICKED, N) if row != 30]
    assert members_of(replace(agreement, id="all"), *agencies)[1].rows.tolist() == list(range(N_CLICKED))


def test_two_classes_of_the_same_buildings_are_refused(agencies: Pair) -> None:
    click(agencies[0], "b0", "b1", damage_types=["flooded"])
    for sources in ((None, None), (None, "answers"), ("answers", None)):
        held = [Membership(name, source) for name, source in zip(("destroyed", "flooded"), sources, strict=True)]
        with pytest.raises(
            FederationError, match=r"All damaged buildings of joplin\.pugeo would be of the class"
        ) as refused:
            set_up(agreed(agencies[0]), agencies[0], [(agencies[0], [*held, Membership("rest")])])
        assert "--types-from" in refused.value.hint
        assert federations.ids(agencies[0]) == []  # nothing was written


@pytest.mark.parametrize("kind", ["with other rules", "between machines"])
def test_another_federation_of_that_name_is_not_written_over(agencies: Pair, kind: str) -> None:
    agreement, folder = agreed(agencies[0]), agencies[1].federation(NAME)
    federations.write_agreement(folder, (agreement if kind == "between machines" else replace(agreement, seed=7)).to_json())
    federations.write_memberships(folder, [Membership("destroyed")])
    if kind == "between machines":
        (folder / federations.INVITATION).write_text("{}", encoding="utf-8")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FederationError, match=rf"moore\.pugeo has a federation 'joplin' {kind}"):
        members_of(agreement, *agencies)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert federations.ids(agencies[0]) == []


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
    bank = RcfBank.fit(read_array(agencies[0].chips("set")), torch.Generator().manual_seed(0))
    np.savez(agencies[0].filters("set"), allow_pickle=False, **bank.state())
    with pytest.raises(FederationError, match="patches of this project's imagery") as refused:
        feature_space(agencies[0], "rcf")
    assert refused.value.kind == "imagery"


# Noise


@pytest.mark.parametrize("kind", in_tiers(["local", "central"], "federation", quick=["central"]))
def test_rounds_with_noise_resume_to_the_same_bits(agencies: Pair, kind: str) -> None:
    agreement = agreed(agencies[0], privacy=Privacy(kind, epsilon=200.0))
    folder = agencies[0].federation(NAME)
    whole = lead(agreement, folder, transport_of(agreement, agencies))
    plain = agreed(agencies[0])
    assert [one.taking_part for one in federations.rounds(folder)] == [(0, 1, 2)] * 3
    for name in (federations.STATE, federations.ROUNDS, federations.LEDGER):
        (folder / name).unlink()  # as if nothing had been sent
    for layout in agencies:
        for path in (layout.federation(NAME) / federations.KEYS).glob("answered-*"):
            path.unlink()
    again = lead(agreement, folder, transport_of(agreement, agencies))
    require_equal(whole.learner, again.learner)
    with pytest.raises(AssertionError):
        require_equal(plain_loop(plain, agencies), whole.learner, tolerance=0.01)


@pytest.mark.parametrize(
    ("kind", "n_rounds"), in_tiers([("central", 1), ("central", 3), ("local", 3)], "federation", quick=[("local", 3)])
)
def test_rounds_with_noise_are_not_done_again_after_their_outcome_was_sent(agencies: Pair, kind: str, n_rounds: int) -> None:
    """The other agency clicks on, and the difference of both outcomes would have no noise."""
    agreement = agreed(agencies[0], privacy=Privacy(kind), settings=replace(SHORT, rounds=n_rounds))
    folder = agencies[0].federation(NAME)
    lead(agreement, folder, transport_of(agreement, agencies))
    (folder / federations.STATE).unlink()
    click(agencies[1], "b9", "b10")
    transport, before = transport_of(agreement, agencies), (folder / federations.LEDGER).read_bytes()
    with pytest.raises(FederationError, match=rf"round {n_rounds} of .* and its state here is of round 0") as refused:
        lead(agreement, folder, transport)
    assert "Restore state.safetensors" in refused.value.hint
    (folder / federations.ROUNDS).unlink()  # the ledger alone knows
    with pytest.raises(FederationError, match="its state here is of round 0"):
        lead(agreement, folder, transport)
    assert (folder / federations.LEDGER).read_bytes() == before
    (folder / federations.STATE).write_bytes(b"half")
    with pytest.raises(FederationError, match="is damaged") as damaged:
        lead(agreement, folder, transport)
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

    write = rounds.write_state
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "write_state", killed)
        with pytest.raises(_Killed):
            lead(agreement, folder, transport_of(agreement, agencies))
    lead(agreement, folder, transport_of(agreement, agencies))
    assert [one.number for one in federations.rounds(folder)] == [1, 2, 3]


def test_with_noise_a_round_is_answered_from_the_data_of_the_first_answer(agencies: Pair) -> None:
    """Once: of two answers with the same noise, over other clicks, the difference would be a plain change."""
    agreement = agreed(agencies[0], privacy=Privacy("local"))
    start = network.start(agreement)
    ask = Ask(1, start.theta, start.class_vectors[2].clone(), agreement.digest)
    first = members_of(agreement, *agencies)[2].answer(ask)
    click(agencies[1], "b0", "b1", label="cleared")
    again = members_of(agreement, *agencies)[2]
    assert len(again.rows) == N_CLICKED - 2
    assert torch.equal(again.answer(ask).update.own_vector, first.update.own_vector)
    require_equal(
        Learner(first.update.theta, start.class_vectors), Learner(again.answer(ask).update.theta, start.class_vectors)
    )
    assert not torch.equal(again.answer(ask._replace(round=2)).update.own_vector, first.update.own_vector)
    for other in (ask, ask._replace(round=2, own_vector=ask.own_vector.roll(1))):
        with pytest.raises(FederationError, match="another answer would cost privacy"):
            again.answer(other)
    for path in (agencies[1].federation(NAME) / federations.KEYS).glob("answered-*"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FederationError, match="answered last is damaged"):
        again.answer(ask)
