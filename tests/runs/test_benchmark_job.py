"""Tables of papers: rows on small made-up copies of the real layouts, kept outcomes, and what the table says."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_parts import CommandLine
from small_parts import add_chips, square_table

from pu_geo.datasets.classified import ClassifiedChips
from pu_geo.errors import DatasetError, ProjectError, TrainingError
from pu_geo.methods import catalog
from pu_geo.runs import benchmark_job, tables_job
from pu_geo.store import contents, store
from pu_geo.store.layout import Layout
from pu_geo.training.data import PUData


def easy(n: int = 240, *, places: bool = False) -> ClassifiedChips:
    """Chips of 16 px of which the positive ones have a bright left half; a quarter is for testing unless there are places."""
    draw = np.random.default_rng(0)
    classes = draw.integers(0, 2, n)
    chips = draw.integers(0, 60, (n, 3, 16, 16)).astype(np.uint8)
    chips[classes == 1, :, :, :8] += 120
    is_test = (np.arange(n) % 4 == 0) & (not places)
    return ClassifiedChips(chips, classes, ("intact", "damage"), is_test, np.arange(n) // 20 if places else None)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> tables_job.Table:
    own = (
        tables_job.Setting("apart", ("damage",), True, 20, 100, 0.3, published={"ncpu": "OA 97"}),
        tables_job.Setting("one set", ("damage",), False, 20, prior=0.4),
    )
    made = tables_job.Table("Made up", lambda path: easy(), "nothing", own)
    monkeypatch.setitem(tables_job.TABLES, "made-up", made)
    return made


def test_methods_learn_what_is_easy_and_the_table_says_so(made_up: tables_job.Table, tmp_path: Path) -> None:
    kept, said = tmp_path / "kept.jsonl", list[str]()
    methods = ["ranker", "ncpu", "supervised"]
    few = {"epochs": 15}
    done = benchmark_job.run_table(made_up, tmp_path, methods=methods, seeds=2, kept=kept, echo=said.append, overrides=few)
    assert len(done) == len(said) == len(kept.read_text().splitlines()) == 12
    assert all(each.auc > 0.95 for each in done)
    apart = [each for each in done if each.setting == "apart"]
    assert {(each.n_positive, each.n_unlabeled, each.n_test) for each in apart} == {(20, 100, 60)}
    text = benchmark_job.as_markdown(made_up, done, "pu-geo benchmark made-up")
    assert text.count("\n| apart ") == text.count("\n| one set ") == 3
    assert "| apart | ncpu | quick | 2 | " in text
    assert "| OA 97 |" in text
    assert "apart: n_P = 20, n_U = 100, tested on 60 (" in text


def test_an_outcome_is_kept_for_all_that_it_depends_on(made_up: tables_job.Table, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"

    def run_anew(asked: tables_job.Table, **more: Any) -> tuple[int, list[float]]:
        said = list[str]()
        how = {"methods": ["linear"], "seeds": 1, "only": "one", "kept": kept, "echo": said.append, **more}
        done = benchmark_job.run_table(asked, tmp_path, **how)
        return len(said), [each.auc for each in done]

    n, _ = run_anew(made_up)
    assert n == 1
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "auc": 0.125}) + "\n")
    assert run_anew(made_up) == (0, [0.125])
    assert run_anew(made_up, overrides={"l2": 2.0})[0] == 1
    intact = replace(made_up, settings=tuple(replace(each, positive=("intact",)) for each in made_up.settings))
    assert run_anew(intact)[0] == 1
    assert run_anew(replace(made_up, read=lambda path: easy(404)))[0] == 1
    n, found = run_anew(made_up, methods=["ranker", "linear"])
    assert (n, found[0]) == (1, 0.125)
    assert run_anew(made_up, methods=["ranker"]) == (0, found[1:]), "what is asked for, and no more"


def test_unknown_names_and_files_of_others_are_refused(made_up: tables_job.Table, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    with pytest.raises(TrainingError, match="no method 'nope'"):
        benchmark_job.run_table(made_up, tmp_path, methods=["nope"])
    with pytest.raises(DatasetError):
        benchmark_job.run_table(tables_job.TABLES["cifar10"], tmp_path, methods=["ranker"], seeds=1)
    with pytest.raises(TrainingError, match="has a setting 'epoch'"):
        benchmark_job.run_table(made_up, tmp_path, methods=["ranker", "ncpu"], seeds=1, overrides={"epoch": 2})
    for text in ("buy milk", '{"milk": 2}\n', 'nonsense\n{"half'):
        notes.write_text(text)
        with pytest.raises(DatasetError, match=r"Line 1 of notes\.txt"):
            benchmark_job.run_table(made_up, tmp_path, methods=["linear"], seeds=1, kept=notes)
        assert notes.read_text() == text


def test_an_outcome_cut_off_by_a_kill_is_done_again(made_up: tables_job.Table, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    first = benchmark_job.run_table(made_up, tmp_path, methods=["ranker"], seeds=1, kept=kept)
    kept.write_text(kept.read_text()[:-20])
    again = benchmark_job.run_table(made_up, tmp_path, methods=["ranker"], seeds=1, kept=kept)
    assert [each.auc for each in again] == [each.auc for each in first]
    assert len(kept.read_text().splitlines()) == 2


@pytest.mark.parametrize(("only", "given"), [("apart", 0.3), ("one set", None)])
def test_the_true_class_prior_is_given_where_papers_give_it(
    made_up: tables_job.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: str, given: float | None
) -> None:
    fitted: list[tuple[Any, PUData]] = []
    scored: list[tuple[int, ...]] = []

    def score(inputs: Any) -> Any:
        scored.append(inputs.shape)
        return np.linspace(0, 1, inputs.shape[1])

    def load_fit(method: str) -> Any:
        return lambda data, settings, run: fitted.append((settings, data)) or SimpleNamespace(score=score)

    monkeypatch.setattr(catalog, "load_fit", load_fit)
    done = benchmark_job.run_table(made_up, tmp_path, methods=["nnpu", "ce", "propagation"], seeds=1, only=only)
    (nnpu, data), (ce, _), _ = fitted
    assert nnpu.class_prior == (given or 0)
    assert not hasattr(ce, "class_prior")
    assert (data.is_positive.sum(), len(data.is_positive)) == (20, 20 + done[0].n_unlabeled)
    assert ("true class prior" in benchmark_job.as_markdown(made_up, done, "command")) == (given is not None)
    assert {shape[:2] for shape in scored} == {(17, done[0].n_test)}, "every method scores the same 17 views"
    benchmark_job.run_table(made_up, tmp_path, methods=["nnpu"], seeds=1, only=only, overrides={"class_prior": 0.5})
    assert fitted[-1][0].class_prior == 0.5, "what is set counts"


def test_networks_learn_from_the_chips_drawn_and_take_the_settings_that_they_have(
    made_up: tables_job.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[tuple[Any, PUData]] = []
    data, setting = easy(), replace(made_up.settings[0], augmentation="natural")
    model = SimpleNamespace(score=lambda chips: chips[:, 0, :, :8].mean((1, 2)) / 255)
    monkeypatch.setattr(catalog, "load_fit", lambda _: lambda *given: fitted.append(given[1::-1]) or model)
    overrides: dict[str, str | float] = {"backbone": "small", "warmup_epochs": 1}
    done = list(benchmark_job._one_draw(data, setting, ["ncpu", "ce"], "quick", 0, overrides))
    assert [each.auc for each in done] == [1, 1], "the chips set aside are scored"
    drawn = tables_job.split(data, setting, 0)
    for settings, learned in fitted:
        assert settings.backbone == "small"
        np.testing.assert_array_equal(learned.inputs.array, data.chips[np.concatenate([drawn.positive, drawn.unlabeled])])
        assert learned.inputs.augmentation == "natural"
        assert learned.is_positive.tolist() == [True] * 20 + [False] * 100


def test_chips_without_a_class_are_the_unlabeled() -> None:
    data = easy(400)
    classes = data.classes.copy()
    classes[300:] = -1
    nameless = replace(data, classes=classes, is_test=np.arange(400) < 100)
    made = tables_job.split(nameless, tables_job.Setting("x", ("damage",), True, 10, 80), 0)
    assert (made.unlabeled >= 300).all()
    assert len(made.unlabeled) == 80
    with pytest.raises(DatasetError):
        tables_job.split(nameless, tables_job.Setting("x", ("damage",), True, 10, 101), 0)
    with pytest.raises(TrainingError, match="supervised"):
        list(
            benchmark_job._one_draw(
                nameless, tables_job.Setting("x", ("damage",), True, 10, 80), ["supervised"], "quick", 0, {}
            )
        )


def test_command_lists_tables_writes_one_and_refuses(made_up: tables_job.Table, tmp_path: Path, run: CommandLine) -> None:
    assert "fmnist: Fashion-MNIST" in run.text("benchmark", "list")
    out = tmp_path / "table.md"
    words = ("benchmark", "made-up", "--data", tmp_path, "--methods", "ranker,linear", "--seeds", "1")
    text = run.text(*words, "--only", "apart", "--set", "l2=0.7", "--out", out)
    assert out.read_text().rstrip() == text.rstrip()
    assert "| apart | linear | quick | 1 |" in text
    assert str(tmp_path) not in text
    for wrong in (("nope",), ("fmnist",), ("fmnist", "--data", tmp_path)):
        assert "Traceback" not in run.refused("benchmark", *wrong)


# A table of one's own project: its truth becomes classes, what says nothing is left out, and nobody is told the answers

STORM: dict[str, Any] = {"field": "grade", "positive": ["destroyed", "major"], "exclude": ["unclear"]}
N = 120
DAMAGED = np.arange(N) % 3 == 0
GRADES = [
    "unclear" if i % 20 == 19 else ("destroyed" if i % 2 else "major") if damaged else "none"
    for i, damaged in enumerate(DAMAGED)
]


@pytest.fixture
def told(tmp_path: Path) -> Layout:
    """A project of 120 buildings, a third of them damaged and striped afterwards, with the truth as an attribute."""
    layout = store.create(tmp_path / "storm.pugeo", "storm")
    draw = np.random.default_rng(0)
    chips = draw.integers(0, 60, (N, 6, 16, 16)).astype(np.uint8)
    chips[DAMAGED, 3:, :, ::4] += 60
    table = replace(square_table(N), attributes=tuple({"grade": grade} for grade in GRADES))
    with store.connect(layout) as db:
        contents.add_footprints(db, table)
    add_chips(layout, table.building_ids, bands="pre+post", chips=chips)
    return layout


def test_the_truth_becomes_classes_and_methods_are_tested_on_the_unlabeled(told: Layout) -> None:
    table = tables_job.project_table("storm", **STORM, clicks=[10, 20])
    data = table.read(told.folder)
    assert data.class_names == ("destroyed", "major", "none")
    assert [data.class_names[c] if c >= 0 else "unclear" for c in data.classes] == GRADES
    assert data.chips.shape == (N, 6, 16, 16)
    assert not data.is_test.any()
    done = benchmark_job.run_table(table, told.folder, methods=["ranker", "linear", "supervised"], seeds=1)
    n_known, n_damaged = N - GRADES.count("unclear"), GRADES.count("destroyed") + GRADES.count("major")
    assert [(each.setting, each.method, each.n_unlabeled, each.n_test, each.n_test_positive) for each in done] == [
        (f"storm, {n} clicks", method, n_known - n, n_known - n, n_damaged - n) for n in (10, 20) for method in ("ranker", "linear")
    ]  # fmt: skip
    assert all(each.auc > 0.95 for each in done)


def test_command_names_all_that_the_figures_depend_on(told: Layout, run: CommandLine) -> None:
    words = ("benchmark", "project", "--data", told.folder, "--field", "grade", "--positive", "destroyed")
    more = ("--positive", "major", "--exclude", "unclear", "--clicks", "5", "--methods", "linear", "--seeds", "1")
    text = run.text(*words, *more)
    assert "--field grade --clicks 5 --positive destroyed --positive major --exclude unclear" in text
    assert "| storm, 5 clicks | linear | quick | 1 |" in text
    assert "--clicks is 'many'" in run.refused(*words, "--clicks", "many")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"field": "roof", "exclude": []}, "No footprint says anything in 'roof'; there are grade"),
        ({"exclude": ["un-clear"]}, "No footprint says 'un-clear' in 'grade'; they say destroyed, major, none, unclear"),
        ({"positive": []}, "Nothing says which buildings are damaged"),
        ({"positive": ["burnt"]}, "no class 'burnt'; there are destroyed, major, none"),
        ({"clicks": [0]}, "no numbers of clicks"),
        ({"clicks": [100]}, "100 positives shall be labeled"),
    ],
)
def test_what_cannot_be_is_refused(told: Layout, wrong: dict[str, object], words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        benchmark_job.run_table(
            tables_job.project_table("storm", **{**STORM, "clicks": [5], **wrong}), told.folder, methods=["linear"], seeds=1
        )


def test_a_project_without_chips_is_refused(project: Layout, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no chips yet"):
        tables_job.project_table("x", **STORM).read(project.folder)
    with pytest.raises(ProjectError):
        tables_job.project_table("x", **STORM).read(tmp_path / "nowhere.pugeo")
