"""Verbs that say what is looked at: footprints, a grid in place of them, and the area of interest."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from pu_geo.cli.run import absolute, run_job, say
from pu_geo.errors import PuGeoError
from pu_geo.services.imagery import preparation
from pu_geo.services.project import projects


def _add_footprints(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    args = {"path": absolute([options.file])[0], "crs": options.crs}
    result = run_job(layout, "add_footprints", args, options)
    say(options, result, footprint_words(result))


def _add_grid(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    result = run_job(layout, "add_grid", {"size_m": options.size_m}, options)
    say(options, result, footprint_words(result))


def footprint_words(result: Mapping[str, Any]) -> str:
    """Return the account of one file: what went in, what became of it, and why."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in result["dropped_by"].items())
    account = f"{result['n_in']} in = {result['kept']} kept + {result['repaired']} repaired + {result['dropped']} dropped"
    return "\n".join([f"{result['file']}: {account}{f' ({reasons})' if reasons else ''}.", *result["notes"]])


def _add_aoi(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    chosen = [bool(options.file), bool(options.text), options.remove, options.undo]
    if sum(chosen) != 1:
        raise PuGeoError(
            "An area is named once: by a file, with --text, --remove or --undo.",
            f"For example: pu-geo add-aoi {options.project} aoi.geojson",
        )
    if options.remove or options.undo:
        _change_aoi(options)
        return
    file = {"path": absolute([options.file])[0]} if options.file else {}
    result = run_job(layout, "add_aoi", {**file, "text": options.text, "crs": options.crs}, options)
    say(options, result, "\n".join([preparation.aoi_words(result), *result["notes"]]))


def _change_aoi(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    if options.remove:
        was_there = preparation.remove_aoi(layout)
        words = "The area of interest was taken away; footprints stay. --undo puts it back."
        say(options, {"removed": was_there}, words if was_there else "There is no area of interest.")
        return
    found = preparation.put_back_aoi(layout)
    source = None if found is None else found.source
    say(options, {"source": source}, f"{source} is the area of interest again." if source else "There was none before.")


COMMANDS = {"add-footprints": _add_footprints, "add-grid": _add_grid, "add-aoi": _add_aoi}
