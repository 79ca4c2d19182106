"""The verbs `similar` and `suspects`: the buildings most like some others, and the odd ones to look at again."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pu_geo.cli.run import in_brackets, run_job, say
from pu_geo.services.explore import neighbors, outliers
from pu_geo.services.project import projects


def _similar(options: argparse.Namespace) -> None:
    found = neighbors.like(
        projects.find(options.project), options.run, options.building, count=options.count, only_unlabeled=options.unlabeled
    )
    lines = [
        f"{one.building_id}: cosine {one.cosine:.3f}, score {one.score:.3f}{in_brackets(one.label)}" for one in found
    ] or ["No other building is there."]  # fmt: skip
    say(options, {"like": options.building, "buildings": [asdict(one) for one in found]}, "\n".join(lines))


def _suspects(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    run_id = outliers.run_id_of(layout, options.run)
    if options.search or not outliers.is_looked_through(layout, run_id):
        run_job(layout, "outliers", {"run_id": run_id}, options)
    found = outliers.queue(layout, run_id, again=options.reviewed)
    told = [{"why": one.why, "building_ids": list(one.building_ids), "words": one.words, "doubt": round(one.doubt, 4)}
            for one in found]  # fmt: skip
    lines = [f"{one.why}: {' and '.join(one.building_ids)}. {one.words}" for one in found]
    say(options, {"run_id": run_id, "suspects": told}, "\n".join(lines or ["Nothing is left to look at."]))


COMMANDS = {"similar": _similar, "suspects": _suspects}
