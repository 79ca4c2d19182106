"""The cards of the methods on the Train page: what each is and needs, its form, how long it took here, and its start."""

from __future__ import annotations

from dataclasses import fields

import streamlit as st

from pu_geo.project import training_times
from pu_geo.project.layout import RCF, Layout
from pu_geo.services.imagery import features
from pu_geo.services.imagery.features import FeatureSets
from pu_geo.services.train import training
from pu_geo.services.train.training import DataSummary, TrainingRequest
from pu_geo.ui import frame

_CARDS_A_ROW = 3
_LONG_S = 3600.0
_FIGURES_HELP = (
    "AUC: chance that a damaged building scores above an undamaged one. AP: how pure the top of the list is. Methods "
    "were tuned while looking at these events, so expect less on yours. All figures: docs/tables.md."
)


def draw(layout: Layout, data: DataSummary) -> None:
    """Draw the cards by group; the first group is open."""
    known = features.overview(layout)
    if known.note:
        st.warning(frame.plain(known.note), icon=":material/warning:")
    elif known.in_use != RCF:
        used = next(one for one in known.sets if one.name == known.in_use)
        st.caption(f"Features in use: {frame.plain(features.words_of(used.name, used.maker))}.")
    for number, (heading, cards) in enumerate(training.cards_by_group().items()):
        if cards and (number == 0 or st.toggle(heading, key=f"group-{number}")):
            columns = st.columns(min(max(len(cards), 2), _CARDS_A_ROW), gap="medium")
            for place, card in enumerate(cards):
                with columns[place % len(columns)].container(border=True):
                    _card(layout, card, data, known)


def _card(layout: Layout, card: training.MethodCard, data: DataSummary, known: FeatureSets) -> None:
    badge = " :blue-badge[Recommended]" if card.name == training.DEFAULT_METHOD else ""
    st.markdown(f"**{card.title}**{badge}")
    st.caption(card.summary)
    with st.expander("Details and settings"):
        st.caption(f"Source: {card.paper}  \nNeeds: {card.needs}  \nCannot: {card.cannot}")
        if lines := training.figures_of(card.name):
            heading = "Reached with quick, AUC / AP, the instant ranker's in brackets:\n\n"
            st.caption(heading + "\n".join(f"- {line}" for line in lines), help=_FIGURES_HELP)
        preset = st.selectbox("Preset", list(card.presets), key=f"preset-{card.name}")
        seed = st.number_input("Seed", 0, 10_000, 0, key=f"seed-{card.name}")
        hold_out, feature_set = _hold_out_field(card, data.n_positive), _features_field(card, preset, known)
        types_from = None
        if card.uses_types:
            types_from = st.selectbox(
                "Kind of damage", training.type_fields(layout), index=None, key=f"types-{card.name}",
                placeholder="one kind for all", help="Attribute of the footprints that names it; read for your positives alone.",
            )  # fmt: skip
        changed = _settings(card, preset)
    if data.n_chips and not changed:
        words = f"Preset {preset}: {training_times.words(card.name, preset, data.n_chips)}."
        expected = training_times.expected_seconds(card.name, preset, data.n_chips)
        if expected and expected[1] > _LONG_S:
            st.warning(words, icon=":material/hourglass_top:")
        else:
            st.caption(f":material/schedule: {words}")
    reason = training.why_not(layout, card.name, hold_out)
    if reason:
        st.caption(f":orange[{reason}]")
    label = f"Train {training.name_within(card.name).split(' + PUPL')[0]}"
    if st.button(label, type="primary", disabled=reason is not None, key=f"start-{card.name}"):
        frame.act_and_rerun(
            lambda: training.start(
                layout, TrainingRequest(card.name, preset, int(seed), changed, types_from, hold_out, feature_set)
            )
        )


def _features_field(card: training.MethodCard, preset: str, known: FeatureSets) -> str:
    """Draw the field for the features to learn from, where there are several; return a name, or "" for the set in use."""
    if len(known.sets) < 2 or training.settings_for(card.name, preset).backbone != "features":
        return ""
    given = st.selectbox(
        "Features", known.names, index=known.names.index(known.in_use), key=f"features-{card.name}-{known.in_use}",
        help="What the chips are described by. Other sets are listed, and one is chosen for all, on the Imagery page.",
    )  # fmt: skip
    return "" if given == known.in_use else str(given)


def _hold_out_field(card: training.MethodCard, n_positive: int) -> int:
    """Draw the field for the positives that a training shall not learn from; return how many."""
    most = max(n_positive - card.min_positives, 0)
    proposed = min(training.proposed_hold_out(n_positive), most)
    given = st.number_input(
        "Held-out clicks", 0, most, proposed, key=f"hold-out-{card.name}-{n_positive}",
        help="Positives that this training does not learn from. They tell how much damage it finds that it was not shown; "
        "it takes 10 to judge. Below 50 positives each one teaches more than it judges, so none is proposed.",
    )  # fmt: skip
    return int(given)


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
