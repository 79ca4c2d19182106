"""The verbs `compare` and `ensemble`: where two runs agree and which is judged better; several runs as one."""

from __future__ import annotations

import argparse

from pu_geo.cli.run import in_brackets, run_job, say
from pu_geo.services.project import projects
from pu_geo.services.train import comparing, training
from pu_geo.services.train.comparing import Comparison, Disagreement, Side

N_SHOWN = 5


def _compare(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    found = comparing.compare(layout, *options.runs)
    told = comparing.as_json(layout, found)
    higher, lower = comparing.most_disagreeing(layout, found, N_SHOWN)
    names = [f"A = {found.sides[0].facts.run_id}", f"B = {found.sides[1].facts.run_id}"]
    lines = [*names, *comparing.agreement_words(found), *_side_lines(found)]
    lines += [*_apart_lines("A high, B low", higher), *_apart_lines("B high, A low", lower)]
    say(options, told, "\n".join(lines))


def _side_lines(found: Comparison) -> list[str]:
    audited = "" if found.check is None else f"Audited by the same {found.check.sample.n_drawn} checks ({found.check.id})."
    told = [found.clicks.words, *([audited] if audited else [])]
    for name, side in zip("AB", found.sides, strict=True):
        told += [f"{name}: {words}" for words in _figures(side)]
    return told


def _figures(side: Side) -> list[str]:
    told = [f"PU criterion {comparing.criterion_words(side)}."]
    if side.audited is not None:
        precision, recall = (
            comparing.share_words(side.audited.precision),
            comparing.share_words(side.audited.recall),
        )
        told.append(f"precision {precision}, recall {recall} at its threshold {side.facts.threshold:.3f}.")
    return told


def _apart_lines(title: str, rows: list[Disagreement]) -> list[str]:
    found = [f"  {row.building_id}: {row.places[0]:,} in A, {row.places[1]:,} in B{in_brackets(row.label)}" for row in rows]
    return [f"{title}:", *(found or ["  none"])]


def _ensemble(options: argparse.Namespace) -> None:
    layout = projects.find(options.project)
    result = run_job(layout, "ensemble", training.average_arguments(layout, options.runs), options)
    say(options, result, f"Run {result['run_id']}: the mean rank of {len(options.runs)} runs, {result['seconds']} s.")


COMMANDS = {"compare": _compare, "ensemble": _ensemble}
