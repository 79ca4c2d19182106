"""The losses of NCL."""

import math
from functools import partial

import pytest
import torch
from golden_parts import load_golden, require_refusals, unit_vectors
from torch import Tensor

from pu_geo.errors import ShapeError
from pu_geo.losses import neighborhood as ncl
from pu_geo.losses.neighborhood import HardNegatives, hard_negatives, neighborhood_loss, pair_cross_entropy, pair_targets


def batch(seed: int, b: int = 5, q: int = 9, d: int = 4, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """Two views that take a gradient, and a queue that could."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((b, d), (b, d), (q, d))
    drawn = [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes]
    return tuple(each.requires_grad_() for each in drawn)


def drawn_hard(seed: int, view1: Tensor, queue: Tensor) -> HardNegatives:
    """Hard negatives from six labeled items, every other one forbidden, the last anchor without any."""
    labeled = unit_vectors(6, view1.shape[1], seed + 50).to(view1.dtype)
    may_mix = (torch.arange(6) + torch.arange(len(view1))[:, None]) % 2 == 0
    may_mix[-1] = False
    partners, share = ncl.draw_mixing(may_mix, 4, generator=torch.Generator().manual_seed(seed))
    return hard_negatives(view1, queue, labeled, may_mix, partners=partners, easy_share=share, n_hard=3)


def test_equals_the_golden_values() -> None:
    golden = load_golden("ncl.npz")
    z, zhat, y, queue, labeled, known = (golden[f"in_{key}"] for key in ("z", "zhat", "y", "M", "ML", "My"))
    k, alpha, tau = (golden[f"in_{key}"].item() for key in ("k", "alpha", "tau"))
    every, parts = torch.ones(len(z), len(labeled), dtype=torch.bool), [slice(i, i + 1) for i in range(len(z))]
    hard = hard_negatives(z, 3 * queue, 2 * labeled, every, partners=golden["in_perm"], easy_share=golden["in_mu"], n_hard=2)
    # `in_My` are the classes of `in_M`; -1 stands for an item without one. Logarithms of shares are logits of the same shares.
    supervised = partial(ncl.supervised_queue_loss, queue=queue, queue_classes=known, temperature=tau)
    logits, same = (golden["in_prob"].log(), golden["in_prob_bar"].log()), pair_targets(golden["in_feat"])
    values = {
        "ncl_mean": neighborhood_loss(z, zhat, queue, k=k, self_weight=alpha, temperature=tau),
        "ncl_hng_mean": neighborhood_loss(z, zhat, queue, k=k, self_weight=alpha, temperature=tau, hard=hard),
        "scl": torch.stack([supervised(z[one], zhat[one], y[one]) for one in parts]), "scl_mean": supervised(z, zhat, y),
        "hng_negatives": hard.vectors, "bce_pair": pair_cross_entropy(*logits, same), "mse": ncl.consistency_loss(*logits),
    }  # fmt: skip
    for name, weight in (("l_self", 1.0), ("l_nbr", 0.0), ("ncl", alpha)):
        for prefix, count in (("", k), ("kfull_", 1000)):
            alone = partial(neighborhood_loss, queue=queue, k=count, self_weight=weight, temperature=tau)
            values[prefix + name] = torch.stack([alone(z[one], zhat[one]) for one in parts])
    for key, value in values.items():
        torch.testing.assert_close(value, golden[key], rtol=0, atol=1e-10, msg=lambda text, key=key: f"{key}: {text}")
    assert torch.equal(same, golden["pair_target"].bool())
    assert hard.is_used.all()


def test_equals_the_values_worked_out_by_hand() -> None:
    # Anchor e1, own view e2 (similarity 0), queue e1, e2, -e1 (1, 0, -1) at tau 1: Z = 1 + e + 1 + 1 / e.
    # k = 2: own view log Z, neighbors (1, 0): log Z - 1 / 2; alpha 0.2: log Z - 0.4.
    view1, view2 = torch.eye(2, dtype=torch.float64)[:, None]
    queue = torch.tensor([[1, 0], [0, 1], [-1, 0]], dtype=torch.float64)
    log_z = math.log(2 + math.e + 1 / math.e)
    assert neighborhood_loss(view1, view2, queue, k=2, temperature=1).item() == pytest.approx(log_z - 0.4, abs=1e-12)
    # Labeled: own view 0 and the two of class 7, (1, -1): a mean of 0.
    known = torch.tensor([7, -1, 7])
    loss = ncl.supervised_queue_loss(view1, view2, torch.tensor([7]), queue, known, temperature=1)
    assert loss.item() == pytest.approx(log_z, abs=1e-12)
    # A hard negative e1 adds e below the fraction and changes no neighbor; the second one is not used.
    hard = HardNegatives(torch.eye(2, dtype=torch.float64)[None], torch.tensor([[True, False]]))
    log_z = math.log(2 + 2 * math.e + 1 / math.e)
    loss = neighborhood_loss(view1, view2, queue, k=2, temperature=1, hard=hard)
    assert loss.item() == pytest.approx(log_z - 0.4, abs=1e-12)
    # Two chips with shares (3/4, 1/4) and (1/4, 3/4): p = 10/16 with itself, 6/16 with the other, which is a different one.
    logits = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]], dtype=torch.float64)
    same = torch.eye(2, dtype=torch.bool)
    assert pair_cross_entropy(logits, logits, same).item() == pytest.approx(-math.log(10 / 16), abs=1e-12)
    assert ncl.consistency_loss(logits, logits.flip(0)).item() == pytest.approx(1 / 4, abs=1e-12)


def test_gradients_equal_finite_differences_and_memories_get_none() -> None:
    view1, view2, queue = batch(0)
    hard = drawn_hard(0, view1, queue)
    known, classes, same = torch.arange(9) % 3, torch.arange(5) % 3, pair_targets(view1, threshold=0.3)

    def losses(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        return (
            neighborhood_loss(first, second, queue, k=3, temperature=0.2, hard=hard),
            ncl.supervised_queue_loss(first, second, classes, queue, known, temperature=0.2),
            pair_cross_entropy(first, second, same),
            ncl.consistency_loss(first, second),
        )

    assert torch.autograd.gradcheck(losses, (view1, view2), atol=1e-7, rtol=1e-6)
    leaf = HardNegatives(hard.vectors.requires_grad_(), hard.is_used)
    neighborhood_loss(view1, view2, queue, k=3, hard=leaf).backward()
    assert view1.grad is not None
    assert queue.grad is leaf.vectors.grad is None


def test_an_empty_queue_leaves_the_own_view_alone_and_the_loss_0() -> None:
    view1, view2, queue = batch(0, q=0, dtype=torch.float32)
    empty = torch.zeros(0, dtype=torch.long)
    assert neighborhood_loss(view1, view2, queue, k=3).item() == 0
    assert ncl.supervised_queue_loss(view1, view2, torch.zeros(5, dtype=torch.long), queue, empty).item() == 0
    # With hard negatives there is something to push away from, and the own view has the full weight whatever alpha is.
    hard = HardNegatives(unit_vectors(10, 4, 1).reshape(5, 2, 4).float(), torch.ones(5, 2, dtype=torch.bool))
    first, second = (neighborhood_loss(view1, view2, queue, k=3, self_weight=a, hard=hard) for a in (0.0, 1.0))
    assert first.item() > 0
    torch.testing.assert_close(first, second, rtol=0, atol=1e-7)


def test_a_forbidden_partner_is_marked_and_goes_behind_an_allowed_one_that_is_less_hard() -> None:
    # One labeled item lies on the anchors: as a negative it would push them from their own class.
    anchors, queue, labeled = torch.eye(3)[:1].repeat(2, 1), -torch.eye(3)[:2], torch.eye(3)[:2]
    may_mix, partners, share = torch.tensor([[False, True], [True, True]]), torch.tensor([0, 1]), torch.tensor(0.1)
    hard = hard_negatives(anchors, queue, labeled, may_mix, partners=partners, easy_share=share, n_hard=2)
    assert hard.is_used.tolist() == [[True, False], [True, True]]
    assert hard.vectors[0, 0, 1] > 0.5
    assert hard.vectors[1, 0, 0] > 0.5


def test_a_mixture_that_cancels_out_is_not_the_hardest() -> None:
    # Anchor e1. Easy -e2 with labeled e2 in halves is nothing; easy e2 with labeled e1 has cosine 1 / sqrt 2.
    axes = torch.eye(2)
    queue, labeled, may_mix, partners = torch.stack([-axes[1], axes[1]]), axes.flip(0), torch.ones(1, 2) > 0, torch.arange(2)
    half = torch.tensor(0.5)
    hard = hard_negatives(axes[:1], queue, labeled, may_mix, partners=partners, easy_share=half, n_hard=2)
    torch.testing.assert_close(hard.vectors, torch.tensor([[[0.5**0.5, 0.5**0.5], [0.0, 0.0]]]))


def test_draws_are_decided_by_the_generator_and_stay_among_the_allowed() -> None:
    may_mix = torch.tensor([[True, False, True, False], [False, False, False, True], [False] * 4])
    (partners, share), again, other = (
        ncl.draw_mixing(may_mix, 200, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert torch.equal(torch.stack([partners, share]), torch.stack(again))
    assert not torch.equal(partners, other[0])
    assert partners.shape == share.shape == (3, 200)
    assert [set(partners[row].tolist()) for row in (0, 1)] == [{0, 2}, {3}]
    assert 0 <= share.min() < 0.05
    assert 0.95 < share.max() < 1


def test_no_labeled_item_means_no_hard_negative() -> None:
    view1, view2, queue = batch(0)
    may_mix, labeled = torch.zeros(5, 0, dtype=torch.bool), torch.zeros(0, 4, dtype=torch.float64)
    partners, share = ncl.draw_mixing(may_mix, 4, generator=torch.Generator())
    hard = hard_negatives(view1, queue, labeled, may_mix, partners=partners, easy_share=share, n_hard=3)
    assert hard.vectors.shape == (5, 0, 4)
    with_none = neighborhood_loss(view1, view2, queue, k=3, hard=hard)
    torch.testing.assert_close(with_none, neighborhood_loss(view1, view2, queue, k=3))


def test_a_chip_is_always_its_own_pair_and_bound_is_included() -> None:
    rows = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert torch.equal(pair_targets(rows, threshold=1.0), torch.eye(4, dtype=torch.bool))
    at_right_angles = pair_targets(rows, threshold=0.0)
    assert at_right_angles[1].tolist() == [True, True, True, False]


def test_a_sure_and_wrong_head_still_learns() -> None:
    # Shares of 1 and e^-40 in float32, for two chips of different categories in one: 1 - p rounds to 0, yet its log is
    # log(2 e^-40) off the diagonal, and moving the second logit up by 1 takes half of that off, twice.
    logits = torch.tensor([[40.0, 0.0], [40.0, 0.0]], requires_grad=True)
    loss = pair_cross_entropy(logits, logits, torch.eye(2, dtype=torch.bool))
    assert loss.item() == pytest.approx((40 - math.log(2)) / 2, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.25, -0.25], [0.25, -0.25]]), rtol=1e-5, atol=1e-6)


def test_refuses_wrong_shapes_and_settings() -> None:
    view1, view2, queue = batch(0)
    known, classes = torch.zeros(9, dtype=torch.long), torch.zeros(5, dtype=torch.long)
    four = HardNegatives(torch.zeros(4, 2, 4), torch.ones(5, 2) > 0)
    mix = partial(hard_negatives, view1, queue, partners=known[:2], easy_share=torch.tensor(0.5), n_hard=2)
    plain = partial(neighborhood_loss, view1, view2, queue)
    require_refusals(
        (ShapeError, r"\(5, 4\), \(3, 4\)", lambda: neighborhood_loss(view1, view2[:3], queue, k=3)),
        (ShapeError, "1 or more chips", lambda: ncl.consistency_loss(view1[:0], view2[:0])),
        (ShapeError, r"\[Q, 4\]", lambda: neighborhood_loss(view1, view2, queue[:, :3], k=3)),
        (
            ShapeError,
            r"queue_classes must be \[9\]",
            lambda: ncl.supervised_queue_loss(view1, view2, classes, queue, known[:4]),
        ),
        (ShapeError, r"\[5, N, 4\]", lambda: plain(k=3, hard=four)),
        (ShapeError, "same_category", lambda: pair_cross_entropy(view1, view2, torch.ones(5, 4) > 0)),
        (ShapeError, "may_mix", lambda: mix(queue, torch.ones(5, 3) > 0)),
        (ValueError, "temperature", lambda: plain(k=3, temperature=0)),
        (ValueError, "self_weight", lambda: plain(k=3, self_weight=1.1)),
        (ValueError, "k must", lambda: plain(k=0)),
        (ValueError, "threshold", lambda: pair_targets(view1, threshold=1.5)),
    )
