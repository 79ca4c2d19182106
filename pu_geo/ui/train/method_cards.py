"""The cards of the methods on the Train page: what each is and needs, its form, how long it takes, and its start."""

from __future__ import annotations

from dataclasses import fields

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.train import training
from pu_geo.ui import frame
from pu_geo.ui.train import live_panel, time_panel
from pu_geo.ui.train.time_panel import Times

_CARDS_A_ROW = 3


def draw(layout: Layout, n_positive: int) -> None:
    """Draw the cards by group; the first group is open.

    Args:
        n_positive: positives of the project now.
    """
    times = Times(layout)
    for number, (heading, cards) in enumerate(training.cards_by_group().items()):
        if cards and (number == 0 or st.toggle(heading, key=f"group-{number}")):
            columns = st.columns(min(max(len(cards), 2), _CARDS_A_ROW), gap="medium")
            for place, card in enumerate(cards):
                with columns[place % len(columns)].container(border=True):
                    _card(layout, card, times, n_positive)


def _card(layout: Layout, card: training.MethodCard, times: Times, n_positive: int) -> None:
    """Draw what a method is and needs, its form, and the button that starts it."""
    badge = " :blue-badge[Recommended]" if card.name == training.DEFAULT_METHOD else ""
    st.markdown(f"**{card.title}**{badge}")
    st.caption(card.summary)
    with st.expander("Details and settings"):
        st.caption(f"Source: {card.paper}  \nNeeds: {card.needs}  \nCannot: {card.cannot}")
        time_panel.figures(training.figures_of(card.name))
        preset = st.selectbox(
            "Preset", list(card.presets), key=f"preset-{card.name}", format_func=lambda name: times.preset_words(card, name)
        )
        seed = st.number_input("Seed", 0, 10_000, 0, key=f"seed-{card.name}")
        hold_out = live_panel.hold_out_field(card, n_positive)
        types_from = None
        if card.uses_types:
            types_from = st.selectbox(
                "Kind of damage", training.type_fields(layout), index=None, key=f"types-{card.name}",
                placeholder="one kind for all", help="Attribute of the footprints that names it; read for your positives alone.",
            )  # fmt: skip
        changed = _settings(card, preset)
    times.tell(card, preset, changed)
    reason = training.why_not(layout, card.name, hold_out)
    if reason:
        st.caption(f":orange[{reason}]")
    label = f"Train {training.name_within(card.name).split(' + PUPL')[0]}"
    if st.button(label, type="primary", disabled=reason is not None, key=f"start-{card.name}"):
        with frame.show_errors():
            training.start(
                layout, card.name, preset=preset, seed=int(seed), overrides=changed, types_from=types_from, hold_out=hold_out
            )
            st.rerun()


def _settings(card: training.MethodCard, preset: str) -> dict[str, str]:
    """Draw a field for each setting of a method; return those that differ from the preset, as text."""
    chosen = training.settings_for(card.name, preset)
    changed = {}
    for item in fields(chosen):
        value, key = getattr(chosen, item.name), f"set-{card.name}-{preset}-{item.name}"
        meta = item.metadata
        words = meta.get("help")
        if meta.get("choices"):
            given = st.selectbox(item.name, meta["choices"], index=meta["choices"].index(value), help=words, key=key)
        elif isinstance(value, bool):
            given = st.checkbox(item.name, value, help=words, key=key)
        else:
            bounds = f" ({meta.get('min')} to {meta.get('max')})" if meta.get("max") is not None else ""
            given = st.text_input(item.name, str(value), help=f"{words}{bounds}", key=key)
        if str(given) != str(value):
            changed[item.name] = str(given)
    return changed
