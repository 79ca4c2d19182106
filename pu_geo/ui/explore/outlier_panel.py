"""The review queue of odd ones: review one after the other, confirm it or change its label; none comes back."""

from __future__ import annotations

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import Label
from pu_geo.services.annotate import labeling
from pu_geo.services.explore import exploring, outliers
from pu_geo.services.explore.outliers import Suspect
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

_CHIP_PX = 160
_TITLES = {"wrong click": "A click that looks undamaged", "isolated": "Unlike any other", "duplicate": "Perhaps there twice"}
_ANSWERS: tuple[tuple[str, Label, str], ...] = (
    ("Positive", "positive", ":material/add:"),
    ("Not damaged", "not_damaged", ":material/remove:"),
    ("Not assessable", "not_assessable", ":material/question_mark:"),
    ("No label", "cleared", ":material/backspace:"),
)


def draw(layout: Layout, run_id: str) -> None:
    """Draw the queue of a run, and the job that finds isolated chips and duplicates."""
    is_busy = job_card.watch_unless_done(layout, outliers.OUTLIER_TASKS)
    with frame.show_errors():
        found = outliers.queue(layout, run_id)
        words, button, back = st.columns([4, 2, 1], vertical_alignment="center")
        counts = {why: sum(each.why == why for each in found) for why in _TITLES}
        words.markdown(
            f"**{len(found)} to look at**: {counts['wrong click']} clicks that look undamaged to a model, "
            f"{counts['duplicate']} duplicates, {counts['isolated']} chips unlike any other"
        )
        label = "Look again" if outliers.is_searched(layout, run_id) else "Look for odd chips and duplicates"
        button.button(
            label, key="outliers-start", icon=":material/manage_search:", disabled=is_busy,
            on_click=frame.does(lambda: outliers.start(layout, run_id)),
        )  # fmt: skip
        if back.button(
            "Undo", key="outliers-undo", icon=":material/undo:", help="Takes back your last review, and its label."
        ):
            frame.act_and_rerun(lambda: outliers.undo(layout, analyst=frame.analyst()))
        if not found:
            st.success("Nothing is left to look at.", icon=":material/check_circle:")
            return
        _one(layout, run_id, found)


def _one(layout: Layout, run_id: str, found: list[Suspect]) -> None:
    place = int(st.session_state.get("outliers-place", 0)) % len(found)
    suspect, answers = found[place], labeling.current_labels(layout)
    with st.container(border=True):
        st.markdown(f"**{_TITLES[suspect.why]}** · {place + 1} of {len(found)}")
        st.caption(frame.plain(suspect.words))
        pictures = exploring.chip_pictures(layout, run_id, suspect.building_ids)
        labels = [str(answers.get(building, "no label")).replace("_", " ") for building in suspect.building_ids]
        st.image(
            pictures, width=_CHIP_PX,
            caption=[f"{frame.plain(one)}: {label}" for one, label in zip(suspect.building_ids, labels, strict=True)],
        )  # fmt: skip
        _buttons(layout, suspect, place, set(labels))


def _buttons(layout: Layout, suspect: Suspect, place: int, labels: set[str]) -> None:
    def review(label: Label | None) -> None:
        frame.act_and_rerun(lambda: outliers.review(layout, suspect, label, analyst=frame.analyst()))

    with st.container(horizontal=True):
        if st.button("Right as it is", key="outliers-confirm", icon=":material/check:", type="primary"):
            review(None)
        for words, label, icon in _ANSWERS:
            is_so = labels == {label.replace("_", " ")} or (label == "cleared" and labels == {"no label"})
            if not is_so and st.button(words, key=f"outliers-{label}", icon=icon):
                review(label)
        if st.button("Later", key="outliers-next", icon=":material/skip_next:"):
            st.session_state["outliers-place"] = place + 1
            st.rerun()
