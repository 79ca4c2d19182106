"""The verb `card`, and `pack` and `bring-in`, which let a training run on another machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pu_geo.cli.run import absolute, overrides_of, run_job, say
from pu_geo.errors import PuGeoError, writing
from pu_geo.services.project import projects
from pu_geo.services.train import run_card

_KINDS = {".html": run_card.as_html, ".md": run_card.as_markdown}


def _card(options: argparse.Namespace) -> None:
    card = run_card.card(projects.find(options.project), options.run)
    as_json = json.dumps(card, ensure_ascii=False, indent=1)
    if not options.out:
        print(as_json if options.json else run_card.as_markdown(card))
        return
    out = Path(options.out).expanduser().resolve()
    if out.suffix not in (*_KINDS, ".json"):
        raise PuGeoError(
            f"{out.name} ends in {out.suffix!r}; a card is written as .html, .md or .json.", "Give the file such a name."
        )
    text = _KINDS[out.suffix](card) if out.suffix in _KINDS else as_json
    with writing(out):
        out.write_text(text, encoding="utf-8")
    run_id = card["run"]["run_id"]
    say(options, {"run_id": run_id, "out": str(out)}, f"Wrote the card of {run_id} to {out}.")


def _pack(options: argparse.Namespace) -> None:
    from pu_geo.tasks.train.pack import pack

    found = pack(
        projects.find(options.project), options.out, method=options.method, preset=options.preset, seed=options.seed,
        overrides=overrides_of(options.set), types_from=options.types_from, hold_out=options.hold_out,
    )  # fmt: skip
    lines = [
        f"Packed {found['n']:,} buildings with {found['n_positive']} positives into {found['out']} ({found['bytes']:,} bytes).",
        "Copy it to the other machine, and pu_geo beside it; there: python -m pu_geo.jobs.worker FOLDER",
        f"Copy the folder back, and: pu-geo bring-in {options.project} FOLDER",
    ]
    say(options, found, "\n".join(lines))


def _bring_in(options: argparse.Namespace) -> None:
    result = run_job(projects.find(options.project), "bring_in", {"folder": absolute([options.folder])[0]}, options)
    say(
        options, result, f"Run {result['run_id']}: {result['n_positive']} positives, trained apart in {result['seconds']} s."
    )


COMMANDS = {"card": _card, "pack": _pack, "bring-in": _bring_in}
