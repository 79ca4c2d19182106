"""FedAwS: agencies that each hold one kind of damage train one model without showing each other a chip.

`client_update` and `server_round` are what a client and the server do; they know of nothing but their arguments. `fit` runs
them in one process. Its clients are one agency for each kind of damage, with the positives of that kind alone, and the
mapping agency, which holds as class "rest" all buildings that nobody labeled and those that were called not damaged.

That is a PU reading of a paper whose classes are clean: the unlabeled hold hidden damage, so rest is a noisy class. Nor is
any of this private in the formal sense: there is no noise and no secure aggregation, and a class vector reveals something of
its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pu_geo.losses import spreadout as formulas
from pu_geo.methods.cards.fedaws import SETTLING_BATCH, SETTLING_BATCHES, FedawsSettings
from pu_geo.methods.fitting import UNNAMED
from pu_geo.methods.pretraining import empty_extractor, new_extractor, training_span
from pu_geo.training.data import ChipImages, FeatureViews, Ints, PUData, Strength, batches
from pu_geo.training.heads import linear
from pu_geo.training.loop import Epoch, MicroBatcher, Training
from pu_geo.training.network import FeatureExtractor, TrainedModel, require_positives
from pu_geo.training.run import Run
from pu_geo.training.threads import one_thread_on_features

Theta = dict[str, Tensor]  # weights and buffers of an `Embedder`, by name
REST = 0  # row of W, and number of the client, of the buildings that are no known damage
VIEWS: tuple[Strength, ...] = ("strong",)
CLIENT_STREAM = 20  # client number n draws from this stream + n


class Embedder(nn.Module):
    """The paper's g_theta: all of the model that a client gets, besides its own class vector."""

    def __init__(self, extractor: FeatureExtractor, head: nn.Module) -> None:
        super().__init__()
        self.trunk, self.head = extractor, head

    def represent(self, inputs: Tensor) -> Tensor:
        """Embed inputs [B, ...]: float [B, E], not normalised."""
        return cast(Tensor, self.head(self.trunk(inputs)))


class FedawsNetwork(Embedder):
    """The whole model, theta and W, which only the server has during training."""

    class_vectors: Tensor
    kinds: Tensor  # rows of W that are damage types with names, int64 [c]

    def __init__(
        self, embedder: Embedder, class_vectors: Tensor, temperature: float, kinds: Tensor | None = None
    ) -> None:  # fmt: skip
        super().__init__(embedder.trunk, embedder.head)
        self.register_buffer("class_vectors", class_vectors)
        no_kinds = torch.zeros(0, dtype=torch.int64)
        self.register_buffer("kinds", no_kinds if kinds is None else kinds, persistent=kinds is not None)
        self.temperature = temperature

    def cosines(self, inputs: Tensor) -> Tensor:
        """Cosine of inputs [B, ...] with each class vector, float [B, C]; column 0 is rest."""
        return functional.normalize(self.represent(inputs), dim=1) @ self.class_vectors.T

    def margin(self, inputs: Tensor) -> Tensor:
        """Log odds of any kind of damage against rest, in a softmax over the scaled cosines, float [B]."""
        logits = self.cosines(inputs) / self.temperature
        return logits[:, REST + 1 :].logsumexp(1) - logits[:, REST]

    def kind_margins(self, inputs: Tensor) -> Tensor:
        """Log odds of each damage type against all other classes, rest among them, in the same softmax, float [B, c]."""
        logits = self.cosines(inputs) / self.temperature
        is_own = functional.one_hot(self.kinds, logits.shape[1]).bool()
        others = logits[:, None].masked_fill(is_own, -torch.inf)
        return logits[:, self.kinds] - others.logsumexp(2)


@dataclass(frozen=True)
class Client:
    """An agency with chips of one class, and what it trains with.

    Attributes:
        inputs, rows: its chips are these rows, int64 [n], of these inputs; there may be none.
        embedder: gets the server's theta at the beginning of each round; several clients of one process can share it.
        pieces: cuts batches that do not fit.
    """

    inputs: FeatureViews | ChipImages
    rows: Ints
    embedder: Embedder
    pieces: MicroBatcher


class ClientUpdate(NamedTuple):
    """What a client sends to the server.

    Attributes:
        own_vector: its class vector after its steps, float [E], of any length.
        n_chips: how many chips it has; 0 where it could not take part.
    """

    theta: Theta
    own_vector: Tensor
    n_chips: int


@dataclass
class Learner:
    """What the server keeps from round to round; clients keep nothing.

    Attributes:
        class_vectors: W, unit rows, float [C, E]; row 0 is rest.
        velocity: how theta moved in the rounds before, by name, for `server_momentum`; empty without it, and before round 1.
    """

    theta: Theta
    class_vectors: Tensor
    velocity: Theta = field(default_factory=dict)


@one_thread_on_features
def fit(data: PUData, settings: FedawsSettings, run: Run) -> TrainedModel:
    """Train a model of all kinds of damage, each client on its own chips, all in this process.

    Source: FedAwS, Algorithm 1.

    Args:
        data, settings: see the classes. A kind of damage of which no chip is trained on gets no client.
        run: each round reports loss, and class_cosine: the largest cosine of two class vectors before the round.

    Returns:
        The model; findings: "kinds", the damage types that it scores:
        those with a name, and none of a scale of grades, where one type includes another.

    Raises:
        TrainingError: without positives or without other chips, or if training diverged.
        JobCancelled: if the user cancelled.

    Departs from the source: one class, rest, is noisy. Standardisation, pretraining and the statistics of BatchNorm come
    from the mapping agency's chips alone and stay as they are: averaged over clients that each see one class, they would fit
    none. Clients take several steps a round on batches (Remark 1), with weight decay.
    """
    rows = data.trained_rows
    require_positives(data, rows, "FedAwS")
    kinds = np.maximum(data.classes[rows], REST)
    there, pieces = np.unique(kinds), MicroBatcher(run)
    embedder, class_vectors = _start(data, rows[kinds == REST], len(there), settings, run)
    clients = [Client(data.inputs, rows[kinds == kind], embedder, pieces) for kind in there]
    learner = Learner(theta_of(embedder), class_vectors)
    names = ("rest", *(data.class_names[kind] for kind in there[1:]))
    kinds_scored = [row for row, name in enumerate(names) if row != REST and name != UNNAMED and not data.is_ordinal]
    findings = {"kinds": tuple(names[row] for row in kinds_scored)}

    def model() -> TrainedModel:
        embedder.load_state_dict(learner.theta)  # each client begins its round by loading it, too
        scored = torch.tensor(kinds_scored, dtype=torch.int64, device=run.device) if kinds_scored else None
        network = FedawsNetwork(embedder, learner.class_vectors, settings.temperature, scored)
        return TrainedModel(network.eval(), network.trunk, findings)

    for epoch in Training(run, learner, settings.rounds, span=training_span(settings), model=model).epochs():
        with epoch:
            _round(learner, clients, settings, epoch)
    if largest_cosine(learner.class_vectors) > 0.95:
        run.warnings.append("Two class vectors ended up nearly the same; a larger spread_weight keeps them apart.")
    return model()


def from_state(state: Mapping[str, Tensor], settings: FedawsSettings, device: torch.device) -> TrainedModel:
    """Build the model that `TrainedModel.state` was taken from, with the settings it was trained by."""
    extractor = empty_extractor(state, settings)
    embedder = Embedder(extractor, linear(extractor.out_dim, settings.embedding_dim, torch.Generator()))
    vectors, kinds = torch.zeros_like(state["class_vectors"]), state.get("kinds")
    if kinds is not None and not (kinds.ndim == 1 and bool(((kinds > REST) & (kinds < len(vectors))).all())):
        raise ValueError(f"types of rows {kinds.tolist()} are not among {len(vectors)} classes")
    network = FedawsNetwork(embedder, vectors, settings.temperature, kinds)
    return TrainedModel.loaded(network, state, device)


def theta_of(embedder: Embedder) -> Theta:
    """Copy the weights and buffers of an embedder."""
    return {name: tensor.detach().clone() for name, tensor in embedder.state_dict().items()}


def client_update(
    client: Client,
    theta: Theta,
    own_vector: Tensor,
    settings: FedawsSettings,
    generator: torch.Generator,
    report_loss: Callable[[float], None],
) -> ClientUpdate:
    """Do a client's part of a round: some steps down the loss of its own chips and its own class vector.

    Source: FedAwS, Algorithm 1, lines 6 to 9; plain gradient descent, eta = `settings.lr`.

    Args:
        client: its chips. Its embedder is changed.
        theta: what the server sent. Not changed.
        own_vector: its row of W, float [E], on the client's device. Not changed.
        settings, generator: the client's own copies.
        report_loss: called with the loss after each step.

    Returns:
        What it sends back; the same as it got, with n_chips 0, if it has no chips.
    """
    client.embedder.load_state_dict(theta)
    own = own_vector.detach().clone().requires_grad_(not settings.fixed_vectors)
    if len(client.rows):
        # Evaluation mode: a batch of one class would be normalised by the statistics of that class.
        optimizer = torch.optim.SGD(client.embedder.eval().parameters(), settings.lr, weight_decay=settings.weight_decay)
        optimizer.add_param_group({"params": [own], "weight_decay": 0.0})
        for numbers in _client_batches(len(client.rows), settings, generator):
            (views,) = client.inputs.draw(client.rows[numbers], VIEWS, generator, own.device)
            report_loss(_step(client, own, views, optimizer, settings))
    return ClientUpdate(theta_of(client.embedder), own.detach(), len(client.rows))


def server_round(learner: Learner, updates: Mapping[int, ClientUpdate], settings: FedawsSettings) -> Learner:
    """Do the server's part of a round: average the embedder, take in the class vectors, and part them.

    Source: FedAwS, Algorithm 1, lines 11 to 14, and Remark 1: classes whose client took no part keep their row.

    Args:
        learner: as it was sent out. Not changed.
        updates: what came back, by row of W, in any order.

    Returns:
        That of the next round; the same one if nobody took part.

    Departs from the source: weighting "chips", as in federated averaging elsewhere; it drowns the positives in the rest.
    With `server_momentum` theta moves by the mean change and by that part of its last move (FedAvgM: Hsu, Qi and Brown 2019,
    "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification"); class vectors do not.
    """
    taking_part = [number for number in sorted(updates) if updates[number].n_chips]
    if not taking_part:
        return learner
    counts = [updates[number].n_chips if settings.weighting == "chips" else 1 for number in taking_part]
    theta, rows = dict(learner.theta), learner.class_vectors.clone()
    velocity: Theta = {}
    for number in taking_part:
        rows[number] = updates[number].own_vector
    for name, sent in learner.theta.items():
        if not sent.is_floating_point():
            continue
        # A sum of changes: what no client changed stays as it is, to the bit.
        for number, count in zip(taking_part, counts, strict=True):
            theta[name] = theta[name] + (count / sum(counts)) * (updates[number].theta[name] - sent)
        if settings.server_momentum:
            last = learner.velocity.get(name, torch.zeros_like(sent))
            velocity[name] = settings.server_momentum * last + (theta[name] - sent)
            theta[name] = sent + velocity[name]
    return Learner(theta, _parted(rows, settings), velocity)


def _parted(rows: Tensor, settings: FedawsSettings) -> Tensor:
    """Do line 14 of Algorithm 1, and bring rows of W, float [C, E], to unit length."""
    if settings.fixed_vectors or settings.spread_weight == 0:
        return functional.normalize(rows, dim=1)
    nearest = partial(formulas.nearest_spreadout_loss, k=settings.n_nearest)
    regularizer = (
        nearest if settings.spread == "nearest" else partial(formulas.spreadout_loss, margin=settings.spread_margin)
    )
    return formulas.spreadout_step(rows, regularizer, weight=settings.spread_weight, lr=settings.lr)


def largest_cosine(class_vectors: Tensor) -> float:
    """Compute how near the two nearest of several unit rows are; -1 for a single one."""
    return float((class_vectors @ class_vectors.T).fill_diagonal_(-1).max())


def _start(data: PUData, rest: Ints, n: int, settings: FedawsSettings, run: Run) -> tuple[Embedder, Tensor]:
    """Do line 2 of Algorithm 1: draw theta, and W for n classes; what comes from chips before comes from those of rest."""
    rest = np.resize(rest, max(2, len(rest)))  # contrast and BatchNorm need two, be it the same one twice
    extractor = new_extractor(data, rest, settings, run)
    if not settings.pretrain_epochs:
        _settle_statistics(extractor, data, rest, run)
    embedder = Embedder(extractor, linear(extractor.out_dim, settings.embedding_dim, run.generator(1))).to(run.device)
    drawn = torch.randn(n, settings.embedding_dim, generator=run.generator(11))
    return embedder, functional.normalize(drawn, dim=1).to(run.device)


@torch.no_grad()
def _settle_statistics(extractor: FeatureExtractor, data: PUData, rest: Ints, run: Run) -> None:
    """Set BatchNorm to the mean statistics of up to 64 batches of rest, since training will not change them."""
    for norm in (module for module in extractor.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.reset_running_stats()
        norm.momentum = None  # running statistics become plain means
    generator = run.generator(10)
    for numbers in batches(len(rest), SETTLING_BATCH, generator)[:SETTLING_BATCHES]:
        run.stop_if_cancelled()
        extractor.train()(*data.inputs.draw(rest[numbers], VIEWS, generator, run.device))


def _round(learner: Learner, clients: Sequence[Client], settings: FedawsSettings, epoch: Epoch) -> None:
    """Do lines 4 to 14 of Algorithm 1; the learner is changed at the end."""
    nearness, updates = largest_cosine(learner.class_vectors), {}
    for number, client in enumerate(clients):
        own_vector = learner.class_vectors[number].clone()  # a view would carry the other rows along
        updates[number] = client_update(
            client, learner.theta, own_vector, settings, epoch.generator(CLIENT_STREAM + number),
            lambda loss: epoch.add({"loss": loss, "class_cosine": nearness}),
        )  # fmt: skip
    after = server_round(learner, updates, settings)
    learner.theta, learner.class_vectors, learner.velocity = after.theta, after.class_vectors, after.velocity


def _client_batches(n: int, settings: FedawsSettings, generator: torch.Generator) -> list[Ints]:
    """Deal out the chips of one client for its steps of a round, int64 [at least 2] each; begin anew once all were used."""
    size = max(2, min(settings.batch_size, n))
    passes = [torch.randperm(n, generator=generator) for _ in range(-(-size * settings.local_steps // n))]
    return [part.numpy() for part in torch.cat(passes).split(size)[: settings.local_steps]]


def _step(client: Client, own: Tensor, views: Tensor, optimizer: torch.optim.Optimizer, settings: FedawsSettings) -> float:
    """Move embedder and class vector once, for views [B, ...]; return the loss."""

    def work(part: slice, share: float) -> float:
        embeddings = client.embedder.represent(views[part])
        loss = share * formulas.positive_hinge_loss(embeddings, own, enough=settings.enough).mean()
        loss.backward()
        # The formulas take an embedding that is no number for one that points nowhere.
        return float(torch.where(embeddings.isfinite().all(), loss.detach(), torch.nan))

    found = client.pieces.each(len(views), lambda: optimizer.zero_grad(set_to_none=True), work)
    optimizer.step()
    return sum(found)
