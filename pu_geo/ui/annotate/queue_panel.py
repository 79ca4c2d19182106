"""What Annotate shows next: the search's queue with its mix, or the queue of a random check that is going on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo.answers import queueing, random_checks, ranking
from pu_geo.answers.random_checks import Check
from pu_geo.assessment import auditing, random_audits
from pu_geo.scenes import preparation, scene_pair
from pu_geo.store.layout import Layout
from pu_geo.store.queues import StoredQueue
from pu_geo.store.store import is_writable
from pu_geo.ui import frame
from pu_geo.ui.annotate import texts
from pu_geo.ui.components import figures
from pu_geo.ui.damage_map.texts import TAB_AUDIT

_SECONDS_BETWEEN_LOOKS = 2  # at whether the first ranking has ended
_STATE_PX = 44  # two lines
_BANNER_PX = {"audit": 74, "stop": 106}  # a line with buttons, and with a field below its name


@dataclass(frozen=True)
class QueueView:
    """The buildings to answer next, and what to do when they are done.

    Attributes:
        is_assessment: random checks are answered: nothing else can be labeled, and no scores are shown, as answers must not
            hang on them.
        advance: takes the id of the queue that is done.
    """

    queue: StoredQueue | None
    is_assessment: bool
    advance: Callable[[str], object]


def draw(layout: Layout, analyst: str, tools: DeltaGenerator, *, is_ranking: bool = False) -> QueueView | None:
    """Draw the controls of the queue into `tools`, and the banner of a check that the analyst takes part in; return the
    queue.

    None in a project that may not be changed: what is handed out is stored.

    Args:
        is_ranking: the first ranking goes on, so no new queue of the search is made: it would have to wait for it.
    """
    if not is_writable(layout):
        return None
    check = random_checks.open_check(layout)
    if check and random_audits.takes_part(layout, check, analyst):
        is_second = tools.toggle(texts.SECOND_READER, key="second-reader", help=texts.SECOND_READER_HELP)
        _banner(layout, check, analyst)
        return QueueView(
            queue=random_audits.check_queue(layout, analyst, check, is_second=is_second),
            is_assessment=True,
            advance=lambda done: random_audits.advance_check(layout, analyst, check, done=done, is_second=is_second),
        )
    with tools:
        _settings(layout, analyst, check or random_audits.unfinished_audit(layout))
    return QueueView(
        queue=queueing.stored(layout, analyst) if is_ranking else queueing.current(layout, analyst),
        is_assessment=False,
        advance=lambda done: queueing.advance(layout, analyst, done=done, mix=_mix()),
    )


def answer_checks_first(layout: Layout, analyst: str) -> None:
    """Draw nothing else on a page that shows scores and labels buildings while the analyst takes part in a check, but the
    way out of it.
    """
    check = random_checks.open_check(layout) if is_writable(layout) else None
    if check and random_audits.takes_part(layout, check, analyst):
        _banner(layout, check, analyst)
        st.info(texts.CHECKS_FIRST)
        frame.link("annotate", texts.TO_CHECKS)
        st.stop()


def place_of_state(line: DeltaGenerator) -> DeltaGenerator:
    """Return a place in a line of controls for how far a ranking is.

    It has its room whether something stands there or not: nothing that comes or goes moves the map under the pointer.
    """
    return line.container(height=_STATE_PX, border=False, vertical_alignment="center", key="ranking-state")


def wait(now: Callable[[], tuple[str, str] | None]) -> None:
    """Draw how far something is and what that means, again and again; once that is None, the whole page is drawn anew."""

    @st.fragment(run_every=_SECONDS_BETWEEN_LOOKS)
    def waiting() -> None:
        if (found := now()) is None:
            st.rerun()
        st.caption(f":material/hourglass_top: {found[0]}", help=found[1])

    waiting()


def wait_for_ranking(layout: Layout, n_chips: int) -> None:
    """Draw that the first ranking goes on; once it has ended, the whole page is drawn anew."""
    words = texts.RANKING.format(n=n_chips), texts.RANKING_HELP
    wait(lambda: words if ranking.is_ranking(layout, 0) else None)


def wait_for_the_rest(
    layout: Layout, score_id: str, part: str = texts.RANKED_PART, about: str = texts.RANKED_PART_HELP
) -> None:
    """Draw how many buildings are ranked so far in a ranking; once all are, the whole page is drawn anew. It starts no
    ranking.

    Args:
        part: how that is written, with the numbers {n} and {all}.
        about: what stands behind its question mark.
    """

    def words() -> tuple[str, str] | None:
        if (now := ranking.so_far(layout, score_id)) is None:
            return texts.RANKED_NO_MORE, texts.RANKED_NO_MORE_HELP
        so_far = part.format(n=now.n_ranked, all=now.n)
        so_far = texts.RANKED_FAILED.format(words=so_far, problem=now.problem) if now.problem else so_far
        return None if now.is_complete else (so_far, about)

    wait(words)


def progress(layout: Layout, tools: DeltaGenerator) -> None:
    """Draw into `tools` what opens how many are damaged by what is known, and how the search went."""
    popover = tools.popover(texts.PROGRESS, icon=":material/show_chart:", key="progress", on_change="rerun")
    if not popover.open:
        return
    estimate = auditing.how_many(layout)
    popover.caption(frame.plain(estimate.words))
    popover.caption(ranking.evidence_words(layout))
    for kinds in scene_pair.kinds(layout, preparation.chip_set_facts(layout)):
        popover.caption(frame.plain(f"{kinds.name}: {kinds.value}. {kinds.worry}"))
    answers, found = queueing.found_so_far(layout)
    points = [{"epoch": x, "found": y} for x, y in zip(answers, found, strict=True)]
    drawn = figures.lines(texts.CURVE_Y, points, {"found": texts.CURVE_NAME}, xaxis_title=texts.CURVE_X)
    for figure in drawn:
        if estimate.total.low is not None:
            figure.add_hrect(
                y0=estimate.total.low, y1=estimate.total.high, fillcolor=figures.BLUE, opacity=0.12, line_width=0
            )
    with popover:
        figures.draw(drawn, "found-so-far")


def _banner(layout: Layout, check: Check, analyst: str) -> None:
    """Draw how a check stands, the way out of it, and at its end the way to its result.

    All of it in a line of a fixed height: the map stands below, and nothing that an answer changes here moves it under the
    pointer.
    """
    leave = partial(random_audits.leave, layout, check.id, analyst, former=frame.former_names())
    label, leave_words = (
        (texts.LEAVE_STOP, texts.LEAVE_STOP_HELP) if check.purpose == "stop" else (texts.LEAVE, texts.LEAVE_HELP)
    )
    with st.container(
        key="check-banner", height=_BANNER_PX[check.purpose], border=True, horizontal=True, wrap=False,
        vertical_alignment="center", gap="medium",
    ):  # fmt: skip
        if check.purpose == "stop":
            at_most = st.number_input(texts.AT_MOST_LEFT, 0, 10_000, 5, key="at-most-left", width=230)
            view = random_audits.stop_view(layout, check, int(at_most))
            more = texts.STOP_MORE.format(n=view.n_more) if view.n_more else texts.STOP_ENOUGH
            words = texts.STOP.format(
                n=view.n_checked, damaged=view.n_damaged, state=texts.STOP_VOID if view.is_void else more
            )
            st.markdown(words, width="stretch", help=frame.plain(view.words))
        else:
            done = random_audits.answered(layout, check)
            has_gaps = done.n_answered > done.n_counted
            words = texts.AUDIT_DONE if not done.n_open else texts.AUDIT_GAPS if has_gaps else texts.AUDIT
            help_words = frame.plain(done.words) if done.n_open else texts.AUDIT_DONE_HELP
            st.markdown(
                words.format(done=done.n_answered, drawn=done.n_drawn, counted=done.n_counted),
                width="stretch",
                help=help_words,
            )
            if not done.n_open:
                st.button(
                    texts.SEE_RESULT, type="primary", icon=":material/arrow_forward:", key="check-result",
                    on_click=frame.goes("damage_map", partial(_leave_for_result, leave)),
                )  # fmt: skip
        frame.press(label, leave, icon=":material/logout:", help=leave_words, key="check-leave")
        _end(layout, check, analyst)


def _end(layout: Layout, check: Check, analyst: str) -> None:
    """Draw the button that ends a check for all, where others have not left it."""
    if others := random_audits.others_in(layout, check, analyst):
        frame.press(
            texts.END,
            partial(random_audits.end, layout, check.id),
            icon=":material/stop_circle:",
            help=texts.END_HELP.format(names=frame.plain(", ".join(others))),
            key="check-end",
        )


def _leave_for_result(leave: Callable[[], object]) -> None:
    leave()
    st.session_state["damage-tab"] = TAB_AUDIT


def _settings(layout: Layout, analyst: str, left: Check | None) -> None:
    """Draw what the queue is mixed of, and the way into a check.

    Args:
        left: the check that the analyst can go back to.
    """
    with st.popover(texts.QUEUE, icon=":material/tune:", help=texts.QUEUE_HELP):
        default = queueing.DEFAULT_MIX
        shares = {
            kind: st.slider(title, 0, 100, round(100 * getattr(default, kind)), 5, "%d %%", key=f"mix-{kind}", help=words)
            for kind, (title, words) in texts.KINDS.items()
        }
        if not any(shares.values()):
            st.caption(texts.ALL_ZERO)
        st.caption(texts.MIX)
        if left is not None:
            resume = partial(random_audits.resume, layout, left.id, analyst)
            label = texts.RESUME_STOP if left.purpose == "stop" else texts.RESUME
            frame.press(label, resume, icon=":material/fact_check:", key="check-resume")
            _end(layout, left, analyst)
        if left is None or not left.is_open:
            begin = partial(random_audits.begin_stop_check, layout, analyst)
            frame.press(texts.BEGIN_STOP, begin, icon=":material/fact_check:", help=texts.BEGIN_STOP_HELP)


def _mix() -> queueing.Mix:
    """Return the mix as the sliders have it now; a click on the map comes before they are drawn again."""
    shares = {kind: st.session_state.get(f"mix-{kind}", 0) for kind in texts.KINDS}
    return queueing.Mix(**shares) if any(shares.values()) else queueing.DEFAULT_MIX
