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


def counts(n: int, units: str, n_damaged: int) -> str:
    """Return how many buildings there are and how many of them people marked."""
    return f"{n:,} {units} · {plural(n_damaged, 'damaged', 'damaged')}"
