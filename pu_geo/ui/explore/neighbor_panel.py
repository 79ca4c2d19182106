"""More like this: the chips most like the selected ones, with buttons to label all that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.records import Label
from pu_geo.services.explore import exploring, neighbors
from pu_geo.services.explore.neighbors import Alike
from pu_geo.ui import frame

_CHIP_PX = 84
_LABELS: tuple[tuple[str, Label, str], ...] = (
    ("Mark all positive", "positive", ":material/add:"),
    ("Mark all not damaged", "not_damaged", ":material/remove:"),
)
_SIGNS = {"positive": "+", "not_damaged": "o", "not_assessable": "?"}


def draw(layout: Layout, run_id: str, selected_ids: Sequence[str]) -> None:
    """Draw the chips most like the selected ones.

    Args:
        selected_ids: buildings; with none, people may name one.
    """
    named, count, kind = st.columns([3, 2, 3], vertical_alignment="bottom")
    typed = named.text_input(
        "Building", key="like-building", placeholder="select chips above, or write an id", disabled=bool(selected_ids)
    )
    wanted = count.slider("How many", 6, 120, 24, 6, key="like-count")
    only = kind.toggle("Only without a label", True, key="like-unlabeled")
    chosen = list(selected_ids) or [word for word in (typed or "").replace(",", " ").split() if word]
    if not chosen:
        st.info("Select chips, or write the id of a building, to see the chips most like them.", icon=":material/search:")
        return
    with frame.show_errors():
        found = neighbors.like(layout, run_id, chosen, count=wanted, only_unlabeled=only)
        one = f"{len(chosen):,} selected chips" if len(chosen) > 1 else f"building {frame.plain(chosen[0])}"
        st.markdown(f"**{len(found)} chips most like {one}**")
        _buttons(layout, found)
        if found:
            pictures = exploring.chip_pictures(layout, run_id, [each.building_id for each in found])
            words = [f"{each.cosine:.2f} | {each.score:.2f} {_SIGNS.get(each.label, '')}".rstrip() for each in found]
            st.image(pictures, width=_CHIP_PX, caption=words)
            st.caption("Below each chip how like it is (cosine, 1 is the same) and its score; + positive, o not damaged.")


def _buttons(layout: Layout, found: Sequence[Alike]) -> None:
    with st.container(horizontal=True):
        for words, label, icon in _LABELS:
            ids = [each.building_id for each in found if each.label != label]
            st.button(
                f"{words} ({len(ids)})", key=f"like-{label}", icon=icon, disabled=not ids,
                on_click=frame.does(partial(_label, layout, ids, label)),
            )  # fmt: skip
        st.button(
            "Undo", key="like-undo", icon=":material/undo:", help="Takes back your last act of labeling.",
            on_click=frame.does(lambda: neighbors.undo(layout, analyst=frame.analyst())),
        )  # fmt: skip


def _label(layout: Layout, ids: Sequence[str], label: Label) -> None:
    n = neighbors.label_all(layout, ids, label, analyst=frame.analyst())
    st.toast(f"Labeled {n} buildings. Undo takes all of them back.")
