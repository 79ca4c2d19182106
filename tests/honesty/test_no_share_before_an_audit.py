"""Before an audit no person is shown a share of damage: whatever clicks suggest stays inside the methods, within bounds."""

import contextlib
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_parts import plain, show, show_tab
from cli_parts import CommandLine
from mapped_parts import RUN, answer_audit, mapped_project, say_all
from model_parts import with_chips
from small_parts import small_project

from pu_geo import Project, cli
from pu_geo.analysis import class_prior, estimates, ranking_evidence, two_readings
from pu_geo.assessment import auditing, random_audits
from pu_geo.methods import fitting, linear
from pu_geo.methods.estimators import ALL, PURanker
from pu_geo.runs import comparing
from pu_geo.store import runs, store
from pu_geo.store.layout import Layout
from pu_geo.ui.damage_map.texts import TAB_AUDIT, TABS

pytestmark = [pytest.mark.usefixtures("home", "same_draws"), pytest.mark.slow]

GUESS = 0.7737
"""What every estimate from clicks gives here. It is far above what may be flagged at first, so nothing else comes to it."""
_SHOWN = re.compile(r"0?\.77[34]\d*|77(\.[34]\d*)? ?%|\b10 of 14\b|\b11 of 14\b")
_AS_ESTIMATE = re.compile(r"[Aa]bout [\d,.]+ %? ?(of|buildings|damaged)|[\d.]+ ?% (of the [a-z]+ )?(are |is )?damaged\b")


def give_guesses(patch: pytest.MonkeyPatch) -> list[str]:
    """Let all estimates from clicks give the number that is looked for; return the names of those that were asked."""
    asked: list[str] = []

    def gives(name: str) -> Callable[..., float]:
        return lambda *_, **__: asked.append(name) or GUESS  # type: ignore[func-returns-value]

    for module in (class_prior, estimates, ranking_evidence, two_readings):
        patch.setattr(module, "elkan_noto_of_margins", gives(module.__name__))
    patch.setattr(linear, "best_bin_share", gives("best bin"))
    patch.setattr(fitting, "GUESSED_PRIORS", (0.0, 1.0))  # so that it would be seen
    return asked


def checked(text: str, where: str) -> None:
    """Fail where a text names the guess, or anything as if it were an estimate; figures of events with known truth may stand."""
    text = re.sub(r"(Joplin|Harvey)[^\n\"]*", "", text)
    text = re.sub(r"\d\dT\d\d:\d\d:\d\d\.\d+Z", "", text)  # one moment in a thousand ends in .773 s
    for pattern in (_SHOWN, _AS_ESTIMATE):
        found = pattern.search(text)
        assert not found, f"{where}: {text[max(found.start() - 80, 0) : found.end() + 40]!r}"  # type: ignore[union-attr]


def check_files(folder: Path) -> None:
    """Check all that is written as text in a folder."""
    ends = (".json", ".jsonl", ".geojson", ".csv", ".html", ".md")
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in ends]
    assert paths
    for path in paths:
        checked(path.read_text(encoding="utf-8"), str(path))


@pytest.fixture(scope="module")
def trained_town(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Twenty buildings with clicks and with a run of the ranker, of the default and of nnPU, which needs the share."""
    layout = with_chips(small_project(tmp_path_factory.mktemp("town") / "event.pugeo"))
    commands = [("rank",), ("rank", "--json"), ("train", "--method", "propagation")]
    commands.append(("train", "--method", "nnpu", "--set", "epochs=2", "--set", "max_steps=4"))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        asked = give_guesses(patch)
        for verb, *more in commands:
            assert cli.main([verb, str(layout.folder), *more]) == 0
    checked(said.getvalue(), "rank, train")
    assert {"pu_geo.analysis.estimates", "pu_geo.analysis.two_readings"} <= set(asked), "else this proves nothing"
    return layout


@pytest.fixture
def town(trained_town: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    give_guesses(monkeypatch)
    return Layout(Path(shutil.copytree(trained_town.folder, tmp_path / "town.pugeo")))


def test_no_command_and_no_file_names_one(town: Layout, run: CommandLine, tmp_path: Path) -> None:
    first, second = (facts.run_id for facts in store.call(town, runs.all_runs)[:2])
    out = tmp_path / "out"
    out.mkdir()
    commands: list[tuple[Any, ...]] = [
        ("choose", town.folder), ("methods",), ("jobs", town.folder), ("compare", town.folder, "--runs", first, second),
        ("export", town.folder, "--out", out / "map.geojson"), ("publish", town.folder, "--formats", "geojson", "csv"),
        ("choose", town.folder, "--top", "3"),
        *(("card", town.folder, "--run", facts.run_id) for facts in store.call(town, runs.all_runs)),
    ]  # fmt: skip
    for command in commands:
        for more in ((), ("--json",)):
            checked(run.text(*command, *more), " ".join(map(str, (*command, *more))))
    run.text("card", town.folder, "--run", second, "--out", out / "card.html")
    check_files(out)
    check_files(town.folder)


def test_no_page_names_one_and_the_map_says_how_many_it_starts_from(town: Layout) -> None:
    opened = [(page, show(page, town)) for page in ("annotate", "train", "explore", "damage_map")]
    for page, app in [*opened, *((tab, show_tab(town, tab)) for tab in TABS)]:
        tables = (str(table.value.to_dict()) for table in app.dataframe)
        fields = (f"{each.label} {each.value} {each.help}" for each in (*app.slider, *app.number_input))
        checked("\n".join([plain(app), *(str(metric.value) for metric in app.metric), *tables, *fields]), page)
    app = show_tab(town, TAB_AUDIT)
    told = plain(app)
    assert ": a starting point, not an estimate: as many as clicks held out suggest, at most 8 a click" in told
    assert "How many there are in all is not known before an accuracy assessment" in told
    assert "how many are is not known before an accuracy assessment" in told
    assert "% in all" not in told


def test_the_library_has_no_name_for_one(town: Layout) -> None:
    project = Project.open(town.folder)
    for facts in project.runs():
        checked(repr(facts), facts.run_id)
        assert facts.start_k == 7
        assert not hasattr(facts, "estimated_share")
        checked(repr(comparing.curve(town, facts.run_id)), "curve")
    checked(repr(project.how_many()), "how_many")
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) < 12
    for model in (PURanker(), ALL["NNPU"](epochs=2, max_steps=4), ALL["PropagatedRanking"]()):
        model.fit(X, y)
        given = (value for name, value in vars(model).items() if name.endswith("_"))
        fitted = [value for value in given if isinstance(value, str | list | float)]
        checked(repr([*fitted, getattr(model, "settings_", None)]), type(model).__name__)
        assert model.start_k_ == 24


def test_an_audit_is_planned_by_a_number_and_drawn_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = mapped_project(tmp_path)
    say_all(layout, range(2, 30))
    planned = auditing.plan(layout, RUN)
    assert (
        "Planned as if 1 in 20 were damaged / half were; how many are is not known before an accuracy assessment."
        in planned.words
    )
    monkeypatch.setattr(estimates, "elkan_noto_of_margins", lambda *_: 0.9)
    assert auditing.plan(layout, RUN) == planned
    drawn = []
    for share in (0.01, 0.5):
        monkeypatch.setattr(auditing, "PLANNED_SHARE", share)
        drawn.append(random_audits.begin_audit(layout, RUN, 60, "ann").sample)
    np.testing.assert_array_equal(drawn[0].rows, drawn[1].rows)
    np.testing.assert_array_equal(drawn[0].stratum, drawn[1].stratum)
    answer_audit(layout, 100)
    assert "as the accuracy assessment estimates it" in auditing.plan(layout, RUN).words
