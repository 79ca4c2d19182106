"""More like this: the chips most like the selected ones, with buttons to label all that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo.answers import labeling
from pu_geo.explore import neighbors, umap_picture
from pu_geo.explore.neighbors import Alike
from pu_geo.records import Label
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.explore import texts

_CHIP_PX = 84
_LABELS: tuple[tuple[str, Label, str], ...] = (
    (texts.MARK_DAMAGED, "positive", ":material/add:"),
    (texts.MARK_NOT_DAMAGED, "not_damaged", ":material/remove:"),
)
_SIGNS = {"positive": "+", "not_damaged": "o", "not_assessable": "?"}


def draw(layout: Layout, run_id: str, selected_ids: Sequence[str]) -> None:
    """Draw the chips most like the selected ones.

    Args:
        selected_ids: buildings; with none, people may name one.
    """
    named, count = st.columns(2, vertical_alignment="bottom")
    typed = named.text_input(
        texts.BUILDING, key="like-building", placeholder=texts.BUILDING_EXAMPLE, disabled=bool(selected_ids)
    )
    wanted = count.slider(texts.HOW_MANY, 6, 120, 24, 6, key="like-count")
    only = st.toggle(texts.ONLY_NOT_REVIEWED, True, key="like-unlabeled")
    chosen = list(selected_ids) or [word for word in (typed or "").replace(",", " ").split() if word]
    if not chosen:
        st.info(texts.NEIGHBORS_EMPTY, icon=":material/search:")
        return
    with frame.show_errors():
        found = neighbors.like(layout, run_id, chosen, count=wanted, only_unlabeled=only)
        one = texts.ONE_BUILDING.format(building=frame.plain(chosen[0]))
        what = texts.SELECTED_CHIPS.format(n=len(chosen)) if len(chosen) > 1 else one
        st.markdown(texts.MOST_SIMILAR.format(n=len(found), what=what))
        _buttons(layout, found)
        if found:
            pictures = umap_picture.chip_pictures(layout, run_id, [each.building_id for each in found])
            words = [f"{each.cosine:.2f} | {each.score:.2f} {_SIGNS.get(each.label, '')}".rstrip() for each in found]
            st.image(pictures, width=_CHIP_PX, caption=words)
            st.caption(texts.SIMILAR_NOTE)


def _buttons(layout: Layout, found: Sequence[Alike]) -> None:
    shown = frame.digest(each.building_id for each in found)
    with st.container(horizontal=True):
        for words, label, icon in _LABELS:
            ids = [each.building_id for each in found if each.label != label]
            frame.press(
                f"{words} ({len(ids)})",
                partial(_label, layout, ids, label),
                key=f"like-{label}-{shown}",
                icon=icon,
                disabled=not ids,
                once=True,
            )
        frame.press(
            texts.UNDO,
            lambda: neighbors.undo(layout, analyst=frame.analyst()),
            key="like-undo",
            icon=":material/undo:",
            help=texts.UNDO_LABELS_HELP,
        )


def _label(layout: Layout, ids: Sequence[str], label: Label) -> None:
    n = labeling.label_all(layout, ids, label, analyst=frame.analyst(), screen="explore")
    st.toast(texts.LABELED.format(n=n))
