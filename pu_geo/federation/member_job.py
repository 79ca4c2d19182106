"""A member's side: a project's chips of one class, and what they make of an ask."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError

from pu_geo.errors import FederationError, TrainingError, printable
from pu_geo.features.bank import FEATURE_SEED, fingerprint
from pu_geo.federation import network_job, privacy_job, wire_job
from pu_geo.federation.agreement import Agreement, FeatureSpace
from pu_geo.federation.wire_job import Message
from pu_geo.methods import catalog
from pu_geo.methods.fedaws import CLIENT_STREAM, Client, Embedder, FedawsNetwork, client_update, theta_of
from pu_geo.runs.inputs_job import RunInputs, read_inputs
from pu_geo.runs.model_card_job import card_and_weights
from pu_geo.scenes.features_job import maker_in
from pu_geo.store import contents, feature_sets, federations, store
from pu_geo.store.contents import chip_facts
from pu_geo.store.damage_types import ANSWERS
from pu_geo.store.federations import REST, Held, TookPart
from pu_geo.store.layout import Layout
from pu_geo.training import model_files
from pu_geo.training.data import Ints, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run, name_of
from pu_geo.training.threads import one_thread

METHOD, PRESET = "fedaws", "federated"
_CPU = torch.device("cpu")
_ANSWERED = "answered-{row}.safetensors"
_SHARED = "Use features that hold no imagery: `pu-geo add-features P.pugeo shared`."


@dataclass(frozen=True)
class OwnData:
    """What a project brings to a federation, whatever classes it holds.

    Attributes:
        inputs: its chips' features in the agreed feature space, and its labels; without damage types.
        embedder: of the agreement's shape, standardised by this project's own chips.
    """

    layout: Layout
    agreement: Agreement
    inputs: RunInputs
    embedder: Embedder

    @classmethod
    def read(cls, layout: Layout, agreement: Agreement) -> OwnData:
        """Read a project's features and labels.

        Raises:
            FederationError: if it has no features of the agreed kind, or the agreement is of another version.
            ProjectError: if it has no chips.
        """
        agreement.require_current()
        inputs = read_inputs(layout, feature_set=feature_set_of(layout, agreement))
        data = inputs.data(layout, agreement.settings)
        embedder = network_job.new_embedder(agreement)
        is_visible = np.ones(data.inputs.n_chips, np.bool_) if inputs.is_hidden is None else ~inputs.is_hidden
        with one_thread():
            embedder.trunk.fit_statistics(data, np.flatnonzero(is_visible), Run(_CPU, agreement.seed).generator(2))
        return cls(layout, agreement, inputs, embedder)

    @cached_property
    def data(self) -> PUData:
        """Features and labels, without damage types."""
        return self.inputs.data(self.layout, self.agreement.settings)

    @property
    def folder(self) -> Path:
        """Of the federation, in this project."""
        return self.layout.federation(self.agreement.id)

    def rows_of(self, class_name: str, types_from: str | None) -> Ints:
        """Return the rows of the buildings of a class, int64 [n], rising.

        "rest" are all buildings that nobody called damaged. A damage type's are those of that type; one with several counts
        as the rarest of its own, as in FedAwS in one process. Buildings of accepted clusters belong to none.

        Args:
            types_from: see `federations.Held`.

        Raises:
            TrainingError: if no damaged building has a type there.
        """
        self.agreement.row(class_name)
        inputs = self.inputs
        if class_name == REST:
            return np.flatnonzero(~inputs.learned_as_positive & ~inputs.pu.is_excluded)
        if types_from is None:
            return np.flatnonzero(inputs.pu.is_positive & ~inputs.pu.is_excluded)
        types = inputs.with_types(self.layout, types_from, catalog.card(METHOD)).types
        kinds = {} if types is None else types.kinds
        return np.array(sorted(row for row, name in kinds.items() if name == class_name), np.int64)


class Part:
    """A project in one of its roles: the chips of one class.

    Args:
        own: of the project; parts of one project can share it.
        types_from: see `federations.Held`.

    Attributes:
        row: of W, that it holds.
        rows: of its chips, int64 [n].

    Raises:
        FederationError: if the project has no building of the class.
    """

    def __init__(self, own: OwnData, class_name: str, types_from: str | None = None) -> None:
        self.own, self.class_name, self.row = own, class_name, own.agreement.row(class_name)
        self.rows = own.rows_of(class_name, types_from)
        if not len(self.rows):
            raise FederationError(
                f"{own.layout.folder.name} has no building of the class {class_name!r} to learn from.",
                "Mark some on the Annotate page, or join with another class.",
                kind="few_labels",
            )

    def reply(self, message: Message) -> Message:
        """Do what the leader asks for: its part of a round, or to keep the finished model; what leaves is in the ledger
        before it is returned.

        The same ask gets the same answer, to the bit, also after a restart. With local noise that is the stored one,
        whatever was answered on the Annotate page since: of two answers with the same noise, the difference would have none.

        Raises:
            FederationError: if the message does not fit the agreement, or the training diverged.
        """
        digest = message.facts["agreement"]
        if digest != self.own.agreement.digest:
            raise _odd(f"is of the agreement {printable(digest, 12)}; this project joined {self.own.agreement.digest[:12]}")
        if message.kind == wire_job.MODEL:
            write_model(self.own, message)
            reply = Message(wire_job.RECEIVED, {}, {})
        else:
            reply = self._answer(message)
        self.note(reply)
        return reply

    def note(self, message: Message) -> None:
        """Write into the ledger what is about to be sent to the leader."""
        is_here = self.row in federations.rows_here(self.own.folder, len(self.own.agreement.classes))
        wire_job.note(self.own.folder, message, wire_job.LEADER, is_here=is_here)

    def _answer(self, ask: Message) -> Message:
        own, agreement = self.own, self.own.agreement
        rules, settings = agreement.privacy, agreement.settings
        self._check(ask)
        if rules.kind == "local" and (stored := self._answered(ask)) is not None:
            return stored
        theta, own_vector = ask.theta, ask.tensors[wire_job.OWN_VECTOR]
        local, losses = network_job.local_of(theta_of(own.embedder)), list[float]()
        run = Run(_CPU, agreement.seed)
        client = Client(own.data.inputs, self.rows, own.embedder, MicroBatcher(run))
        with one_thread():
            generator = run.generator(CLIENT_STREAM + self.row, ask.round)
            update = client_update(client, {**local, **theta}, own_vector, settings, generator, losses.append)
        loss = sum(losses) / len(losses)
        if not math.isfinite(loss):
            raise FederationError(
                f"The training of {self.class_name} diverged in round {ask.round}.",
                "Ask whoever leads for a federation with a smaller lr.",
                kind="diverged",
            )
        update = update._replace(theta=network_job.shared_of(update.theta))
        if rules.kind == "local":
            noise = privacy_job.secret_noise(own.folder, self.row, ask.round, _sha256_of(ask))
            update, loss = privacy_job.local(agreement, update, theta, own_vector, noise), 0.0
        n_chips = len(self.rows) if settings.weighting == "chips" else 1
        answer = Message(
            wire_job.ANSWER, {**update.theta, wire_job.OWN_VECTOR: update.own_vector},
            {**ask.facts, "class_name": self.class_name, "n_chips": n_chips, "loss": loss},
        )  # fmt: skip
        if rules.kind == "local":
            notes = {"ask": _sha256_of(ask), "facts": json.dumps(dict(answer.facts))}
            wire_job.write_tensors(self._answer_file, answer.tensors, notes)
        return answer

    def _check(self, ask: Message) -> None:
        """Refuse an ask that is not one of this federation's, before anything is trained."""
        settings, own = self.own.agreement.settings, network_job.shared_of(theta_of(self.own.embedder))
        if not 1 <= ask.round <= settings.rounds:
            raise _odd(f"is for round {ask.round}; there are {settings.rounds}")
        if odd := wire_job.mismatch({**own, wire_job.OWN_VECTOR: torch.zeros(settings.embedding_dim)}, ask.tensors):
            raise _odd(f"does not fit the agreed network: {odd.rstrip('.')}")

    @property
    def _answer_file(self) -> Path:
        """Of the newest round that was answered with noise: it is stored before it leaves."""
        return self.own.folder / federations.KEYS / _ANSWERED.format(row=self.row)

    def _answered(self, ask: Message) -> Message | None:
        """Return what this member answered to an ask; None for one of a later round.

        Raises:
            FederationError: if the round was answered to another ask: noise that serves twice hides less than was agreed on.
        """
        path = self._answer_file
        if not path.is_file():
            return None
        try:
            notes, tensors = wire_job.read_tensors(path)
            answer = wire_job.checked(Message(wire_job.ANSWER, tensors, json.loads(notes["facts"])), wire_job.ANSWER)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error  # the leader gets these words, and no path
            raise FederationError(
                f"What {self.class_name} answered last is damaged: {why}.",
                f"Restore {path.name} from a copy of {path.parent}. Without it a round could be answered twice, which "
                "costs privacy.",
                kind="lost",
            ) from error
        if ask.round == answer.round and _sha256_of(ask) == notes.get("ask"):
            return answer
        if ask.round <= answer.round:
            raise _odd(f"is for round {ask.round}, which this member has answered: another answer would cost privacy")
        return None


def feature_space(layout: Layout) -> FeatureSpace:
    """Return the feature space of a project for an agreement: of the features in use if they hold no imagery, else of the
    newest that do not.

    Raises:
        FederationError: if what makes its features holds imagery: everybody else would get that.
        ProjectError: if there are no chips.
    """
    with store.connect(layout) as db:
        chip_set, gsd_m = contents.chosen_chip_set(db), contents.grid(db).gsd_m
        used = feature_sets.in_use(db, layout, chip_set).name
    found = feature_sets.without_imagery(feature_sets.all_sets(layout, chip_set), used)
    maker = None if found is None else maker_in(layout, chip_set, found.name)
    if found is None or maker is None:
        raise FederationError(
            f"The features of {layout.folder.name} are made by patches of this project's imagery, or by what was learned "
            "from it; partners "
            "would get these with the model.",
            _SHARED,
            kind="imagery",
        )
    facts = chip_facts(layout, chip_set)
    return FeatureSpace(
        found.name, maker.kind, found.n_features, fingerprint(maker), str(facts["bands"]), int(facts["size_px"]), gsd_m
    )


def feature_set_of(layout: Layout, agreement: Agreement) -> str:
    """Return the name of the feature set of a project's newest chips that is in the agreed feature space.

    Raises:
        FederationError: if there is none; says which are there, and how the agreed one is made.
    """
    wanted = agreement.features
    chip_set = store.call(layout, contents.chosen_chip_set)
    facts = chip_facts(layout, chip_set)
    here = str(facts["bands"]), int(facts["size_px"])
    if here != (wanted.bands, wanted.size_px):
        raise FederationError(
            f"The federation {agreement.id} works on chips of {wanted.bands}, {wanted.size_px} px; those of "
            f"{layout.folder.name} "
            f"have {here[0]}, {here[1]} px.",
            f"Cut such chips: `pu-geo chip {layout.folder.name} --bands {wanted.bands} --size-px {wanted.size_px}`.",
            kind="features",
        )
    sets = feature_sets.all_sets(layout, chip_set)
    for one in sets:
        maker = maker_in(layout, chip_set, one.name)
        is_same = maker is not None and maker.kind == wanted.kind and fingerprint(maker) == wanted.fingerprint
        if is_same and feature_sets.without_imagery([one], one.name):
            return one.name
    raise FederationError(
        f"The federation {agreement.id} works on features {printable(wanted.name)} ({printable(wanted.kind)}, fingerprint "
        f"{wanted.fingerprint[:12]}); {layout.folder.name} has {', '.join(one.name for one in sets)}, and none with that "
        "fingerprint.",
        f"Make them with the same settings: `pu-geo add-features {layout.folder.name} {printable(wanted.kind)}`.",
        kind="features",
    )


def write_model(own: OwnData, message: Message) -> None:
    """Write the finished model into the federation's folder of a project, as a model file with this project's statistics.

    The task `apply_model` makes a run of it.

    Raises:
        FederationError: if the tensors are not those of the agreed network, or the leader does not say how far classes took
            part.
    """
    agreement, inputs, held = own.agreement, own.inputs, federations.memberships(own.folder)
    mine, classes = theta_of(own.embedder), agreement.classes
    wanted = {
        **network_job.shared_of(mine), wire_job.CLASS_VECTORS: torch.zeros(len(classes), agreement.settings.embedding_dim),
        wire_job.TOOK_PART: torch.zeros(len(classes), 2, dtype=torch.int64),
    }  # fmt: skip
    odd = wire_job.mismatch(wanted, message.tensors)
    counts = torch.zeros(1) if odd else message.tensors[wire_job.TOOK_PART]
    if odd or not 0 <= int(counts.min()) <= int(counts.max()) <= agreement.settings.rounds:
        raise FederationError(
            "The finished model does not fit the agreed network: "
            f"{odd or 'classes took part in more rounds than there are.'}",
            "Ask whoever leads to send it again.",
            kind="model",
        )
    embedder = network_job.new_embedder(agreement)
    embedder.load_state_dict({**network_job.local_of(mine), **message.theta})
    vectors, kinds = message.tensors[wire_job.CLASS_VECTORS], torch.arange(1, len(classes))
    whole = FedawsNetwork(embedder, vectors, agreement.settings.temperature, kinds).eval()
    trained = TrainedModel(whole, whole.trunk)
    n_positive, n_rest = _n_learned(own, held)
    facts = replace(
        inputs.facts(METHOD, PRESET, catalog.card(METHOD).score_type, 0.5),
        run_id=f"{PRESET}-{agreement.id}"[:60],
        seed=agreement.seed,
        settings=asdict(agreement.settings),
        n_positive=n_positive,
        n_unlabeled=n_rest,
        created_at=store.now(),
        device=name_of(_CPU),
        types=classes[1:],
    )
    as_answers = replace(inputs, types_from=ANSWERS)  # a class that is a grade is that grade, and not "at least" it
    card, weights = card_and_weights(own.layout, facts, as_answers, own.data, trained.state(), facts.threshold)
    card["input"]["seed"] = FEATURE_SEED
    card["learned_from"] |= {
        "class_names": list(classes),
        "federation": {
            "id": agreement.id,
            "title": agreement.title,
            "agreement": agreement.digest,
            "noise": agreement.privacy.kind,
            "gsd_m": agreement.features.gsd_m,
            "rounds": agreement.settings.rounds,
            "classes_here": list(held),
            "took_part": {name: TookPart(*row)._asdict() for name, row in zip(classes, counts.tolist(), strict=True)},
        },
    }
    model_files.write(own.folder / federations.MODEL, json.dumps(card, ensure_ascii=False, indent=1).encode(), weights)


def _n_learned(own: OwnData, held: Held) -> tuple[int, int]:
    """Return how many damaged buildings, and how many others, are of the classes that a project holds: nobody learned from
    the rest.
    """
    damaged, rest = set[int](), 0
    for name, source in held.items():
        try:
            rows = own.rows_of(name, source)
        except TrainingError:  # a class that this project joined with later, of answers that this job does not know
            continue
        if name == REST:
            rest = len(rows)
        else:
            damaged.update(rows.tolist())
    return len(damaged), rest


def _sha256_of(ask: Message) -> str:
    return "-".join(wire_job.sha256_of(tensor.numpy().tobytes()) for _, tensor in sorted(ask.tensors.items()))


def _odd(words: str) -> FederationError:
    return FederationError(f"What the leader sent {words}.", "Ask whoever leads what changed.", kind="ask")
