"""The cards of the methods: what each is, its settings, how long it took here, its start, and the progress of what was
started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

import streamlit as st

from pu_geo import jobs
from pu_geo.methods import catalog
from pu_geo.runs import training
from pu_geo.runs.actions import Train
from pu_geo.runs.training import DataSummary, TypeSource
from pu_geo.scenes import features
from pu_geo.scenes.features import FeatureSets
from pu_geo.store import feature_sets
from pu_geo.store.layout import RCF, Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.train import texts

_CARDS_A_ROW = 3
_SETTINGS_PX = 720
_COLUMNS_OF_SETTINGS = 3
_LONG_S = 3600.0


def draw_features(layout: Layout) -> None:
    """Draw which features are learned from, where they are no plain ones or lack."""
    known = features.overview(layout)
    if known.note:
        frame.warn(known.note)
    elif known.in_use != RCF:
        used = next(one for one in known.sets if one.name == known.in_use)
        st.caption(texts.FEATURES_IN_USE.format(features=frame.plain(features.words_of(used.name, used.maker))))


def draw(layout: Layout, data: DataSummary, *groups: str) -> None:
    """Draw the cards of some groups, each under its heading."""
    known = features.overview(layout)
    for group in groups:
        st.markdown(f"**{catalog.GROUPS[group]}** · :small[:gray[{texts.ABOUT_GROUP[group]}]]")
        cards = training.cards_of(group)
        columns = st.columns(min(len(cards), _CARDS_A_ROW), gap="small")
        sources = training.type_sources(layout) if any(card.uses_types for card in cards) else []
        for place, card in enumerate(cards):
            with columns[place % len(columns)].container(border=True, gap="small"):
                _card(layout, card, data, known, sources)


def draw_others(layout: Layout, *groups: str) -> None:
    """Draw the jobs that are at work for methods of no card drawn here."""
    drawn = {card.name for group in groups for card in training.cards_of(group)}
    job_card.watch(layout, "methods", only=lambda job: job.args.get("method") not in drawn, most=0)


def _card(
    layout: Layout, card: training.MethodCard, data: DataSummary, known: FeatureSets, sources: Sequence[TypeSource]
) -> None:
    is_recommended = card.name == training.DEFAULT_METHOD
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap=None):
        st.markdown(f"**{card.title}**", width="content")
        with st.popover("", icon=":material/info:", type="tertiary", help=texts.ABOUT.format(method=card.title)):
            _about(card)
    st.caption(card.summary)
    name = catalog.name_within(card.name).split(" + PUPL")[0]
    buttons = st.container(horizontal=True, gap="small")
    start, progress = buttons.container(width="content"), st.container()
    with buttons.popover(texts.SETTINGS, icon=":material/tune:", help=texts.SETTINGS_HELP.format(method=card.title)):
        given = _form(card, data, known, sources)
    if given["overrides"]:
        st.caption(texts.CHANGED.format(names=", ".join(_setting_words(each) for each in given["overrides"])))
    elif data.n_chips:
        _time(card, given["preset"], data.n_chips)
    if card.uses_types:
        chosen = next((one.title for one in sources if one.name == given["types_from"]), None)
        if chosen or any(one.is_enough for one in sources):
            st.caption(texts.TYPE_CHOSEN.format(source=frame.plain(chosen)) if chosen else texts.TYPE_UNUSED)
    reason = training.why_not(layout, card.name, given["hold_out"])
    if reason:
        st.caption(f":orange[{reason}]")
    frame.button(
        texts.TRAIN.format(method=name), lambda: jobs.start(layout, Train(**given)), key=f"start-{card.name}",
        place=start, type="primary" if is_recommended else "secondary", disabled=reason is not None,
    )  # fmt: skip
    with progress:
        job_card.watch(layout, "methods", only=lambda job: job.args.get("method") == card.name, most=0)


def _time(card: training.MethodCard, preset: str, n_chips: int) -> None:
    expected = training.expected_time(card, preset, n_chips)
    words = texts.PRESET_TIME.format(preset=preset, words=expected.words)
    if expected.most > _LONG_S:
        st.warning(words, icon=":material/hourglass_top:")
    else:
        st.caption(f":material/schedule: {words}")


def _about(card: training.MethodCard) -> None:
    with st.container(width=_SETTINGS_PX // 2):
        for text, words in ((texts.NEEDS, card.needs), (texts.LIMITS, card.cannot), (texts.SOURCE, card.paper)):
            st.markdown(text.format(words=words))
        if lines := training.figures_of(card.name):
            st.caption("\n".join([texts.REACHED, "", *(f"- {line}" for line in lines)]), help=texts.FIGURES_HELP)


def _form(card: training.MethodCard, data: DataSummary, known: FeatureSets, sources: Sequence[TypeSource]) -> dict[str, Any]:
    """Draw the settings of a method, grouped under headings; return what makes a `Train` of them."""
    with st.container(width=_SETTINGS_PX):
        first = st.columns(_COLUMNS_OF_SETTINGS, gap="small")
        times = {preset: training.expected_time(card, preset, data.n_chips).short for preset in card.presets}
        preset = first[0].selectbox(
            texts.PRESET, list(times), format_func=lambda preset: f"{preset} · {times[preset]}", key=f"preset-{card.name}"
        )
        with first[1]:
            hold_out = _hold_out_field(card, data.n_taught)
        seed = first[2].number_input(texts.SEED, 0, 10_000, 0, key=f"seed-{card.name}")
        feature_set, types_from = _features_field(card, preset, known), None
        if card.uses_types:
            types_from = _types_field(card, sources)
        changed = _settings(card, preset)
    return {
        "method": card.name, "preset": preset, "seed": int(seed), "overrides": changed, "types_from": types_from,
        "hold_out": hold_out, "feature_set": feature_set,
    }  # fmt: skip


def _types_field(card: training.MethodCard, known: Sequence[TypeSource]) -> str | None:
    """Draw the field for where damage types come from, with how many buildings have each; return its name."""
    sources = {one.name: one for one in known if one.is_enough}
    given = st.selectbox(
        texts.TYPE, list(sources), index=None, key=f"types-{card.name}", placeholder=texts.TYPE_PLACEHOLDER,
        format_func=lambda name: sources[name].title if name in sources else str(name), help=texts.TYPE_HELP,
    )  # fmt: skip
    if given in sources:
        frame.caption(sources[given].counts)
    elif not sources:
        st.caption(texts.TYPE_NONE)
    return given if given in sources else None


def _features_field(card: training.MethodCard, preset: str, known: FeatureSets) -> str:
    """Draw the field for the features to learn from, where there are several; return names, or "" for the usual."""
    if len(known.sets) < 2 or training.settings_for(card.name, preset).backbone != "features":
        return ""
    makers = {one.name: one.maker for one in known.sets}
    usual, most = [known.in_use], 1
    if card.averages_features:
        usual, most = feature_sets.to_average(known.sets, known.in_use), len(known.sets)
    given = st.multiselect(
        texts.FEATURES, known.names, usual, key=f"features-{card.name}-{known.in_use}", max_selections=most,
        format_func=lambda name: features.title_of(name, makers[name]),
        help=texts.FEATURES_HELP + (texts.FEATURES_AVERAGED if most > 1 else ""),
    )  # fmt: skip
    return "" if given == usual else ",".join(given)


def _hold_out_field(card: training.MethodCard, n_positive: int) -> int:
    """Draw the field for the damaged buildings that a training shall not learn from; return how many."""
    most = max(n_positive - card.min_positives, 0)
    proposed = min(training.proposed_hold_out(n_positive), most)
    given = st.number_input(
        texts.HOLD_OUT, 0, most, proposed, key=f"hold-out-{card.name}-{n_positive}", help=texts.HOLD_OUT_HELP
    )
    return int(given)


def _settings(card: training.MethodCard, preset: str) -> dict[str, str]:
    """Draw a field for each setting of a method by group; return those that differ from the preset, as text."""
    chosen = training.settings_for(card.name, preset)
    changed = {}
    for group in texts.GROUPS:
        members = [item for item in fields(chosen) if texts.SETTING_NAMES[item.name][0] == group]
        if not members:
            continue
        st.markdown(f"**{group}** :small[:gray[{texts.GROUP_NOTES[group]}]]")
        columns = st.columns(_COLUMNS_OF_SETTINGS, gap="small")
        for place, item in enumerate(members):
            value = getattr(chosen, item.name)
            with columns[place % len(columns)]:
                given = _setting(item, value, f"set-{card.name}-{preset}-{item.name}")
            if str(given) != str(value):
                changed[item.name] = str(given)
    return changed


def _setting(item: Field[Any], value: object, key: str) -> object:
    """Draw the field of one setting; return what it holds."""
    meta, label = item.metadata, _setting_words(item.name)
    words = texts.setting_help(meta.get("help", ""), item.name, meta.get("min"), meta.get("max"))
    if meta.get("choices"):
        return st.selectbox(label, meta["choices"], index=meta["choices"].index(value), help=words, key=key)
    if isinstance(value, bool):
        return st.checkbox(label, value, help=words, key=key)
    return st.text_input(label, str(value), help=words, key=key)


def _setting_words(name: str) -> str:
    return texts.SETTING_NAMES[name][1]
