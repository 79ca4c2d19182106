"""The losses as `nn.Module`s: settings, what they print, their documentation, and the losses of a whole batch."""

import copy
import doctest
import inspect
from typing import Any

import pytest
import torch
from golden_parts import load_golden, our_columns
from loss_parts import MODULE_OF, NEEDED, call, setting_names
from small_parts import REPOSITORY
from torch import nn

from pu_geo import losses
from pu_geo.losses import contrastive, herocon, inputs, modules, ncpu, neighborhood, phantom, pu_risk, spreadout

MODULES = sorted({getattr(losses, name) for name in losses.__all__ if name.endswith("Loss")}, key=lambda each: each.__name__)
# What each setting refuses.
REFUSED: dict[str, object] = {
    "temperature": 0.0, "margin": -1.0, "same_class_share": 1.0, "supervised_share": 1.1, "class_prior": float("nan"),
    "gamma": 1.5, "self_weight": -0.1, "agreement": 2, "enough": 1.1, "beta": -0.1, "floor": -1e-9, "rep_weight": -1,
    "entropy_weight": -1, "unsupervised_weight": -1, "supervised_weight": -1, "k": 0, "surrogate": "hinge",
    "variant": "official", "distance": "manhattan", "reduction": "sum",
}  # fmt: skip
# Settings that differ from every default, and arrays of twelve chips that need not be given.
OTHER: dict[str, object] = {
    "temperature": 0.3, "surrogate": "logistic", "beta": 0.01, "gamma": 0.5, "self_weight": 0.6, "variant": "released",
    "floor": 0.9, "distance": "dot", "enough": 0.2, "with_itself": False,
}  # fmt: skip
ROWS = torch.arange(12)
OPTIONAL: dict[str, object] = {
    "hard": neighborhood.HardNegatives(torch.eye(12)[:, None, :4].double(), (ROWS % 2 == 0)[:, None]), "dates": [4, 4],
    "is_missing": torch.arange(24).reshape(2, 12) % 7 == 0, "is_known": torch.arange(48).reshape(12, 4) % 5 > 0,
    "is_candidate": torch.arange(4) != 1, "margins": torch.where(ROWS % 3 == 0, 3, -3) + ROWS.double() % 2,
}  # fmt: skip


def made(module: type[nn.Module], **settings: Any) -> nn.Module:
    return module(**{**{name: NEEDED[name] for name in setting_names(module) & set(NEEDED)}, **settings})


@pytest.mark.parametrize("module", MODULES)
def test_every_setting_is_checked_printed_and_kept(module: type[nn.Module]) -> None:
    loss = made(module)
    assert set(loss.settings) == setting_names(module)
    assert list(loss.parameters()) == list(loss.buffers()) == []
    for name, value in loss.settings.items():
        assert getattr(loss, name) == value
        assert f"{name}={value!r}" in repr(loss)
        if name != "with_itself":
            with pytest.raises(ValueError, match=f"^{name} must .*{REFUSED[name]}"):
                made(module, **{name: REFUSED[name]})
            with pytest.raises(ValueError, match=name):  # a setting that is changed later, too
                setattr(loss, name, REFUSED[name])
            assert getattr(loss, name) == value
    assert all(each.kind == inspect.Parameter.KEYWORD_ONLY for each in inspect.signature(module).parameters.values())
    assert repr(copy.deepcopy(loss)) == repr(loss)


@pytest.mark.parametrize("function", MODULE_OF, ids=lambda function: function.__name__)
def test_module_computes_what_its_function_computes(function: Any) -> None:
    """With all settings away from their defaults, of which each makes a difference, given first or changed later."""
    module, names = MODULE_OF[function], setting_names(MODULE_OF[function])
    views = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value = call(function, *views, **OTHER, **OPTIONAL)
    value = value.reported if isinstance(value, pu_risk.NnpuRisk) else value
    reduction = {"reduction": "none"} if "reduction" in names else {}
    loss = made(module, **{name: OTHER[name] for name in names & set(OTHER)}, **reduction)
    torch.testing.assert_close(call(loss.forward, *views, **OPTIONAL), value, rtol=0, atol=0)
    for name in names & set(OTHER) - {"gamma"}:  # which the reported value does not know
        setattr(loss, name, inspect.signature(module).parameters[name].default)
        assert not torch.equal(call(loss.forward, *views, **OPTIONAL), value), name
        setattr(loss, name, OTHER[name])
    if reduction:
        loss.reduction = "mean"
        torch.testing.assert_close(call(loss.forward, *views), value.mean(), rtol=0, atol=0)


@pytest.mark.parametrize("function", MODULE_OF, ids=lambda function: function.__name__)
def test_module_has_the_defaults_of_its_function(function: Any) -> None:
    of_function = inspect.signature(function).parameters
    of_module = inspect.signature(MODULE_OF[function]).parameters
    assert set(of_module) - set(of_function) <= {"reduction"}
    for name in set(of_module) - {"reduction"}:
        assert of_module[name].default == of_function[name].default, name


def test_nnpu_loss_has_the_value_to_report_and_the_gradient_to_step_by() -> None:
    # A shift of 3 parts positives from unlabeled as an overfitting network does.
    is_positive = torch.arange(12) < 4
    margins = torch.randn(12, generator=torch.Generator().manual_seed(0)) + 3 * torch.where(is_positive, 1, -1)
    settings = {"class_prior": 0.6, "beta": 0.01, "gamma": 0.5}
    leaf, other = margins.clone().requires_grad_(), margins.clone().requires_grad_()
    loss = losses.NNPULoss(**settings)(leaf, is_positive)
    risk = losses.nnpu_risk(other, is_positive, **settings)
    loss.backward()
    risk.differentiated.backward()
    assert loss.item() == risk.reported.item() != risk.differentiated.item()
    torch.testing.assert_close(leaf.grad, other.grad, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["ncpu_losses.npz", "ncpu_losses_b24.npz"])
def test_ncpu_loss_equals_the_golden_totals(name: str) -> None:
    g = load_golden(name)
    given = our_columns(g["in_logits"]), g["in_q"], g["in_k"], our_columns(g["in_s"]), g["in_y"] == 0
    paper, released = losses.NcPULoss(rep_weight=50), losses.NcPULoss(rep_weight=50, entropy_weight=5, variant="released")
    torch.testing.assert_close(paper(*given), g["L_total_paper"], rtol=0, atol=1e-10)
    torch.testing.assert_close(released(*given), g["L_total_official"], rtol=0, atol=1e-10)
    # The pair mask can be given, and then decides.
    own = torch.eye(len(g["in_q"]), dtype=torch.bool)
    assert paper(*given, own) != paper(*given)
    torch.testing.assert_close(paper(*given, g["mask_hard"].bool()), g["L_total_paper"], rtol=0, atol=1e-10)


def test_herocon_loss_equals_the_golden_terms() -> None:
    g = load_golden("herocon.npz")
    views = torch.stack([g["in_z1"], g["in_z2"]])
    mapped, labels = torch.sigmoid(views @ g["in_W"].T + g["in_b"]), g["in_Y"].long()
    loss, start = losses.HeroConLoss(unsupervised_weight=0.5, supervised_weight=0.25), torch.tensor(2.0, dtype=torch.float64)
    expected = 2 + 0.5 * g["Lu_eq5_bothviews"] + 0.25 * g["Ls_eq7_inclself"]
    torch.testing.assert_close(loss(start, views, mapped, labels), expected, rtol=0, atol=1e-10)
    # Labels of chips that are not labeled are not read; without a labeled chip nothing is left of L_s.
    is_labeled, gone = torch.tensor([1, 1, 0, 1, 0, 1]), torch.zeros(2, 6, dtype=torch.bool)
    some = losses.supervised_loss(views[:, is_labeled == 1], labels[is_labeled == 1])
    labels[is_labeled == 0] = 7
    expected = 2 + 0.5 * g["Lu_eq5_bothviews"] + 0.25 * some
    found = loss(start, views, mapped, labels, is_labeled=is_labeled, is_missing=gone)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    none = loss(start, views, mapped, labels, is_labeled=0 * is_labeled)
    torch.testing.assert_close(none, 2 + 0.5 * g["Lu_eq5_bothviews"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "room", [losses, modules, contrastive, herocon, inputs, ncpu, neighborhood, phantom, pu_risk, spreadout]
)
def test_examples_in_docstrings_run(room: Any) -> None:
    found = doctest.testmod(room)
    assert found.failed == 0
    assert found.attempted >= 5 * len(MODULES) or room is not modules


def test_the_examples_on_the_page_run() -> None:
    page = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(page.partition("\n## Losses\n")[2], {}, "Losses", "docs/library.md", 0)
    assert len(test.examples) >= 6
    assert doctest.DocTestRunner().run(test).failed == 0
