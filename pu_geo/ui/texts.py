"""What the frame around every screen says."""

from __future__ import annotations

from pu_geo.wording import plural

ANALYST = "Analyst"
ANALYST_HELP = "Stored with each of your answers and exported with it. Yours is a made-up name until you choose another; it is kept in this page's address."
NO_PROJECT = "No project open"
MANAGE_PROJECTS = "All projects"
NEEDS_PROJECT = "No project is open yet."
OPEN_PROJECT = "Open a project"
STATES = {"done": ":green[:material/check:]", "next": ":blue-badge[next]", "open": "", "blocked": ":gray[:material/lock:]"}
"""The sign behind the name of a step; screen readers read its name."""

READY = "PU-Geo is ready at {url}  (Ctrl+C stops it; trainings go on)"
NOT_LET_IN = (
    "PU-Geo does not know this browser yet. Open the address that PU-Geo printed in its terminal; it ends in ?token= and a secret. "
    "Other accounts of this machine can reach this page, so PU-Geo lets in only who has that address."
)
OTHER_SITE = (
    "Another website's page asked for this, so PU-Geo refused. Open PU-Geo in a tab of its own, by the address that it printed in "
    "its terminal."
)
TOO_LONG = "Nothing of a message of more than {most:,} bytes was stored."
SHORTER = "Reload the page: it then sends what waits in shorter messages. Nothing is lost."
TOO_SLOW = "A message did not arrive within {seconds:.0f} s, so nothing of it was stored."
SENT_AGAIN = "It is sent again; you can go on."
WRONG_HOST = (
    "PU-Geo is served on this machine as 127.0.0.1 or localhost alone. Open the address that it printed in its terminal."
)


def counts(n: int, units: str, n_damaged: int) -> str:
    """Return how many buildings there are and how many of them people marked."""
    return f"{n:,} {units} · {plural(n_damaged, 'damaged', 'damaged')}"
