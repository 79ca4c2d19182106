"""The words of the verb `card`; see `cli_parser`."""

from __future__ import annotations

from pu_geo.cli.options import Verbs, run_option, verb_of


def add_verbs(verbs: Verbs) -> None:
    """Add the verb."""
    words = "Write the card of a run: data, labels, settings, curves, judgement, limits."
    verb = verb_of(verbs, "card", words, "joplin.pugeo --out card.html")
    run_option(verb)
    verb.add_argument("--out", metavar="FILE.html|.md|.json", help="file to write (default: print Markdown)")
