"""`--cluster` of the verbs that know it."""

from __future__ import annotations

import pytest
from cli_parts import CommandLine
from small_parts import unheld_job

from pu_geo.project.layout import Layout


@pytest.mark.parametrize(
    "words",
    [("features", "--backbone", "layers"), ("align",), ("chip",), ("model", "apply", "m.zip")],
    ids=lambda words: words[0],
)
def test_a_cluster_that_is_none_is_refused_before_a_job_is_there(
    words: tuple[str, ...], project: Layout, run: CommandLine
) -> None:
    verb, rest = (words[:2], words[2:]) if words[0] == "model" else (words[:1], words[1:])
    problem, hint = run.refused(*verb, project.folder, *rest, "--cluster", "four").splitlines()
    assert problem == "'four' names no cluster."
    assert "local:4" in hint
    assert not list(project.jobs.glob("*/spec.json"))


def test_a_cluster_and_devices_where_they_do_not_belong_are_refused(project: Layout, run: CommandLine) -> None:
    assert "no --backbone is named" in run.refused("features", project.folder, "--cluster", "local:2")
    assert "--devices is for `jobs resume` alone" in run.refused("jobs", project.folder, "retry", "x", "--devices", "2")
    job = unheld_job(project, "rank", {})
    assert "is no training" in run.refused("jobs", project.folder, "resume", job.name, "--devices", "2")
