"""Two projects from the command line to their maps: each gets a run with a score of every class."""

import importlib.util
import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_parts import CommandLine
from federation_parts import (
    CLASSES,
    N_CLICKED,
    N_DAMAGED,
    NAME,
    SHORT,
    SIDE_PX,
    N,
    agreed,
    chips_of,
    led,
    transport_of,
    with_pixels_of,
)
from small_parts import add_chips, click, facts_of, in_tiers, job_of, small_project

from pu_geo.errors import FederationError
from pu_geo.federation import federating, wire_job
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.deployed import INSTALL
from pu_geo.federation.member_job import OwnData, write_model
from pu_geo.federation.wire_job import Message
from pu_geo.lifecycle.copying import copy_project
from pu_geo.maps import run_card
from pu_geo.runs.apply_model_job import apply_model
from pu_geo.store import federations, run_names, runs
from pu_geo.store.layout import Layout
from pu_geo.training import model_files

Pair = tuple[Layout, Layout]
pytestmark = pytest.mark.slow
ROLES = ("--as", "joplin=destroyed,rest", "--as", "moore.pugeo=flooded")


def simulated(run: CommandLine, pair: Pair, *more: object, n_rounds: int = 2) -> dict[str, Any]:
    words = ("federate", "simulate", *(each.folder for each in pair), *ROLES, "--title", "Storms", "--rounds", n_rounds)
    return run.json(*words, *more)


def trained(agreement: Agreement, pair: Pair, **more: Any) -> list[Path]:
    """Run a federation to its end; return the model file of each project."""
    led(agreement, pair, transport_of(agreement, pair, **more))
    return [layout.federation(agreement.id) / federations.MODEL for layout in pair]


def ranks_first(scores: np.ndarray[Any, Any], n: int = N_DAMAGED) -> float:
    """The share of pairs of one of the first n and one of the others that are in the right order."""
    return float((scores[:n, None] > scores[None, n:]).mean())


def test_both_projects_get_a_run_whose_scores_rank_all_three_classes(agencies: Pair, run: CommandLine) -> None:
    result = simulated(run, agencies, n_rounds=25)
    assert (result["rounds"], result["members"]) == (25, 3)
    for layout, own, other in ((agencies[0], 0, 1), (agencies[1], 1, 0)):
        facts = facts_of(layout, result["runs"][layout.folder.name])
        assert (facts.types, facts.method, facts.preset) == (("destroyed", "flooded"), "fedaws", "federated")
        assert facts.from_model is None  # this project's answers were learned from
        assert facts.federation == {"title": "Storms", "noise": "none"}
        assert run_names.name(layout, facts.run_id).startswith("Storms (FedAwS), ")
        assert any("together with other projects" in words for words in facts.warnings)
        assert not any("nothing was learned" in words for words in facts.warnings)
        scores = np.asarray(runs.array(layout, facts.run_id, "scores"))
        types = np.asarray(runs.array(layout, facts.run_id, runs.TYPE_SCORES))
        assert types.shape == (N, 2)
        assert ranks_first(scores) > 0.95
        assert ranks_first(types[:, own]) > 0.95
        assert types[:N_DAMAGED, own].mean() > types[:N_DAMAGED, other].mean() + 0.3
        assert (types.sum(1) <= 1 + 1e-5).all()  # rest has what is left
    # The class that nobody here has labels of: chips of the other agency, seen by this project's model.
    foreign = small_project(agencies[0].folder.with_name("far.pugeo"), N)
    add_chips(
        foreign, [f"b{i}" for i in range(N)], bands="pre+post", size_px=SIDE_PX, chips=chips_of("flooded", 9),
        features=np.zeros((1, N, 4), np.float16),
    )  # fmt: skip
    path = str(agencies[0].federation("storms") / federations.MODEL)
    run_id = str(apply_model(job_of(foreign), path=path)["run_id"])
    types = np.asarray(runs.array(foreign, run_id, runs.TYPE_SCORES))
    assert ranks_first(types[:, 1]) > 0.9
    facts = facts_of(foreign, run_id)
    assert facts.from_model is not None  # it is no member
    assert run_names.name(foreign, run_id).startswith("Storms (FedAwS from elsewhere), ")
    assert any("nothing was learned" in words for words in facts.warnings)
    leader, member = (run.json("federate", "status", each.folder)["federations"][0] for each in agencies)
    assert (leader["is_lead"], leader["own"], leader["round"]) == (True, ["rest", "destroyed"], 25)
    assert (member["is_lead"], member["own"], member["round"]) == (False, ["flooded"], 25)
    assert [one["project"] for one in leader["members"]] == ["joplin.pugeo", "joplin.pugeo", "moore.pugeo"]
    assert leader["states"] == ["here"] * 3
    for found in (leader, member):
        assert (found["is_trial"], found["ledger"]["n_tensors"], found["ledger"]["n_bytes"]) == (True, 0, 0)
    assert member["ledger"]["n_here"] == 25 * (5 + 1) + 1, "each tensor, and what each message holds beside them"
    assert member["ledger"]["bytes_here"] > 25 * 4 * 512 * 16


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--as", "joplin=destroyed,rest"), "none by moore.pugeo"),
        (("--as", "joplin=destroyed", "--as", "moore=flooded"), "destroyed by joplin.pugeo; flooded by moore.pugeo"),
        (("--as", "joplin=destroyed,rest", "--as", "moore=destroyed"), "destroyed by moore.pugeo"),
        (("--as", "joplin=rest", "--as", "elsewhere=flooded"), "does not name one of the projects"),
        (("--as", "joplin", "--as", "moore=flooded"), "does not name one of the projects"),
        ((*ROLES, "--noise", "some"), "privacy.kind"),
        ((*ROLES, "--types-from", "joplin=color"), "'color'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(agencies: Pair, run: CommandLine, words: Any, problem: str) -> None:
    paths = [each.folder for each in agencies]
    assert problem in run.refused("federate", "simulate", *paths, *words)


def test_the_model_file_says_what_it_is_and_is_checked(agencies: Pair) -> None:
    agreement = agreed(agencies[0])
    paths = trained(agreement, agencies)
    card = model_files.read(paths[1]).card
    assert (card["method"], card["preset"]) == ("fedaws", "federated")
    assert card["types"] == ["destroyed", "flooded"]
    assert card["learned_from"]["class_names"] == list(CLASSES)
    assert card["learned_from"]["federation"] == {
        "id": NAME, "title": "Joplin and Moore", "agreement": agreement.digest, "noise": "none",
        "gsd_m": agreement.features.gsd_m, "rounds": 3, "classes_here": ["flooded"],
        "took_part": {name: {"n_rounds": 3, "last": 3} for name in CLASSES},
    }  # fmt: skip
    one, other = (model_files.read(path).tensors for path in paths)
    assert np.array_equal(one["class_vectors"], other["class_vectors"])
    assert np.array_equal(one["head.weight"], other["head.weight"])
    assert not np.array_equal(one["trunk.standardize.mean"], other["trunk.standardize.mean"])  # each project's own


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (10, "Classes took part in too few of the 12 rounds: 'flooded' in 10, the last time in round 10."),
        (11, "Not every class took part in all 12 rounds: 'flooded' in 11."),
        (12, ""),
    ],
)
def test_a_class_that_took_part_in_few_rounds_is_a_warning_on_every_map(agencies: Pair, last: int, words: str) -> None:
    agreement = agreed(agencies[0], quorum=2, settings=replace(SHORT, rounds=12))

    def carry(row: int, message: Message) -> Message | None:
        return None if row == 2 and message.kind == wire_job.ASK and message.round > last else message

    paths = trained(agreement, agencies, carry=carry)
    warnings = federating.read(agencies[0], NAME).warnings
    assert [each.startswith(words) for each in warnings] == [True] * bool(words)
    for layout in agencies:  # also the one that took part in all, and a partner's file
        for path in paths:
            run_id = str(apply_model(job_of(layout, f"apply-{path.parts[-4]}"), path=str(path))["run_id"])
            found = [each for each in facts_of(layout, run_id).warnings if "took part" in each]
            assert found == list(warnings)


@pytest.mark.parametrize("noise", in_tiers(["none", "local", "central"], "federation", quick=["local"]))
def test_a_run_counts_the_buildings_of_the_classes_held_and_says_which_noise(
    agencies: Pair, run: CommandLine, noise: str
) -> None:
    roles = ("--as", "joplin=rest", "--as", "moore=flooded")
    paths = [each.folder for each in agencies]
    result = run.json("federate", "simulate", *paths, *roles, "--rounds", 2, "--noise", noise)
    for layout, counts in ((agencies[0], (0, N - N_CLICKED)), (agencies[1], (N_CLICKED, 0))):
        facts = facts_of(layout, result["runs"][layout.folder.name])
        assert (facts.n_positive, facts.n_unlabeled) == counts
        said = " ".join(run_card.limits(facts, has_audit=False))
        assert f"It learned from {counts[0]} damaged buildings of this project, and from those of its partners" in said
        assert ("there is no noise" in said) == (noise == "none")
        assert ("Each member added noise" in said) == (noise == "local")
        assert ("The leader added noise" in said) == (noise == "central")
    *_, last = federations.rounds(agencies[0].federation("trial"))
    assert (last.loss is None) == (noise == "local"), "it would tell of chips without noise"
    words = run.text("federate", "status", agencies[0].folder)
    assert ("Each agency adds noise before it sends" in words) == (noise == "local")
    if noise == "local":
        secret = agencies[1].federation("trial") / federations.KEYS / "noise.secret"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_project_of_other_pixels_is_warned_on_its_map(agencies: Pair, run: CommandLine) -> None:
    known_m, other_m = with_pixels_of(agencies[1], 4)
    result = simulated(run, agencies)
    words = f"knows pixels of {known_m:.2f} m; {{where}} they have {other_m:.2f} m, so buildings look other to it."
    assert result["warnings"] == [f"The federation {words.format(where='in moore.pugeo')}"]
    for layout, expected in ((agencies[0], []), (agencies[1], [f"The model {words.format(where='here')}"])):
        found = facts_of(layout, result["runs"][layout.folder.name]).warnings
        assert [each for each in found if "knows pixels" in each] == expected


def test_a_model_file_that_does_not_say_who_took_part_is_a_warning(agencies: Pair) -> None:
    found = model_files.read(trained(agreed(agencies[0]), agencies)[0])
    for k, odd in enumerate((..., None, [1], {"flooded": 3}, {"flooded": {"n_rounds": "3x", "last": 1}})):
        card = dict(found.card)
        stated = {**card["learned_from"]["federation"], "took_part": odd}
        stated = {name: value for name, value in stated.items() if value is not ...}
        card["learned_from"] = {**card["learned_from"], "federation": stated}
        path = agencies[1].folder / "odd.pugeo-model.zip"
        model_files.write(path, json.dumps(card).encode(), found.weights)
        run_id = str(apply_model(job_of(agencies[1], f"odd-{k}"), path=str(path))["run_id"])
        assert any("does not say in how many rounds" in words for words in facts_of(agencies[1], run_id).warnings)


def test_a_partners_model_is_not_this_projects_own(agencies: Pair) -> None:
    """The own one counts with the labels that it learned from, whatever was marked since."""
    paths = trained(agreed(agencies[0]), agencies)
    at_event = model_files.read(paths[1]).card["learned_from"]["at_event"]
    click(agencies[1], "b30")
    other, own = (
        facts_of(agencies[1], str(apply_model(job_of(agencies[1], f"apply-{k}"), path=str(path))["run_id"]))
        for k, path in enumerate(paths)
    )
    assert own.from_model is None
    assert any("the buildings here taught it flooded" in words for words in own.warnings)
    assert (own.at_event, own.n_positive) == (at_event, N_CLICKED)
    assert other.from_model is not None
    assert any("nothing was learned" in words for words in other.warnings)
    assert (other.at_event, other.n_positive) == (at_event + 1, N_CLICKED + 1)


def test_a_finished_model_of_another_network_is_not_written(agencies: Pair) -> None:
    agreement = agreed(agencies[0])
    own, learner = OwnData.read(agencies[0], agreement), led(agreement, agencies)
    model = {**learner.theta, wire_job.CLASS_VECTORS: learner.class_vectors, wire_job.TOOK_PART: torch.full((3, 2), 3)}
    write_model(own, Message(wire_job.MODEL, model, {}))
    for wrong, words in (
        ({**model, wire_job.CLASS_VECTORS: learner.class_vectors[:2]}, "class_vectors has the shape (2, 8)"),
        ({**model, "head.weight": model["head.weight"] * np.nan}, "head.weight are no finite numbers"),
        ({name: each for name, each in model.items() if name != "head.bias"}, "lacks 'head.bias' among its tensors"),
        ({**model, wire_job.TOOK_PART: torch.full((3, 2), 4)}, "more rounds than there are"),
        ({**model, wire_job.TOOK_PART: torch.full((3, 2), -1)}, "more rounds than there are"),
        ({**model, wire_job.TOOK_PART: torch.full((3, 2), 3.0)}, "took_part is of type float32"),
    ):
        with pytest.raises(FederationError, match=re.escape(words)):
            write_model(own, Message(wire_job.MODEL, wrong, {}))


def test_keys_stay_behind_when_a_project_is_copied(agencies: Pair, tmp_path: Path) -> None:
    agreement = agreed(agencies[0])
    transport_of(agreement, agencies)
    keys = agencies[0].federation(NAME) / federations.KEYS
    keys.mkdir()
    (keys / "node").write_text("private")
    copy_project(agencies[0], str(tmp_path / "copy.pugeo"))
    copied = Layout(tmp_path / "copy.pugeo").federation(NAME)
    assert (copied / federations.AGREEMENT).is_file()
    assert not (copied / federations.KEYS).exists()


@pytest.mark.parametrize(
    "words",
    [
        ("join", "joplin.pugeo", "invitation.json", "--as", "flooded"),
        ("admit", "joplin.pugeo", "storms", "request-1.json"),
        ("serve", "joplin.pugeo", "storms", "--types", "destroyed"),
    ],
)
def test_without_flower_a_verb_between_machines_names_the_extra(
    agencies: Pair, run: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "flwr" else found(name, *more))
    monkeypatch.chdir(tmp_path)
    code, out, err = run("federate", *words)
    assert (code, out) == (2, ""), "nothing is promised before"
    assert INSTALL in err
