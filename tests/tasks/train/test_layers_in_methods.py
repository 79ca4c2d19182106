"""All that learns from features learns from layers: a layer that shows damage helps, and who lacks it is ranked by the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from layered_chip_parts import TABLE, layer_set, layered_chips, with_layers
from numpy.typing import NDArray
from small_parts import in_tiers

from pu_geo.analysis import ranker
from pu_geo.analysis.metrics import average_precision
from pu_geo.features import bank, layers
from pu_geo.methods import catalog
from pu_geo.methods.fitting import fit_and_score, pu_data
from pu_geo.project.layout import Layout
from pu_geo.records import FeatureRequest
from pu_geo.services.annotate import ranking
from pu_geo.services.imagery import features
from pu_geo.training.data import FeatureViews
from pu_geo.training.run import Run

CPU = torch.device("cpu")
N, OPTICAL = 200, 512  # columns of pre+post
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def town() -> tuple[NDArray[np.float16], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return features of pre+post and of SAR, float16 [4, N, 1024]; which are damaged, and which lack SAR, bool [N] each."""
    chips, is_damaged, lacks = layered_chips(N, optical=12.0)
    is_missing = np.zeros((len(TABLE), N), np.bool_)
    is_missing[2] = lacks
    names = ("pre+post", "sar-post")
    made = bank.fit_maker(
        FeatureRequest("layers", layers=names), chips, generator=torch.Generator().manual_seed(0), device=CPU, views=TABLE,
        is_missing=is_missing,
    )  # fmt: skip
    found = made.transform(chips, 4, seed=0, device=CPU)
    assert isinstance(made, layers.LayerBanks)
    layers.fill_missing(found, made.views, np.stack([np.zeros(N, np.bool_), lacks]), np.ones(N, np.bool_))
    return found, is_damaged, lacks


def scores(method: str, views: NDArray[np.float16], is_positive: NDArray[np.bool_]) -> NDArray[np.floating]:
    nobody = np.zeros(N, np.bool_)
    if method == "ranker":
        return ranker.rank_positives(ranker.prepare(views[0].astype(np.float32)), is_positive)
    card, settings = catalog.card(method), catalog.settings_for(method, "quick")
    data = pu_data(FeatureViews(views), is_positive, is_excluded=nobody, is_not_damaged=nobody)
    return fit_and_score(
        card, data, settings, Run(CPU, 0), prior=lambda: 0.2, start_k=1, is_unlabeled=~is_positive
    ).scores  # fmt: skip


@pytest.mark.parametrize(
    "method", in_tiers(["ranker", "propagation", "ncpu", "pucl"], "contract", quick=["ranker", "propagation"])
)
def test_a_layer_that_shows_damage_helps_and_who_lacks_it_is_ranked_by_the_rest(
    method: str, town: tuple[NDArray[np.float16], NDArray[np.bool_], NDArray[np.bool_]]
) -> None:
    views, is_damaged, lacks = town
    is_positive = np.zeros(N, np.bool_)
    is_positive[np.flatnonzero(is_damaged)[:16]] = True
    rest = ~is_positive
    found = {
        name: scores(method, part, is_positive)[rest] for name, part in (("all", views), ("optical", views[:, :, :OPTICAL]))
    }
    damaged, gone = is_damaged[rest], lacks[rest]
    ap = {name: average_precision(each, damaged) for name, each in found.items()}
    assert ap["all"] > ap["optical"] + 0.02
    of_gone = {name: average_precision(each[gone], damaged[gone]) for name, each in found.items()}
    assert of_gone["all"] > of_gone["optical"] - 0.15  # they have not lost what the other layers show
    place = {name: each.argsort().argsort() / len(each) for name, each in found.items()}
    moved = [place[name][gone].mean() - place[name][~gone].mean() for name in ("all", "optical")]
    assert abs(moved[0] - moved[1]) < 0.15  # no block at one end
    # SAR decides for those that have it, so the others come between, but in no heap: they are spread by their other views
    assert place["all"][gone].std() > 0.4 * place["all"][~gone].std()


@pytest.mark.usefixtures("home")
def test_the_live_ranking_follows_the_set_in_use(project: Layout) -> None:
    with_layers(project, optical=12.0)
    before = ranking.rank_now(project).score_id
    plain = ranking.scores_for_browser(project, before)
    name = layer_set(project, "pre+post", "sar-post")
    assert features.overview(project).in_use == "rcf"
    features.choose(project, name)
    after = ranking.rank_now(project).score_id
    assert after != before
    assert ranking.scores_for_browser(project, before) is None
    assert ranking.scores_for_browser(project, after) != plain
    assert features.layers_here(project) == ("pre+post", "sar-post", "dsm", "pre", "post")
