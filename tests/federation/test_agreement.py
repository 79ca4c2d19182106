"""What partners agree on: stored and read back the same, and nothing else accepted."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from pu_geo.errors import FederationError
from pu_geo.federation.agreement import Agreement, FeatureSpace, Plan, Privacy
from pu_geo.methods.cards.fedaws import FedawsSettings

SPACE = FeatureSpace("shared-1", "shared", 512, "a" * 64, "pre+post", 64, 0.5)
AGREED = Agreement("joplin-1", "Joplin", ("rest", "destroyed", "flooded"), SPACE, quorum=2)


def changed(path: str, value: Any) -> bytes:
    """The agreement with one value changed, added (a new name) or removed (`...`)."""
    facts = json.loads(AGREED.to_json())
    *folders, name = path.split(".")
    inner = facts
    for folder in folders:
        inner = inner[folder]
    if value is ...:
        del inner[name]
    else:
        inner[name] = value
    return json.dumps(facts).encode()


def test_it_is_read_back_with_the_same_digest() -> None:
    found = Agreement.from_json(AGREED.to_json())
    assert found == AGREED
    assert found.digest == AGREED.digest
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    "other",
    [
        replace(AGREED, seed=1), replace(AGREED, quorum=1), replace(AGREED, classes=("rest", "flooded", "destroyed")),
        replace(AGREED, settings=FedawsSettings(lr=0.2)), replace(AGREED, features=replace(SPACE, fingerprint="b" * 64)),
        replace(AGREED, privacy=Privacy("local")),
        replace(AGREED, features=replace(SPACE, gsd_m=0.6)),
    ],
)  # fmt: skip
def test_another_rule_has_another_digest(other: Agreement) -> None:
    assert other.digest != AGREED.digest


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("id", "../x", "id is '../x'"), ("id", 5, "id is '5'"), ("title", "", "title"), ("title", "a\x1b[31m", "title"),
        ("features.gsd_m", 0, "features.gsd_m"), ("features.gsd_m", ..., "lacks 'gsd_m'"),
        ("classes", ["rest"], "classes"), ("classes", ["destroyed", "rest"], "'rest' first"),
        ("classes", ["rest", "a", "a"], "each damage type once"), ("classes", ["rest", "a\nb"], "a class"),
        ("classes", "rest", "classes"), ("quorum", 0, "quorum"), ("quorum", 4, "quorum"), ("quorum", 1.5, "whole number"),
        ("quorum", True, "quorum"), ("deadline_s", -1, "deadline_s"), ("max_norm", 0, "max_norm"), ("tries", 0, "tries"),
        ("seed", -1, "seed"), ("features", 3, "features"), ("features.fingerprint", "zz", "fingerprint"),
        ("features.n_features", 10**9, "n_features"), ("features.bands", "sar", "bands"), ("features.size_px", 8, "size_px"),
        ("settings.lr", "fast", "settings.lr"), ("settings.lr", 99.0, "lr is 99.0"),
        ("settings.rounds", 1.5, "settings.rounds"), ("settings.backbone", "resnet18", "cached features alone"),
        ("settings.pretrain_epochs", 5, "cached features alone"), ("settings.weights_file", "/etc/passwd", "cached features"),
        ("settings.new", 1, "unknown 'new'"), ("settings.lr", ..., "lacks 'lr'"), ("privacy.kind", "some", "privacy.kind"),
        ("privacy.epsilon", 0, "epsilon"), ("surprise", 1, "unknown 'surprise'"), ("quorum", ..., "lacks 'quorum'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_in_words(path: str, value: Any, words: str) -> None:
    with pytest.raises(FederationError) as refused:
        Agreement.from_json(changed(path, value))
    assert words in refused.value.problem
    assert refused.value.hint


def test_members_of_different_numbers_with_noise_are_refused() -> None:
    with pytest.raises(FederationError, match="count equally"):
        replace(AGREED, settings=FedawsSettings(weighting="chips"), privacy=Privacy("local"))


def test_another_version_is_refused_in_words() -> None:
    AGREED.require_current()
    with pytest.raises(
        FederationError, match=r"with PU-Geo 0\.0\.9; here is .* All partners need the same version"
    ) as refused:
        replace(AGREED, version="0.0.9").require_current()
    assert refused.value.kind == "version"


def test_a_class_that_is_not_agreed_on_is_refused_with_those_that_are() -> None:
    assert AGREED.row("flooded") == 2
    with pytest.raises(FederationError, match="it has: rest, destroyed, flooded"):
        AGREED.row("burnt")


def test_noise_is_named_with_its_epsilon_for_one_class_and_for_all_of_a_project() -> None:
    """Each class of a project is in the sum that gets the noise: see the epsilon in tests/federation/test_privacy.py."""
    central = Privacy("central", 1.0, 8.0, 1e-5).words(2)
    assert "epsilon is 8 at delta 1e-05" in central
    assert "up to 18.1 for the 2 classes of this project together" in central
    assert "up to 11.9 for an agency that holds two" in Privacy("local", 1.0, 8.0, 1e-5).words(0)
    assert "no formal privacy" in Privacy().words(1)


def test_a_plan_is_read_back_from_the_arguments_of_a_job() -> None:
    plan = Plan("Storm", ("destroyed",), 5, 60.0, Privacy("local", epsilon=3.0), host="leader.example.org")
    assert Plan.from_json(json.loads(json.dumps(asdict(plan)))) == plan
    made = plan.agreement("storm", SPACE)
    assert (made.classes, made.settings.rounds, made.quorum) == (("rest", "destroyed"), 5, 2)
