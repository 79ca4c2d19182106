"""The damage types of a run's map: how many buildings have each, its threshold, its ranking, and what the audit says of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo.maps import damage_map, damage_types, thresholds
from pu_geo.maps.damage_map import DamageMap
from pu_geo.maps.damage_types import TypeAudit, TypeOnMap, TypesOnMap
from pu_geo.records import RunFacts
from pu_geo.store import chosen as choices
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen
from pu_geo.ui.damage_map import texts
from pu_geo.ui.damage_map.threshold_panel import share_words

_MOST_NAMED = 3  # runs


def color_of(stored: str, found: TypesOnMap) -> str:
    """Return what the map is colored by: what people chose; by category where they chose types, and the run has none."""
    return "category" if stored == "types" and not found.types else stored


def note(layout: Layout, runs: Sequence[RunFacts], found: TypesOnMap) -> str:
    """Return which of the runs score damage types, where the one that is shown does not; "" where it does, or none of them
    does.
    """
    others = [run_names.name(layout, run.run_id) for run in runs if run.types][:_MOST_NAMED]
    return "" if found.types or not others else texts.NO_TYPES_HERE.format(names="; ".join(others))


def draw(run_id: str, shown: DamageMap) -> None:
    """Draw a part for each type of a run's map."""
    found, judged = shown.types, shown.type_audits
    st.caption(frame.plain(found.rule))
    if not judged:
        st.caption(texts.TYPES_NOT_AUDITED)
    for k, one in enumerate(found.types):
        with st.container(border=True):
            _draw_type(run_id, shown, one, judged.get(one.name), k)


def _draw_type(run_id: str, shown: DamageMap, one: TypeOnMap, judged: TypeAudit | None, k: int) -> None:
    counts, controls = st.columns(2, gap="medium")
    with counts:
        st.markdown(f"**{frame.plain(one.name)}**")
        st.metric(texts.TYPE_YES, f"{one.n_by_people + one.n_by_score:,}")
        st.caption(
            texts.TYPE_COUNTS.format(people=one.n_by_people, score=one.n_by_score, unknown=one.states.count("unknown"))
        )
        if judged is not None and one.threshold is not None:
            _audit(judged)
    with controls:
        _threshold(run_id, shown, one, k)
    st.caption(frame.plain(one.words))  # beneath both: a column of a narrow screen would have three words a line


def _audit(judged: TypeAudit) -> None:
    """Draw precision and recall with their intervals, or why there is none."""
    for title, share in ((texts.PRECISION_AT, judged.precision), (texts.RECALL_AT, judged.recall)):
        if share.is_enough:
            st.markdown(f"{title} **{share_words(share)}**", help=texts.INTERVALS)
        else:
            st.caption(f"{title}: {texts.NOT_ENOUGH}. {frame.plain(share.words.removeprefix(texts.NOT_ENOUGH_PREFIX))}")
    frame.caption(judged.words)


def _threshold(run_id: str, shown: DamageMap, one: TypeOnMap, k: int) -> None:
    """Draw how many reach the threshold of the type and the threshold that this means: either sets the other."""
    n, layout = one.n_undecided, shown.layout
    if n > 1:

        def top(k: int) -> None:
            thresholds.choose_type_top(damage_map.of_run(layout, run_id), one.name, k)

        st.slider(
            texts.TYPE_TOP.format(n=n), min(one.n_above, 1), n, help=texts.TYPE_TOP_HELP,
            **chosen.shows(f"type-top-{run_id}-{k}", one.n_above, top),
        )  # fmt: skip

    def choose(value: float | None) -> None:
        if value is not None:
            damage_types.choose_threshold(layout, run_id, one.name, value)

    limit = None if one.threshold is None else one.threshold.value
    st.number_input(
        texts.THRESHOLD, 0.0, 1.0, step=0.001, format="%.4f", help=texts.TYPE_THRESHOLD_HELP,
        placeholder=texts.TYPE_NO_THRESHOLD, **chosen.shows(f"type-threshold-{run_id}-{k}", limit, choose),
    )  # fmt: skip
    if one.threshold is not None and not choices.of_start(one.threshold.origin):
        forget = partial(damage_types.forget_threshold, layout, run_id, one.name)
        frame.press(texts.TYPE_START, forget, key=f"type-start-{run_id}-{k}", help=texts.TYPE_START_HELP)
