"""Two agencies with a project each, one with flooded and one with destroyed buildings, and features that hold no imagery."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_parts import add_chips, click, job_of, small_project

from pu_geo.federation import federating
from pu_geo.federation.agreement import Agreement, FeatureSpace
from pu_geo.federation.member_job import Part, feature_space
from pu_geo.federation.rounds_job import lead, read_state
from pu_geo.federation.simulated_job import SimulatedTransport, set_up
from pu_geo.federation.wire_job import Message
from pu_geo.lifecycle import projects
from pu_geo.methods.cards.fedaws import FedawsSettings
from pu_geo.methods.fedaws import Learner
from pu_geo.records import FeatureRequest
from pu_geo.scenes.features_job import features
from pu_geo.store import contents, federations, store
from pu_geo.store.federations import Member, Round, Sent
from pu_geo.store.layout import Layout

N, N_DAMAGED, N_CLICKED, SIDE_PX = 40, 12, 8, 24
CLASSES = ("rest", "destroyed", "flooded")
NAME = "joplin"
SHORT = FedawsSettings(rounds=3, local_steps=2, batch_size=16, width=16, embedding_dim=8)


def chips_of(kind: str, seed: int) -> NDArray[np.uint8]:
    """Chips of 40 buildings, pre and post: of the first 12 the post chip is bright and rough (destroyed) or dark and smooth."""
    rng = np.random.default_rng(seed)
    chips = rng.integers(90, 130, (N, 6, SIDE_PX, SIDE_PX)).astype(np.uint8)
    shape = (N_DAMAGED, 3, SIDE_PX, SIDE_PX)
    chips[:N_DAMAGED, 3:] = rng.integers(60, 250, shape) if kind == "destroyed" else rng.integers(20, 26, shape)
    return chips


def agency(folder: Path, kind: str, *, seed: int = 0, **details: Any) -> Layout:
    """A project whose first eight buildings are marked damaged; its features in use are shared ones."""
    layout = small_project(folder, N, kind)
    chips = chips_of(kind, seed)
    plain = chips.mean((2, 3))[None].astype(np.float16)  # in the place of random convolutions, which every chip set has
    add_chips(layout, [f"b{i}" for i in range(N)], bands="pre+post", size_px=SIDE_PX, chips=chips, features=plain)
    features(job_of(layout, "features"), request=asdict(FeatureRequest("shared", n_views=2)), use=True)
    click(layout, *(f"b{i}" for i in range(N_CLICKED)), **details)
    return layout


def with_pixels_of(layout: Layout, factor: float) -> tuple[float, float]:
    """Make a project's pixels larger by a factor; return their sizes before and after, metres."""
    with store.connect(layout) as db, store.transaction(db):
        known_m = contents.grid(db).gsd_m
        facts = json.loads(db.execute("SELECT value FROM pugeo_meta WHERE key = 'grid'").fetchone()[0])
        db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'grid'", (json.dumps(facts | {"gsd_m": factor * known_m}),))
    return known_m, factor * known_m


def agreed(layout: Layout, **rules: Any) -> Agreement:
    """An agreement on the features of a project."""
    usual = {"settings": SHORT, "quorum": 3, "tries": 2}
    return Agreement(NAME, "Joplin and Moore", CLASSES, feature_space(layout), **{**usual, **rules})


def members_of(agreement: Agreement, destroyed: Layout, flooded: Layout) -> dict[int, Part]:
    """Write the federation's files, and return the members: the first project leads, and holds "destroyed" and "rest"."""
    return set_up(agreement, destroyed, {destroyed: {"destroyed": None, "rest": None}, flooded: {"flooded": None}})


class Carried(SimulatedTransport):
    """A transport that hands `carry` the row and each message on its way, which returns what arrives; None for nothing."""

    carry: Callable[[int, Message], Message | None]

    def exchange(self, messages: Mapping[int, Message], **more: Any) -> Mapping[int, Message | str]:
        there = {row: each for row, one in messages.items() if (each := self.carry(row, one)) is not None}
        came = super().exchange(there, **more)
        replies = {row: one if isinstance(one, str) else self.carry(row, one) for row, one in came.items()}
        return {row: one for row, one in replies.items() if one is not None}


def transport_of(
    agreement: Agreement, pair: tuple[Layout, Layout], carry: Callable[[int, Message], Message | None] = lambda _, one: one
) -> Carried:
    made = Carried(members_of(agreement, *pair))
    made.carry = carry
    return made


def led(agreement: Agreement, pair: tuple[Layout, Layout], transport: Any = None) -> Learner:
    """Run a federation's rounds to the end; return theta and W."""
    lead(job_of(pair[0]), agreement, transport or transport_of(agreement, pair))
    _, learner = read_state(pair[0].federation(agreement.id), agreement) or (0, None)
    assert learner is not None
    return learner


def require_equal(first: Learner, second: Learner, tolerance: float = 0.0) -> None:
    """Require theta and W to be the same, to the bit without a tolerance."""
    assert first.theta.keys() == second.theta.keys()
    pairs: list[tuple[Any, Any]] = [(first.theta[name], second.theta[name]) for name in first.theta]
    for one, other in [*pairs, (first.class_vectors, second.class_vectors)]:
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@pytest.fixture
def storm(tmp_path: Path) -> Layout:
    """A project with eight destroyed buildings and shared features, which the app has opened."""
    layout = agency(tmp_path / "storm.pugeo", "destroyed")
    projects.open_project(str(layout.folder))
    return layout


@pytest.fixture
def with_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were installed: the forms are drawn, nothing of Flower is called."""
    monkeypatch.setattr(federating, "is_installed", lambda: True)
    monkeypatch.setattr(federating, "require_flower", lambda: None)


def with_federation(layout: Layout, *, n_rounds: int = 0, is_over: bool = False, **facts: Any) -> Layout:
    """Give a project a federation that it leads, after some rounds of four, with the files that a real one has."""
    usual = {"id": "storm", "title": "Storm *and* flood"}
    space = FeatureSpace("shared-1", "shared", 512, "ab" * 32, "pre+post", 24, 0.5)
    made = Agreement(**{**usual, **facts}, classes=CLASSES, features=space, settings=FedawsSettings(rounds=4))
    folder = layout.federation(made.id)
    federations.write_agreement(folder, made.to_json())
    agencies = {row: Member(name, f"Agency {row}", 0.5, f"KEY {row}") for row, name in enumerate(CLASSES)}
    federations.write_members(folder, agencies)
    federations.write_memberships(folder, {"destroyed": None, "rest": None})
    (folder / federations.TLS).mkdir(exist_ok=True)  # it is no trial
    cosines = ((1.0, 0.0, -0.5), (0.0, 1.0, 0.5), (-0.5, 0.5, 1.0))
    for number in range(1, n_rounds + 1):
        late, refused = ((2,) if number == 1 else ()), ({2: "its change has a norm of 1e9"} if number == 2 else {})
        federations.append_round(folder, Round(number, store.now(), (0, 1), late, refused, 0.4, cosines))
        sent = Sent(store.now(), "ask", "flooded", number, "head.weight", "float32", (64, 256), 65536, f"{number:064x}")
        federations.append_sent(folder, [sent])
    if is_over:
        (folder / federations.MODEL).write_bytes(b"model")
    return layout
