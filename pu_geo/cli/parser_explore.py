"""The words of the verbs `similar` and `suspects`; see `cli_parser`."""

from __future__ import annotations

from pu_geo.cli.options import Verbs, run_option, verb_of, whole


def add_verbs(verbs: Verbs) -> None:
    """Add the two verbs."""
    words = "List the buildings that look most like some others to a run's model."
    verb = verb_of(verbs, "similar", words, "joplin.pugeo --building b000012 --count 20")
    verb.add_argument("--building", required=True, nargs="+", metavar="ID", help="one building or several")
    verb.add_argument("--count", type=whole(1), default=20)
    verb.add_argument("--unlabeled", action="store_true", help="leave out what carries a label")
    run_option(verb)
    words = "List what is odd: clicks that may be wrong, buildings that are there twice, chips unlike any other."
    verb = verb_of(verbs, "suspects", words, "joplin.pugeo --json")
    run_option(verb)
    verb.add_argument("--search", action="store_true", help="look through all chips again")
    verb.add_argument("--reviewed", action="store_true", help="also what somebody reviewed on the Explore page")
