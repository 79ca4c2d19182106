"""The losses as `nn.Module`s: settings, what they print, their documentation, and the losses of a whole batch."""

from __future__ import annotations

import copy
import doctest
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from golden_parts import load_golden, our_columns
from loss_parts import MODULE_OF, setting_names
from small_parts import REPOSITORY
from torch import nn

from pu_geo import losses
from pu_geo.losses import contrastive, herocon, inputs, modules, ncpu, neighborhood, phantom, pu_risk, spreadout

MODULES = sorted({getattr(losses, name) for name in losses.__all__ if name.endswith("Loss")}, key=lambda each: each.__name__)
IDENTIFIER = r"arXiv:\d{4}\.\d{5}|doi:10\.\d+/[\d.]*\d|no DOI"
# What a setting without a default is given, and what it refuses.
NEEDED = {
    "supervised_share": 0.5, "same_class_share": 0.1, "class_prior": 0.3, "k": 2, "margin": 1.0,
    "unsupervised_weight": 0.1, "supervised_weight": 0.01,
}  # fmt: skip
REFUSED: dict[str, tuple[object, str]] = {
    "temperature": (0.0, "temperature must be above 0; got 0.0"),
    "margin": (-1.0, "margin must be above 0; got -1.0"),
    "same_class_share": (1.0, r"same_class_share must lie in \[0, 1\); got 1.0"),
    "supervised_share": (1.1, "supervised_share must lie in 0..1; got 1.1"),
    "class_prior": (float("nan"), "class_prior must lie in 0..1; got nan"),
    "gamma": (1.5, "gamma must lie in 0..1; got 1.5"),
    "self_weight": (-0.1, "self_weight must lie in 0..1; got -0.1"),
    "agreement": (2, "agreement must lie in 0..1; got 2"),
    "enough": (1.1, "enough must lie in -1..1; got 1.1"),
    "beta": (-0.1, "beta must be 0 or more; got -0.1"),
    "floor": (-1e-9, "floor must be 0 or more; got -1e-09"),
    "rep_weight": (-1, "rep_weight must be 0 or more; got -1"),
    "entropy_weight": (-1, "entropy_weight must be 0 or more; got -1"),
    "unsupervised_weight": (-1, "unsupervised_weight must be 0 or more; got -1"),
    "supervised_weight": (-1, "supervised_weight must be 0 or more; got -1"),
    "k": (0, "k must be 1 or more; got 0"),
    "surrogate": ("hinge", 'surrogate must be "sigmoid" or "logistic"; got "hinge"'),
    "variant": ("official", 'variant must be "paper" or "released"; got "official"'),
    "distance": ("manhattan", 'distance must be "cosine" or "dot" or "euclid"; got "manhattan"'),
    "reduction": ("sum", 'reduction must be "mean" or "none"; got "sum"'),
}


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
            wrong, words = REFUSED[name]
            with pytest.raises(ValueError, match=words):
                made(module, **{name: wrong})
            with pytest.raises(ValueError, match=words):  # a setting that is changed later, too
                setattr(loss, name, wrong)
            assert getattr(loss, name) == value
    assert all(each.kind == inspect.Parameter.KEYWORD_ONLY for each in inspect.signature(module).parameters.values())
    assert repr(copy.deepcopy(loss)) == repr(loss)


@pytest.mark.parametrize("function", MODULE_OF, ids=lambda function: function.__name__)
def test_module_has_the_defaults_of_its_function(function: Any) -> None:
    of_function = inspect.signature(function).parameters
    of_module = inspect.signature(MODULE_OF[function]).parameters
    assert set(of_module) - set(of_function) <= {"reduction"}
    for name in set(of_module) - {"reduction"}:
        assert of_module[name].default == of_function[name].default, name
    tensors = [name for name in of_function if name not in of_module]
    assert sorted(set(inspect.signature(MODULE_OF[function].forward).parameters) - {"self"}) == sorted(tensors)


def test_a_setting_changed_later_counts() -> None:
    z1, z2 = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    loss = losses.SSCLLoss(temperature=0.5)
    loss.temperature = 0.1
    assert loss(z1, z2) == losses.sscl_loss(z1, z2, temperature=0.1)
    assert "temperature=0.1" in repr(loss)


def test_mean_is_the_mean_of_the_values_of_the_chips() -> None:
    chips, own = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([1.0, 2.0, 3.0])
    each = losses.PositiveHingeLoss(reduction="none")(chips, own)
    assert each.shape == (5,)
    assert losses.PositiveHingeLoss()(chips, own) == each.mean()


@pytest.mark.parametrize("shift", [-3.0, 3.0])
def test_nnpu_loss_has_the_value_to_report_and_the_gradient_to_step_by(shift: float) -> None:
    # A shift of 3 parts positives from unlabeled as an overfitting network does; -3 the other way round.
    is_positive = torch.arange(12) < 4
    margins = torch.randn(12, generator=torch.Generator().manual_seed(0)) + shift * torch.where(is_positive, 1, -1)
    settings = {"class_prior": 0.6, "beta": 0.01, "gamma": 0.5}
    leaf, other = margins.clone().requires_grad_(), margins.clone().requires_grad_()
    loss = losses.NNPULoss(**settings)(leaf, is_positive)
    risk = losses.nnpu_risk(other, is_positive, **settings)
    assert (risk.reported.item() != risk.differentiated.item()) == (shift > 0)
    loss.backward()
    risk.differentiated.backward()
    assert loss.item() == risk.reported.item()
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


@pytest.mark.parametrize("module", MODULES)
def test_docstring_has_source_shapes_and_an_example_of_the_module(module: type[nn.Module]) -> None:
    text = inspect.getdoc(module) or ""
    source = text[text.index("Source: ") :].partition("\n\n")[0]
    assert re.search(IDENTIFIER, source)
    shapes, example = text[text.index("Shape:") :], text[text.index("Example:") :]
    for name in set(inspect.signature(module.forward).parameters) - {"self"}:
        assert re.search(rf"\b{name}\b", shapes), name
    assert module.__name__ in example
    assert ".backward()" in example


def test_the_page_has_a_row_with_the_source_and_the_tensors_of_each_module() -> None:
    page = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*(\|.*)$", page, flags=re.MULTILINE))
    assert {module.__name__ for module in MODULES} <= set(rows)
    for module in MODULES:
        text, row = inspect.getdoc(module) or "", rows[module.__name__]
        source = text[text.index("Source: ") :].partition("\n\n")[0]
        assert set(re.findall(IDENTIFIER, source)) == set(re.findall(IDENTIFIER, row))
        assert [name for name in inspect.signature(module.forward).parameters if name != "self"] == re.findall(
            r"`(\w+)` \S", row.split("|")[-2]
        )


def test_the_example_on_the_page_runs() -> None:
    section = (REPOSITORY / "docs" / "library.md").read_text(encoding="utf-8").partition("\n## Losses\n")[2]
    test = doctest.DocTestParser().get_doctest(section, {}, "Losses", "docs/library.md", 0)
    assert len(test.examples) >= 6
    assert doctest.DocTestRunner().run(test).failed == 0


def test_importing_the_losses_imports_nothing_but_them_and_torch() -> None:
    code = "import sys, torch; before = set(sys.modules); import pu_geo.losses; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    families = {"contrastive", "herocon", "inputs", "modules", "ncpu", "neighborhood", "phantom", "pu_risk", "spreadout"}
    assert set(done.stdout.split()) - {"pu_geo"} == {
        "pu_geo.errors", "pu_geo.losses", *(f"pu_geo.losses.{each}" for each in families),
    }  # fmt: skip
