"""The words of the verbs `card`, `pack` and `bring-in`; see `cli_parser`."""

from __future__ import annotations

from pu_geo.cli.options import Verbs, run_option, verb_of, whole
from pu_geo.methods.catalog import DEFAULT_METHOD


def add_verbs(verbs: Verbs) -> None:
    """Add the three verbs."""
    words = "Write the card of a run: data, labels, settings, curves, judgement, limits."
    verb = verb_of(verbs, "card", words, "joplin.pugeo --out card.html")
    run_option(verb)
    verb.add_argument("--out", metavar="FILE.html|.md|.json", help="file to write (default: print Markdown)")
    words = "Pack a training into a folder, to do it on another machine with `python -m pu_geo.jobs.worker FOLDER`."
    verb = verb_of(verbs, "pack", words, "joplin.pugeo --method ncpu --preset standard --out joplin-ncpu")
    verb.add_argument(
        "--method", default=DEFAULT_METHOD, help="ncpu, pucl, ...: `pu-geo methods` lists them (default %(default)s)"
    )
    verb.add_argument("--preset", default="quick")
    verb.add_argument("--seed", type=whole(0), default=0)
    verb.add_argument(
        "--types-from", metavar="FIELD", help="attribute of the clicked footprints that names the kind of damage"
    )
    verb.add_argument(
        "--hold-out", type=whole(0), default=0, metavar="N", help="positives to judge the run by, not to learn from"
    )
    verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting of the preset")
    verb.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    words = "Check what a packed training made on another machine, and store it as a run."
    verb = verb_of(verbs, "bring-in", words, "joplin.pugeo joplin-ncpu")
    verb.add_argument("folder", metavar="FOLDER", help="folder that `pu-geo pack` made, after the training")
