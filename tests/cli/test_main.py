"""The command line as a whole: exit codes, help, completion, start-up, and progress."""

import inspect
import json
import os
import shlex
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_parts import CommandLine
from small_parts import REPOSITORY, small_project, unheld_job

import pu_geo
from pu_geo.api import Project
from pu_geo.cli.main import app
from pu_geo.cli.run import run_job
from pu_geo.errors import PuGeoError
from pu_geo.jobs import tasks
from pu_geo.jobs.actions import Action
from pu_geo.scenes.actions import Chip
from pu_geo.store import events
from pu_geo.store.job import Job
from pu_geo.store.layout import Layout


def commands(group: Any, prefix: str = "pu-geo") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        elif not command.hidden:
            yield f"{prefix} {name}", command


ALL = dict(commands(typer.main.get_command(app)))


def actions(base: type = Action) -> Iterator[type[Action]]:
    tasks.every()
    for one in base.__subclasses__():
        yield from ([one] if "task" in vars(one) else [])
        yield from actions(one)


@pytest.mark.parametrize("action", [*actions()], ids=lambda one: one.__name__)
def test_an_action_has_the_same_settings_and_checks_on_the_command_line_and_in_the_library(action: type[Action]) -> None:
    settings = {item.name for item in fields(action)}
    verbs = [{one.name for one in command.params} - {"project", "as_json", "detach"} for command in ALL.values()]
    methods = [{*inspect.signature(one).parameters} - {"self"} for one in vars(Project).values() if inspect.isfunction(one)]
    assert settings in verbs
    assert settings in methods
    assert all(item.metadata["help"] or item.metadata["is_positional"] for item in fields(action))


def test_what_is_out_of_bounds_is_refused_before_there_is_a_job(run: CommandLine, project: Layout) -> None:
    with pytest.raises(PuGeoError, match="size_px is 0; it must be at least 1"):
        Chip(0)
    assert "it must be 1 or more" in run.refused("chip", project.folder, "--size-px", 0)
    assert not list(project.jobs.glob("*/spec.json"))


@pytest.mark.parametrize("verb", ALL)
def test_examples_in_the_help_are_understood(verb: str) -> None:
    _, *examples = ALL[verb].epilog.removeprefix("\b\n").splitlines()
    assert examples
    for example in examples:
        assert example.startswith(f"  {verb}")
        words = shlex.split(example.partition("<")[0].removeprefix(f"  {verb}"))
        assert ALL[verb].make_context(verb, words).params is not None


def test_help_lists_the_verbs_by_screen_and_is_plain(run: CommandLine) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    titles = ["Project:", "Imagery:", "Annotate:", "Train:", "Explore:", "Damage map:"]
    assert [line for line in out.splitlines() if line in titles] == titles
    assert all(f"  {verb.split()[1]} " in out for verb in ALL)
    assert out.isascii()
    assert "\x1b" not in out
    assert "..." not in out.partition("\n")[2], "a sentence is cut off"
    assert "Examples:\n    pu-geo model apply " in run("model", "apply", "-h")[1]
    assert run("--version") == (0, f"pu-geo {pu_geo.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "No command was named."),
        (("rnak",), "There is no command rnak. Did you mean 'rank'"),
        (("rank",), "P.pugeo is missing."),
        (("export", "p.pugeo"), "--out is missing."),
        (("train", "p.pugeo", "--metod", "ncpu"), "There is no option --metod. Did you mean --method"),
        (("chip", "p.pugeo", "--bands", "pre"), "--bands cannot be used: 'pre' is not one of 'auto', 'pre+post', 'post'."),
        (("train", "p.pugeo", "--hold-out", "-1"), "--hold-out cannot be used: it must be 0 or more."),
        (("train", "p.pugeo", "--hold-out", "x"), "--hold-out cannot be used: it must be a whole number."),
        (("compare", "p.pugeo", "--runs", "latest"), "--runs takes 2 values."),
    ],
)
def test_usage_errors_end_in_exit_code_2_in_our_words(run: CommandLine, words: tuple[str, ...], problem: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith(problem)
    assert "--help` shows what it takes" in err
    assert "Usage:" not in err


def test_a_mistake_ends_in_exit_code_2_with_problem_and_hint(run: CommandLine, tmp_path: Path) -> None:
    code, out, err = run("rank", tmp_path / "no.pugeo")
    assert (code, out) == (2, "")
    assert "is not a PU-Geo project" in err
    assert "pu-geo init" in err


def test_one_option_takes_several_words_up_to_the_next() -> None:
    words = ["p.pugeo", "--formats", "csv", "kml", "--run", "latest", "--formats", "heat", "--profile", "unosat"]
    found = ALL["pu-geo publish"].make_context("publish", words).params
    assert [*found["formats"], *found["profiles"], found["run"]] == ["csv", "kml", "heat", "unosat", "latest"]


def test_shells_complete_verbs(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_TYPER_COMPLETE_FISH_ACTION", "get-args"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    for name in ("_TYPER_COMPLETE_ARGS", "COMP_WORDS"):
        monkeypatch.setenv(name, "pu-geo label")
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_PU_GEO_COMPLETE", f"complete_{shell}")
        code, out, _ = run()
        assert (code, "label-errors" in out, "rank" in out) == (0, True, False)


def test_help_and_the_label_stream_load_nothing_heavy(project: Layout) -> None:
    """By the entry point that `pyproject.toml` names."""
    entry = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]["pu-geo"]
    code = """
import io, pkgutil, sys
main = pkgutil.resolve_name(sys.argv[2])
sys.stdin = io.StringIO('{"op": "a", "building_id": "b1", "label": "positive"}\\n')
assert main(["label", sys.argv[1], "--stdin"]) == 0
assert main(["--help"]) == 0
heavy = {*"scipy.sparse scipy.special scipy.optimize torch torchvision rasterio streamlit geopandas pandas pyogrio faiss umap numba sklearn cv2 rich jinja2".split()}
heavy &= {*sys.modules}
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(project.folder), entry], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{"ack": "a", "event": 1}\n')


def reports(layout: Layout, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Do a job that reports four times."""

    def task(job: Job) -> dict[str, int]:
        assert (job.echo is None) == as_json
        for report in ("  4%  reading", "  8%  reading", " 20%  waves", "waiting for another"):
            if job.echo:
                job.echo(report)
        return {"n": 1}

    module = types.ModuleType("four_reports")
    module.task = task  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "four_reports", module)
    monkeypatch.setitem(tasks.TASKS, "four", tasks.Task("four_reports:task", "Four"))
    assert run_job(layout, "four", as_json) == {"n": 1}


def test_progress_is_a_line_each_tenth_and_a_bar_on_a_terminal(
    project: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports(project, monkeypatch, as_json=False)
    assert capsys.readouterr() == ("", " 20%  waves\nwaiting for another\n")
    reports(project, monkeypatch, as_json=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    reports(project, monkeypatch, as_json=False)
    drawn = [line.rstrip() for line in capsys.readouterr().err.split("\r")]
    assert drawn == [
        "", "[                    ]   4%  reading", "[#                   ]   8%  reading",
        "[####                ]  20%  waves", "waiting for another", "", "",
    ]  # fmt: skip


def in_locale(*words: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command where the system's encoding is not UTF-8."""
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "pu_geo.cli", *words]
    return subprocess.run(command, capture_output=True, env={**os.environ, **plain, **settings}, check=False)


@pytest.mark.slow
def test_names_with_letters_that_the_terminal_lacks_are_printed(tmp_path: Path) -> None:
    layout, name = small_project(tmp_path / "event.pugeo"), "İzmir é \U0001f3e0"
    events.append(unheld_job(layout, "add_scenes", {}), "failed", {"problem": f"{name} is no scene."})
    done = in_locale("jobs", str(layout.folder), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    found = in_locale("jobs", str(layout.folder), "--json", PYTHONIOENCODING="ascii")
    assert name in json.loads(found.stdout.decode("ascii"))["problem"]
    refused = in_locale("inspect", str(tmp_path / "İzmir.tif"))
    assert refused.returncode == 2
    assert b"export LC_ALL=C.UTF-8" in refused.stderr
