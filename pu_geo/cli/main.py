"""The command line: the same steps as the screens, one verb each. Errors end in exit code 2, problem and hint on stderr."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pu_geo import __version__
from pu_geo.cli import apart, benchmark, compare, damage_map, explore, jobs, models, types
from pu_geo.cli import imagery as cli_outlines
from pu_geo.cli.parser import build_parser
from pu_geo.cli.run import absolute, overrides_of, run_job, say
from pu_geo.errors import JobCancelled, LabelError, PuGeoError
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from pu_geo.services.damage_map import mapping
from pu_geo.services.imagery import preparation
from pu_geo.services.project import projects

TELL_FROM_S = 60.0
"""Trainings that take longer say so before they start."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 cancelled, 2 refused."""
    options = build_parser(__version__).parse_args(arguments)
    try:
        return int(COMMANDS[options.command](options) or 0)
    except PuGeoError as error:
        print(error.problem, error.hint, sep="\n", file=sys.stderr)
        return 2
    except (JobCancelled, KeyboardInterrupt):
        print("Cancelled.", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _init(options: argparse.Namespace) -> None:
    from pu_geo.project import store

    name = (options.name or Path(options.project).stem).strip()
    layout = store.create(options.project, name)
    say(options, {"project": str(layout.folder), "name": name}, f"Made {layout.folder}.")


def _add_scene(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    if options.xbd:
        _add_xbd(layout, options)
        return
    if not (options.pre or options.post):
        raise PuGeoError("No scene was named.", "Name GeoTIFF files with --pre and --post, or an xBD folder with --xbd.")
    args = {"pre": absolute(options.pre), "post": absolute(options.post), "crs": options.crs, "pixel_m": options.pixel_size}
    result = run_job(layout, "add_scenes", {**args, "bands": preparation.bands_in(options.bands)}, options)
    words = f"Added {', '.join(result['added']) or 'nothing new'}; grid {result['width']} x {result['height']} px"
    system = "local coordinates, without a place on the Earth" if result["is_local"] else result["crs"]
    covered = result["pre_share"]
    pre = "" if covered is None or covered > 0.999 else f"\nPre scenes cover {covered:.0%} of the post scenes."
    say(options, result, f"{words} of {result['gsd_m']:.3f} m in {system}.{pre}")


def _add_xbd(layout: Layout, options: argparse.Namespace) -> None:
    if options.pre or options.post or options.crs or options.bands or options.pixel_size:
        raise PuGeoError(
            "--xbd takes its pictures from one folder.", "Leave --pre, --post, --crs, --bands and --pixel-size away."
        )
    args = {"folder": absolute([options.xbd])[0], "chosen": options.choose}
    result = run_job(layout, "add_xbd", args, options)
    words = f"Added {len(result['added'])} scenes of {result['n_pictures']} pictures; {result['n_left_out']} were left out."
    say(options, result, "\n".join([words, *result["notes"], cli_outlines.footprint_words(result["footprints"])]))


def _chip(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    result = run_job(layout, "chip", {"size_px": options.size_px, "bands": options.bands}, options)
    words = f"Cut {result['n']} chips of {result['size_px']} px ({result['bands']}), with features."
    beyond = f"\n{result['n_nodata']} of them reach beyond the post scenes or their data." if result["n_nodata"] else ""
    beyond += f"\n{result['bands_why']}" if result["bands_why"] else ""
    if result["n_sensors"] > 1:
        beyond += (
            f"\nThe scenes are of {result['n_sensors']} kinds that differ too much for scores to carry over. Mark damaged "
            "buildings in each: those of a kind without answers are not assessed."
        )
    why = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in result["n_not_assessed"].items())
    hidden = f"\nNot assessed, unless somebody answers them: {why}." if why else ""
    say(options, result, words + beyond + hidden)


def _align(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    result = run_job(layout, "align", {}, options)
    grid = preparation.overview(layout).grid
    right, up = ("east", "north") if grid is None or grid.has_place else ("to the right", "up")
    moved = f"{result['dx_m']:+.1f} m {right} and {result['dy_m']:+.1f} m {up}"
    words = f"Pre must move {moved} to fit post (median of the buildings)"
    failed = (
        f"; {result['n_failed']} of {result['n']} could not be aligned: nothing fits surely within 20 m of that"
        if result["n_failed"]
        else ""
    )
    say(options, result, f"{words}{failed}. Cut chips again to use it.")


def _label(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    analyst = options.analyst or labeling.default_analyst()
    if options.stdin:
        _label_stream(layout, analyst)
    elif options.import_file:
        from pu_geo.tasks.annotate.import_labels import import_labels

        result = import_labels(layout, options.import_file, analyst=analyst, same_footprints=options.same_footprints)
        counts = f"{result['stored']} stored, {result['unchanged']} as before, {result['skipped']} skipped"
        say(options, result, "\n".join([f"{result['rows']} rows: {counts}.", *result.get("notes", ())]))  # type: ignore[misc]
    else:
        simulated = labeling.simulate(
            layout, field=options.from_field, values=options.values, count=options.count, seed=options.seed,
            analyst=analyst, label=options.label,
        )  # fmt: skip
        say(options, simulated, f"Clicked {simulated['stored']} buildings; {simulated['positives']} positives now.")


def _label_stream(layout: Layout, analyst: str) -> None:
    """Answer each line on stdin as soon as it is on disk."""
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            operation = labeling.parse_line(line, json.loads(line))
            ack = labeling.apply_operations(layout, [operation], analyst=analyst, screen="cli")[0]
            answer: dict[str, object] = {"ack": ack.op, "event": ack.event}
            if ack.error:
                answer = {"error": ack.error, "op": ack.op}
        except (ValueError, RecursionError):
            answer = {"error": f"The line {line.strip()[:80]!r} is not JSON."}
        except LabelError as error:
            answer = {"error": f"{error.problem} {error.hint}"}
        print(json.dumps(answer, ensure_ascii=False), flush=True)


def _rank(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    result = run_job(layout, "rank", {}, options)
    say(options, result, _run_words(layout, result))


def _run_words(layout: Layout, result: Mapping[str, Any]) -> str:
    """Return what a finished run learned from, and in which scenes its result is doubtful."""
    words = f"Run {result['run_id']}: {result['n_positive']} positives, {result['seconds']} s."
    limit = mapping.run(layout, result["run_id"]).threshold
    return "\n".join([words, *mapping.doubts(layout, result["run_id"], limit)])


def _methods(options: argparse.Namespace) -> None:
    from pu_geo.services.train import training, training_times

    groups = training.cards_by_group().items()
    past = {
        card.name: {preset: training_times.past(card.name, preset) for preset in card.presets}
        for _, cards in groups
        for card in cards
    }
    found = [
        {
            "name": card.name, "title": card.title, "group": group, "is_default": card.name == training.DEFAULT_METHOD,
            "presets": list(card.presets), "needs": card.needs, "figures": training.figures_of(card.name),
            "took_here": {preset: [asdict(one) for one in times] for preset, times in past[card.name].items()},
        }
        for group, cards in groups
        for card in cards
    ]  # fmt: skip
    lines = []
    for card in (card for _, cards in groups for card in cards):
        lines.append(
            f"{card.name:15} {card.title}{' (default)' if card.name == training.DEFAULT_METHOD else ''}. {card.needs}"
        )
        for preset, times in past[card.name].items():
            lines.append(f"{'':15} {preset:9}{times[-1].words + ' here' if times else training_times.NONE_YET}")
    say(options, {"methods": found}, "\n".join(lines))


def _train(options: argparse.Namespace) -> None:
    from pu_geo.services.train import training, training_times
    from pu_geo.services.train.training import TrainingRequest

    layout = projects.find(options.project)
    request = TrainingRequest(
        options.method, options.preset, options.seed, overrides_of(options.set), options.types_from, options.hold_out
    )
    training.require(layout, request)
    if not options.json and not request.overrides:
        n_chips = training.data_summary(layout).n_chips
        expected = training_times.expected_seconds(request.method, request.preset, n_chips)
        if expected and expected[1] > TELL_FROM_S:
            takes = training_times.words(request.method, request.preset, n_chips)
            more = f" Ctrl-C stops it; `pu-geo jobs {options.project}` names it, `... resume ID` goes on."
            print(f"Takes {takes}.{'' if options.detach else more}", file=sys.stderr, flush=True)
    if options.detach:
        job_id = training.start(layout, request)
        say(options, {"job_id": job_id}, f"Started job {job_id}. Follow it with `pu-geo jobs {options.project}`.")
        return
    result = run_job(layout, "train", request.as_args(), options)
    say(options, result, _run_words(layout, result))


def _evaluate(options: argparse.Namespace) -> None:
    from pu_geo.tasks.train.evaluate import evaluate

    result = evaluate(
        projects.find(options.project), options.run, field=options.field, positive=options.positive, exclude=options.exclude
    )
    say(options, result, "\n".join(f"{key:15} {value}" for key, value in result.items()))


def _inspect(options: argparse.Namespace) -> None:
    from pu_geo.geo.readers.in_child import inspect_file

    for path in options.file:
        answer = inspect_file(path)
        words = f"{path}: usable {answer['kind']}" if answer["ok"] else f"{path}: {answer['problem']} {answer['hint']}"
        say(options, answer, words)
        sys.stdout.flush()


def _demo(options: argparse.Namespace) -> None:
    from pu_geo.cli.demo import run_demo

    run_demo(options)


def _app(options: argparse.Namespace) -> int:
    from pu_geo.services.project.launch import launch_app

    print(f"PU-Geo opens at http://127.0.0.1:{options.port}  (Ctrl+C stops it; trainings go on)", flush=True)
    return launch_app(options.project, port=options.port, sample=options.sample, browser=not options.no_browser)


COMMANDS = {
    "init": _init,
    "add-scene": _add_scene,
    **cli_outlines.COMMANDS,
    "align": _align,
    "chip": _chip,
    "label": _label,
    "rank": _rank,
    "methods": _methods,
    "train": _train,
    "evaluate": _evaluate,
    **apart.COMMANDS,
    **compare.COMMANDS,
    **types.COMMANDS,
    **explore.COMMANDS,
    **models.COMMANDS,
    **damage_map.COMMANDS,
    **benchmark.COMMANDS,
    "inspect": _inspect,
    **jobs.COMMANDS,
    "demo": _demo,
    "app": _app,
}

if __name__ == "__main__":
    sys.exit(main())
