"""The card of a run on the Train page: what it is and what nobody knows about it, to read and to hand on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import RunFacts
from pu_geo.services.project import choices
from pu_geo.services.train import run_card
from pu_geo.services.train.training import run_name
from pu_geo.ui import frame

_FILES: dict[str, tuple[str, str, Callable[[dict[str, object]], str]]] = {
    "HTML": ("html", "text/html", run_card.as_html),
    "Markdown": ("md", "text/markdown", run_card.as_markdown),
    "JSON": ("json", "application/json", lambda card: json.dumps(card, ensure_ascii=False, indent=1)),
}


def draw(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the choice of a run, its card, and three buttons that download it; nothing before there are runs.

    Args:
        found: the project's runs, newest first.
    """
    if not found:
        return
    with st.expander("Card of a run: data, labels, settings, judgement, limits", icon=":material/badge:"):
        if not st.toggle("Show the card", key="run-card-open"):
            st.caption(
                "One page to hand on with a map: what it was learned from, how it is judged, and what it cannot tell."
            )
            return
        ids, shown = [run.run_id for run in found], choices.chosen_run(layout)
        usual = ids.index(shown.run_id) if shown and shown.run_id in ids else 0
        run = st.selectbox("Run", list(found), usual, format_func=run_name, key="run-card-run")
        with frame.show_errors():
            card = run_card.card(layout, run.run_id)
            row = st.container(horizontal=True)
            for name, (suffix, kind, write) in _FILES.items():
                row.download_button(
                    f"Download {name}", write(card), f"{run.run_id}-card.{suffix}", kind, key=f"run-card-{suffix}",
                    icon=":material/download:", on_click="ignore",
                )  # fmt: skip
            with st.container(border=True, height=520):
                st.markdown(run_card.as_markdown(card, level=4))
