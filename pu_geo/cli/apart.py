"""The verb `card`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pu_geo.cli.run import say
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


COMMANDS = {"card": _card}
