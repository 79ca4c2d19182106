"""The review queue of odd ones: review one after the other, confirm it or change its label; none comes back."""

from __future__ import annotations

import streamlit as st

from pu_geo import jobs
from pu_geo.answers import labeling
from pu_geo.explore import outliers, umap_picture
from pu_geo.explore.actions import FindOutliers
from pu_geo.explore.outliers import Suspect
from pu_geo.records import Label
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.explore import texts
from pu_geo.wording import LABEL_WORDS

_CHIP_PX = 160
_TITLES = {"wrong click": texts.WRONG, "isolated": texts.ISOLATED, "duplicate": texts.DUPLICATE}
_ANSWERS: tuple[tuple[str, Label, str], ...] = (
    (texts.DAMAGED, "positive", ":material/add:"),
    (texts.NOT_DAMAGED, "not_damaged", ":material/remove:"),
    (texts.NOT_ASSESSABLE, "not_assessable", ":material/question_mark:"),
    (texts.NO_LABEL, "cleared", ":material/backspace:"),
)


def draw(layout: Layout, run_id: str) -> None:
    """Draw the queue of a run, and the job that finds isolated chips and duplicates."""
    is_busy = job_card.is_busy(layout, "outliers")
    with frame.show_errors():
        found = outliers.queue(layout, run_id)
        counts = {why: sum(each.why == why for each in found) for why in _TITLES}
        is_searched = outliers.is_searched(layout, run_id)
        if found:
            st.markdown(texts.TO_REVIEW.format(
                n=len(found), wrong=counts["wrong click"], duplicate=counts["duplicate"], isolated=counts["isolated"]
            ))  # fmt: skip
        with st.container(horizontal=True):
            frame.press(
                texts.SEARCH_AGAIN if is_searched else texts.SEARCH_OUTLIERS,
                lambda: jobs.start(layout, FindOutliers(run=run_id)),
                key="outliers-start",
                icon=":material/manage_search:",
                disabled=is_busy,
            )
            frame.press(
                texts.UNDO,
                lambda: outliers.undo(layout, analyst=frame.analyst()),
                key="outliers-undo",
                icon=":material/undo:",
                help=texts.UNDO_REVIEW_HELP,
            )
        job_card.watch_unless_done(layout, "outliers")
        if not found:
            if is_searched:
                st.success(texts.NOTHING_LEFT, icon=":material/check_circle:")
            else:
                st.info(texts.NO_SEARCH)
            return
        _one(layout, run_id, found)


def _one(layout: Layout, run_id: str, found: list[Suspect]) -> None:
    place = int(st.session_state.get("outliers-place", 0)) % len(found)
    suspect, answers = found[place], labeling.current_labels(layout)
    with st.container(border=True):
        st.markdown(texts.ONE_OF.format(title=_TITLES[suspect.why], place=place + 1, n=len(found)))
        frame.caption(suspect.words)
        pictures = umap_picture.chip_pictures(layout, run_id, suspect.building_ids)
        labels: list[Label] = [answers.get(building, "cleared") for building in suspect.building_ids]
        st.image(
            pictures, width=_CHIP_PX,
            caption=[LABEL_WORDS[label] for label in labels],
        )  # fmt: skip
        _buttons(layout, suspect, place, set(labels))


def _buttons(layout: Layout, suspect: Suspect, place: int, labels: set[Label]) -> None:
    def button(words: str, key: str, icon: str, label: Label | None) -> None:
        frame.press(
            words,
            lambda: outliers.review(layout, suspect, label, analyst=frame.analyst()),
            key=f"outliers-{key}-{suspect.key}",
            icon=icon,
            type="primary" if label is None else "secondary",
            once=True,
        )

    def later() -> None:
        st.session_state["outliers-place"] = place + 1

    with st.container(horizontal=True):
        button(texts.KEEP, "confirm", ":material/check:", None)
        for words, label, icon in _ANSWERS:
            if labels != {label}:
                button(words, label, icon, label)
        st.button(texts.LATER, key=f"outliers-next-{suspect.key}", icon=":material/skip_next:", on_click=later)
