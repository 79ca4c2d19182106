"""The words of the verbs `discover` and `types`; see `cli_parser`."""

from __future__ import annotations

from pu_geo.cli.options import Verbs, verb_of, whole


def add_verbs(verbs: Verbs) -> None:
    """Add the two verbs."""
    words = "Propose groups of buildings: which kinds are there besides those named so far?"
    verb = verb_of(verbs, "discover", words, "joplin.pugeo --groups 6")
    verb.add_argument("--groups", type=whole(2), metavar="N", help="how many (default: as many as are suggested)")
    verb.add_argument("--seeds", type=whole(1), default=3, metavar="N", help="trainings that are compared (default 3)")
    verb.add_argument("--seed", type=whole(0), default=0, help="of the first of them")
    verb.add_argument("--preset", default="quick", help="of NCL (default quick)")
    words = "List the proposed groups, and name, merge or drop them."
    verb = verb_of(verbs, "types", words, "joplin.pugeo --name 3=tarps")
    verb.add_argument("--of", default="latest", metavar="ID", help="the discovery (default: the newest)")
    act = verb.add_mutually_exclusive_group()
    act.add_argument(
        "--name", action="append", default=[], metavar="GROUP=NAME", help="name a group; GROUP= takes the name away"
    )
    act.add_argument("--merge", metavar="G,G", help="let groups count as one")
    act.add_argument("--split", type=whole(1), metavar="GROUP", help="take a merged group apart")
    act.add_argument("--drop", type=whole(1), metavar="GROUP", help="put a group aside")
    act.add_argument("--put-back", type=whole(1), metavar="GROUP", help="show a dropped group again")
    act.add_argument("--undo", action="store_true", help="take back the last of these")
    verb.add_argument("--analyst", help="who says so (a pseudonym will do)")
