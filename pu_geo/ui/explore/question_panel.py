"""The two questions: their buttons, and the line that says what is asked while its buildings fill the wall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from pu_geo.explore import questions
from pu_geo.explore.questions import Asked
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.explore import selection_panel, texts


def buttons(layout: Layout, run_id: str, key: str) -> None:
    """Draw both buttons; what is asked is then about the selection, else about all damaged ones.

    Args:
        run_id: of the run whose scores count; those of the live ranking if "".
        key: of the view.
    """

    def elsewhere() -> Asked:
        return questions.elsewhere(layout, selection_panel.selected(key), run=run_id)

    for words, about, icon, question in (
        (questions.ELSEWHERE, texts.ELSEWHERE_HELP, "travel_explore", elsewhere),
        (questions.WRONG, texts.WRONG_HELP, "fact_check", partial(questions.wrong, layout)),
    ):
        frame.button(words, partial(_ask, key, question), key=f"ask-{icon}", help=about, icon=f":material/{icon}:")


def _ask(key: str, question: Callable[[], Asked]) -> None:
    with frame.show_errors(is_callback=True), st.spinner(texts.ASKING):
        found = question()
        selection_panel.select(key, ())
        st.session_state[f"{key}:asked"], st.session_state[f"{key}:group"] = found, None


def asked(key: str) -> Asked | None:
    """Return what is asked in the view `key`; None where nothing is."""
    found: Asked | None = st.session_state.get(f"{key}:asked")
    return found


def line(key: str) -> bool:
    """Draw what is asked, and the button that closes it; return whether something is asked."""
    if (question := asked(key)) is None:
        return False
    words = texts.NOTHING_LEFT if not question.ids else texts.ASKED if question.shown else texts.ASKED_AGAIN

    def close() -> None:
        st.session_state[f"{key}:asked"] = None

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(words.format(title=question.title, n=len(question.ids)), width="content")
        st.button(texts.CLOSE, key="ask-close", icon=":material/close:", on_click=close, type="tertiary")
    return True
