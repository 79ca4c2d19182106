"""A member's side: a project's chips of one class, and what they make of an ask."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from pu_geo.errors import FederationError, TrainingError, printable
from pu_geo.features.bank import FEATURE_SEED, Maker, fingerprint
from pu_geo.federation import ledger, network, privacy, wire
from pu_geo.federation.agreement import REST_CLASS, Agreement, FeatureSpace
from pu_geo.federation.protocol import Answer, Ask
from pu_geo.files import atomic_write
from pu_geo.methods import catalog
from pu_geo.methods.fedaws import CLIENT_STREAM, Client, Embedder, FedawsNetwork, client_update, theta_of
from pu_geo.project import contents, feature_sets, federations, model_files, store
from pu_geo.project.contents import chip_facts
from pu_geo.project.damage_types import ANSWERS, GRADES
from pu_geo.project.federations import Membership
from pu_geo.project.layout import Layout
from pu_geo.tasks.imagery.features import maker_in
from pu_geo.tasks.train.inputs import RunInputs, read_inputs
from pu_geo.tasks.train.model_card import card_and_weights
from pu_geo.training.data import Ints, PUData
from pu_geo.training.loop import MicroBatcher
from pu_geo.training.network import TrainedModel
from pu_geo.training.run import Run, name_of
from pu_geo.training.threads import one_thread

METHOD, PRESET = "fedaws", "federated"
_CPU = torch.device("cpu")
_ANSWERED = "answered-{row}.safetensors"


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
        embedder = network.new_embedder(agreement)
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

        "rest" are all buildings that nobody called damaged. A damage type's are those of that type; one with several counts as the
        rarest of its own, as in FedAwS in one process. Buildings of accepted clusters belong to none.

        Args:
            types_from: see `Membership`.

        Raises:
            TrainingError: if no damaged building has a type there.
        """
        self.agreement.row(class_name)
        inputs = self.inputs
        if class_name == REST_CLASS:
            return np.flatnonzero(~inputs.learned_as_positive & ~inputs.pu.is_excluded)
        if types_from is None:
            return np.flatnonzero(inputs.pu.is_positive & ~inputs.pu.is_excluded)
        types = inputs.with_types(self.layout, types_from, catalog.card(METHOD)).types
        kinds = {} if types is None else types.kinds
        return np.array(sorted(row for row, name in kinds.items() if name == class_name), np.int64)


class Member:
    """A project in one of its roles: the chips of one class.

    Args:
        own: of the project; members of one project can share it.
        membership: its class.

    Attributes:
        row: of W, that it holds.
        rows: of its chips, int64 [n].

    Raises:
        FederationError: if the project has no building of the class.
    """

    def __init__(self, own: OwnData, membership: Membership) -> None:
        self.own, self.membership = own, membership
        self.row = own.agreement.row(membership.class_name)
        self.rows = own.rows_of(membership.class_name, membership.types_from)
        if not len(self.rows):
            raise FederationError(
                f"{own.layout.folder.name} has no building of the class {membership.class_name!r} to learn from.",
                "Mark some on the Annotate page, or join with another class.",
                kind="few_labels",
            )

    def answer(self, ask: Ask) -> Answer:
        """Do the member's part of a round; what leaves is in the ledger before it is returned.

        The same ask gets the same answer, to the bit, also after a restart. With local noise that is the stored one, whatever was
        answered on the Annotate page since: of two answers with the same noise, the difference would have none.

        Raises:
            FederationError: if the ask does not fit the agreement, or the training diverged.
        """
        own, agreement = self.own, self.own.agreement
        self._check(ask)
        if agreement.privacy.kind == "local" and (stored := self._answered(ask)) is not None:
            self._note(stored)
            return stored
        local, losses = network.local_of(theta_of(own.embedder)), list[float]()
        run = Run(_CPU, agreement.seed)
        client = Client(own.data.inputs, self.rows, own.embedder, MicroBatcher(run))
        with one_thread():
            update = client_update(
                client, {**local, **ask.theta}, ask.own_vector, agreement.settings,
                run.generator(CLIENT_STREAM + self.row, ask.round), losses.append,
            )  # fmt: skip
        loss, is_noisy = sum(losses) / len(losses), agreement.privacy.kind == "local"
        if not math.isfinite(loss):
            raise FederationError(
                f"The training of {self.membership.class_name} diverged in round {ask.round}.",
                "Ask whoever leads for a federation with a smaller lr.",
                kind="diverged",
            )
        n_chips = len(self.rows) if agreement.settings.weighting == "chips" else 1
        update = update._replace(theta=network.shared_of(update.theta), n_chips=n_chips)
        if is_noisy:
            noise = privacy.secret_noise(own.folder, self.row, ask.round, _sha256_of(ask))
            update, loss = privacy.local(agreement, update, ask.theta, ask.own_vector, noise), 0.0
        answer = Answer(ask.round, agreement.digest, self.membership.class_name, update, loss)
        if is_noisy:
            self._store(ask, answer)
        self._note(answer)
        return answer

    @property
    def is_here(self) -> bool:
        """Whether the leader is on this machine, too, see `federations.rows_here`."""
        return self.row in federations.rows_here(self.own.folder, len(self.own.agreement.classes))

    def _note(self, answer: Answer) -> None:
        ledger.note(self.own.folder, wire.pack_answer(answer), ledger.LEADER, is_here=self.is_here)

    def _check(self, ask: Ask) -> None:
        """Refuse an ask that is not one of this federation's, before anything is trained."""
        agreement, own = self.own.agreement, network.shared_of(theta_of(self.own.embedder))
        if ask.agreement != agreement.digest:
            raise _odd_ask(
                f"is of the agreement {printable(ask.agreement, 12)}; this project joined {agreement.digest[:12]}"
            )
        if not 1 <= ask.round <= agreement.settings.rounds:
            raise _odd_ask(f"is for round {printable(ask.round)}; there are {agreement.settings.rounds}")
        shape = (agreement.settings.embedding_dim,)
        sent = {**ask.theta, wire.OWN_VECTOR: ask.own_vector}
        wanted = {name: tuple(tensor.shape) for name, tensor in own.items()} | {wire.OWN_VECTOR: shape}
        if {name: tuple(tensor.shape) for name, tensor in sent.items()} != wanted:
            raise _odd_ask("holds other tensors than the agreed network has")
        if not all(tensor.dtype == torch.float32 and bool(tensor.isfinite().all()) for tensor in sent.values()):
            raise _odd_ask("holds values that are no finite float32 numbers")

    @property
    def _answer_file(self) -> Path:
        """Of the newest round that was answered with noise: it is stored before it leaves."""
        return self.own.folder / federations.KEYS / _ANSWERED.format(row=self.row)

    def _answered(self, ask: Ask) -> Answer | None:
        """Return what this member answered to an ask; None for one of a later round.

        Raises:
            FederationError: if the round was answered to another ask: noise that serves twice hides less than was agreed on.
        """
        path = self._answer_file
        if not path.is_file():
            return None
        try:
            with safe_open(path, "np") as stored:
                notes = stored.metadata() or {}
                arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # it is no mapping
            answer = wire.unpack_answer(wire.Packed(wire.ANSWER, arrays, json.loads(notes["facts"])))
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error  # the leader gets these words, and no path
            raise FederationError(
                f"What {self.membership.class_name} answered last is damaged: {why}.",
                f"Restore {path.name} from a copy of {path.parent}. Without it a round could be answered twice, which costs privacy.",
                kind="lost",
            ) from error
        if ask.round == answer.round and _sha256_of(ask) == notes.get("ask"):
            return answer
        if ask.round <= answer.round:
            raise _odd_ask(f"is for round {ask.round}, which this member has answered: another answer would cost privacy")
        return None

    def _store(self, ask: Ask, answer: Answer) -> None:
        packed, path = wire.pack_answer(answer), self._answer_file
        content = save(dict(packed.arrays), {"ask": _sha256_of(ask), "facts": json.dumps(dict(packed.facts))})
        with atomic_write(path, mode=0o600) as temporary:
            temporary.write_bytes(content)


def feature_space(layout: Layout, name: str) -> FeatureSpace:
    """Return the feature space of a project's feature set, for an agreement.

    Raises:
        FederationError: if what makes its features holds imagery: everybody else would get that.
        ProjectError: if the newest chips have no such set.
    """
    chip_set = store.call(layout, contents.chosen_chip_set)
    facts, found = chip_facts(layout, chip_set), feature_sets.find(layout, chip_set, name)
    maker = maker_in(layout, chip_set, name)
    if maker is None:
        raise FederationError(
            f"What made the features {name} was not kept.", "Make them again with `pu-geo features`.", kind="features"
        )
    _refuse_imagery(maker, name)
    plain = {key: value for key, value in maker.facts().items() if isinstance(value, str | int | float | bool | None)}
    return FeatureSpace(
        name, maker.kind, found.n_features, fingerprint(maker), str(facts["bands"]), int(facts["size_px"]),
        store.call(layout, contents.grid).gsd_m, plain,
    )  # fmt: skip


def pixel_words(layout: Layout, agreement: Agreement) -> list[str]:
    """Return in words that a project's pixels are much finer or coarser than those that a federation was agreed on with."""
    return contents.pixel_words(store.call(layout, contents.grid).gsd_m, agreement.features.gsd_m, "The federation")


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
            f"The federation {agreement.id} works on chips of {wanted.bands}, {wanted.size_px} px; those of {layout.folder.name} "
            f"have {here[0]}, {here[1]} px.",
            f"Cut such chips: `pu-geo chip {layout.folder.name} --bands {wanted.bands} --size-px {wanted.size_px}`.",
            kind="features",
        )
    sets = feature_sets.all_sets(layout, chip_set)
    for one in sets:
        maker = maker_in(layout, chip_set, one.name)
        if maker is not None and maker.kind == wanted.kind and fingerprint(maker) == wanted.fingerprint:
            _refuse_imagery(maker, one.name)
            return one.name
    raise FederationError(
        f"The federation {agreement.id} works on features {printable(wanted.name)} ({printable(wanted.kind)}, fingerprint "
        f"{wanted.fingerprint[:12]}); {layout.folder.name} has {', '.join(one.name for one in sets)}, and none with that "
        "fingerprint.",
        f"Make them with the same settings: `pu-geo features {layout.folder.name} --maker {printable(wanted.kind)}`.",
        kind="features",
    )


def write_model(
    own: OwnData, model: Mapping[str, Tensor], said: Mapping[str, object], memberships: list[Membership]
) -> Path:
    """Write the finished model into the federation's folder of a project, as a model file with this project's statistics.

    Args:
        model: theta and "class_vectors", as the leader sent them.
        said: what the leader says of the training, see `protocol.Transport.finish`.
        memberships: of this project; they stand on the card.

    Returns:
        Path of the file, which the task `apply_model` makes a run of.

    Raises:
        FederationError: if the tensors are not those of the agreed network, or the leader does not say how far classes took part.
    """
    agreement, inputs = own.agreement, own.inputs
    parts = wire.parts_of(said, len(agreement.classes), agreement.settings.rounds)
    theta = {name: tensor for name, tensor in model.items() if name != wire.CLASS_VECTORS}
    mine, vectors = theta_of(own.embedder), model[wire.CLASS_VECTORS]
    shapes = {name: tensor.shape for name, tensor in network.shared_of(mine).items()}
    is_ours = {name: tensor.shape for name, tensor in theta.items()} == shapes
    is_ours &= tuple(vectors.shape) == (len(agreement.classes), agreement.settings.embedding_dim)
    if not is_ours or not all(each.dtype == torch.float32 and bool(each.isfinite().all()) for each in model.values()):
        raise FederationError(
            "The finished model does not hold the tensors of the agreed network, in finite float32 numbers.",
            "Ask whoever leads to send it again.",
            kind="model",
        )
    embedder = network.new_embedder(agreement)
    embedder.load_state_dict({**network.local_of(mine), **theta})
    kinds = torch.arange(1, len(agreement.classes))
    whole = FedawsNetwork(embedder, vectors.clone(), agreement.settings.temperature, kinds).eval()
    trained = TrainedModel(whole, whole.trunk)
    named = next((one.types_from for one in memberships if one.types_from), None)
    types_from = (
        ANSWERS if named in (None, GRADES) else named
    )  # a class that is a grade is that grade, and not "at least" it
    n_positive, n_rest = _n_learned(own, memberships)
    facts = replace(
        inputs.facts(METHOD, PRESET, catalog.card(METHOD).score_type, 0.5), run_id=f"{PRESET}-{agreement.id}"[:60], seed=agreement.seed,
        settings=asdict(agreement.settings), n_positive=n_positive, n_unlabeled=n_rest, created_at=store.now(),
        device=name_of(_CPU), types=agreement.types,
    )  # fmt: skip
    card, weights = card_and_weights(
        own.layout, facts, replace(inputs, types_from=types_from), own.data, trained.state(), facts.threshold
    )
    card["input"]["seed"] = FEATURE_SEED
    card["learned_from"] |= {
        "class_names": list(agreement.classes),
        "federation": {
            "id": agreement.id, "title": agreement.title, "agreement": agreement.digest,
            "noise": agreement.privacy.kind, "gsd_m": agreement.features.gsd_m, "rounds": agreement.settings.rounds, "classes_here": [one.class_name for one in memberships],
            "took_part": {name: asdict(part) for name, part in zip(agreement.classes, parts, strict=True)},
        },
    }  # fmt: skip
    path = own.folder / federations.MODEL
    model_files.write(path, json.dumps(card, ensure_ascii=False, indent=1).encode(), weights)
    return path


def _n_learned(own: OwnData, memberships: list[Membership]) -> tuple[int, int]:
    """Return how many damaged buildings, and how many others, are of the classes that a project holds: nobody learned from the rest."""
    damaged, rest = set[int](), 0
    for one in memberships:
        try:
            rows = own.rows_of(one.class_name, one.types_from)
        except TrainingError:  # a class that this project joined with later, of answers that this job does not know
            continue
        if one.class_name == REST_CLASS:
            rest = len(rows)
        else:
            damaged.update(rows.tolist())
    return len(damaged), rest


def _refuse_imagery(maker: Maker, name: str) -> None:
    if maker.facts().get("holds_imagery", True):
        raise FederationError(
            f"The features {name} are made by patches of this project's imagery, or by what was learned from it; partners would get "
            "these with the model.",
            "Use features that hold no imagery: `pu-geo features P.pugeo --maker shared`.",
            kind="imagery",
        )


def _sha256_of(ask: Ask) -> str:
    packed = wire.pack_ask(ask)
    return "-".join(wire.sha256_of(packed.arrays[name]) for name in sorted(packed.arrays))


def _odd_ask(words: str) -> FederationError:
    return FederationError(f"What the leader asks {words}.", "Ask whoever leads what changed.", kind="ask")
