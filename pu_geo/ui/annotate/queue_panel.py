"""What Annotate shows next: the search's queue with its mix, or the queue of a random check that is going on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.project.layout import Layout
from pu_geo.services.annotate import queueing
from pu_geo.services.annotate.queueing import StoredQueue
from pu_geo.services.damage_map import random_audits
from pu_geo.services.damage_map.random_audits import Check
from pu_geo.ui import frame
from pu_geo.ui.annotate import texts


@dataclass(frozen=True)
class QueueView:
    """The buildings to answer next, and what to do when they are done.

    Attributes:
        is_blind: answers must not hang on what the machine thinks, so no scores are shown.
        advance: takes the id of the queue that is done.
    """

    queue: StoredQueue | None
    is_blind: bool
    advance: Callable[[str], object]


def draw(layout: Layout, analyst: str, tools: DeltaGenerator) -> QueueView:
    """Draw the controls of the queue into `tools`, and the state of an open check below; return the queue."""
    check = random_audits.open_check(layout)
    if check and _takes_part(layout, check):
        is_second = tools.toggle(
            "Second reader", key="second-reader", help="Answer what others have answered, without seeing what they said."
        )
        return QueueView(
            queue=random_audits.check_queue(layout, analyst, check, is_second=is_second),
            is_blind=True,
            advance=lambda done: random_audits.advance_check(layout, analyst, check, done=done, is_second=is_second),
        )
    with tools:
        mix = _settings(layout, analyst, has_check=check is not None)
    return QueueView(
        queue=queueing.current(layout, analyst),
        is_blind=False,
        advance=lambda done: queueing.advance(layout, analyst, done=done, mix=mix),
    )


def _takes_part(layout: Layout, check: Check) -> bool:
    """Draw how an open check stands; return whether this analyst answers it rather than searches on."""
    what, left, out = st.columns([5, 2, 2], vertical_alignment="bottom")
    takes_part = out.toggle(
        "Take part", value=True, key=f"in-{check.id}", help="Off: search on. That ends a stop check's worth."
    )
    words = "Back to the search. Checks answered so far count, the first of their order."
    if out.button("End the check", icon=":material/undo:", help=words):
        frame.act_and_rerun(lambda: random_audits.end(layout, check.id))
    if check.purpose == "audit":
        done = random_audits.answered(layout, check)
        what.info(
            f"**Audit of {check.run_id}** · {done.n_answered} of {done.n_drawn} random checks answered. Scores are hidden "
            + ("while you answer." if done.n_open else "· done: see the Damage map page.")
            + (f" {frame.plain(done.words)}" if done.n_answered > done.n_counted else ""),
            icon=":material/fact_check:",
        )
    else:
        at_most = left.number_input("Damaged that may stay unfound", 0, 10_000, 5, key="at-most-left")
        view = random_audits.stop_view(layout, check, int(at_most))
        what.info(
            f"**May we stop?** {view.n_checked} checked, {view.n_damaged} damaged. {frame.plain(view.words)}",
            icon=":material/fact_check:",
        )
    return bool(takes_part)


def _settings(layout: Layout, analyst: str, *, has_check: bool) -> queueing.Mix:
    """Draw what the queue is mixed of, and the way into a stop check."""
    with st.popover(texts.QUEUE, icon=":material/tune:", help=texts.QUEUE_HELP):
        default = queueing.DEFAULT_MIX
        shares = {
            kind: st.slider(title, 0, 100, round(100 * getattr(default, kind)), 5, "%d %%", key=f"mix-{kind}", help=words)
            for kind, (title, words) in texts.KINDS.items()
        }
        if not any(shares.values()):
            st.caption(texts.ALL_ZERO)
        st.caption(texts.MIX)
        if not has_check and st.button(
            "May we stop? Begin random checks", icon=":material/fact_check:",
            help="Draws unanswered buildings evenly, without scores, until at most a few damaged ones can be left.",
        ):  # fmt: skip
            frame.act_and_rerun(lambda: random_audits.begin_stop_check(layout, analyst))
    return queueing.Mix(**shares) if any(shares.values()) else default
