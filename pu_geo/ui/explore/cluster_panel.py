"""The PUPL inspector: the clusters of a run, what is in them, and what people decide about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from pu_geo import jobs
from pu_geo.explore import actions as cluster_actions
from pu_geo.explore import clusters, umap_picture
from pu_geo.explore.clusters import Cluster, Inspected
from pu_geo.jobs.actions import limits
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import figures, job_card
from pu_geo.ui.explore import texts

_CHIP_PX, _N_CHIPS = 64, 8
_TABLE_PX, _ROW_PX = 330, 35
_SURE = 0.5
_KINDS: dict[str, clusters.Kind] = {texts.TWO: "two", texts.MANY: "many"}
_NONE = "—"


def draw(layout: Layout, run_id: str) -> None:
    """Draw the inspector of a run, and the job that clusters it."""
    is_busy = job_card.is_busy(layout, "clusters")
    with frame.show_errors():
        _next_run(layout)
        chosen = st.segmented_control(texts.KIND, list(_KINDS), default=texts.MANY, key="cluster-kind")
        kind = _KINDS[chosen or texts.MANY]
        if kind == "many" or not clusters.is_clustered(layout, run_id):
            _start(layout, run_id, is_busy)
            job_card.watch_unless_done(layout, "clusters")
        if kind == "many" and not clusters.is_clustered(layout, run_id):
            st.info(texts.NO_CLUSTERS)
            return
        _inspected(layout, run_id, clusters.inspect(layout, run_id, kind))


def _next_run(layout: Layout) -> None:
    """Draw what the next run learns from, and the button that takes the last decision back."""
    found = clusters.next_run(layout)
    overruled = texts.OVERRULED.format(n=found.n_overruled) if found.n_overruled else ""
    st.markdown(f"**{found.words.capitalize()}**{overruled}")
    number, past = clusters.newest(layout) or (0, "")
    help_words = texts.TAKES_BACK.format(words=past) if past else texts.NOTHING_DECIDED
    st.button(
        texts.UNDO, key=f"cluster-undo-{number or ''}", icon=":material/undo:", disabled=not past,
        help=frame.plain(help_words),
        on_click=frame.does(lambda: clusters.undo(layout, number, analyst=frame.analyst()), once=True),
    )  # fmt: skip


def _start(layout: Layout, run_id: str, is_busy: bool) -> None:
    number, go = st.columns(2, vertical_alignment="bottom")
    number.number_input(
        texts.NUMBER, value=0, key="cluster-k", help=texts.NUMBER_HELP, **limits(cluster_actions.Cluster, "k")
    )
    label = texts.CLUSTER_AGAIN if clusters.is_clustered(layout, run_id) else texts.START_CLUSTERING
    frame.press(
        label,
        lambda: jobs.start(layout, cluster_actions.Cluster(int(st.session_state["cluster-k"]), run=run_id)),
        key="cluster-start",
        icon=":material/bubble_chart:",
        disabled=is_busy,
        place=go,
    )


def _inspected(layout: Layout, run_id: str, found: Inspected) -> None:
    if found.kind == "two":
        _two_means(found)
    chosen = _table(found)
    _one(layout, run_id, found, chosen)
    figures.draw_map(map_of(*clusters.on_map(layout, found, chosen.name)), "cluster-map")


def _two_means(found: Inspected) -> None:
    """Draw what is known of two means: the orientation check, and the potential."""
    if found.is_oriented is False:
        st.error(texts.NOT_ORIENTED)
    elif found.is_oriented:
        st.success(texts.ORIENTED)
    if found.n_near is not None and found.n_kept:
        later = texts.LATER_ONES.format(n=found.n_later) if found.n_later else ""
        st.caption(texts.KEPT.format(kept=found.n_kept, near=found.n_near, later=later))
    if found.potential is not None:
        st.caption(texts.POTENTIAL.format(potential=found.potential))


def _table(found: Inspected) -> Cluster:
    """Draw all clusters, those with the largest share of clicks first; return the one that is chosen.

    It stays chosen when answers sort the table anew, also the first one, which is chosen at the start: the buttons below act
    on it.
    """
    names = [one.name for one in found.clusters]
    kept, table = f"cluster-chosen-{found.clustering}", f"cluster-table-{found.clustering}-{frame.digest(names)}"
    if st.session_state.get(kept) not in names:
        st.session_state[kept] = names[0]

    def choose() -> None:
        if (event := st.session_state.get(table)) and (chosen := event["selection"]["rows"]):
            st.session_state[kept] = names[chosen[0]]

    rows = [
        {
            texts.C_NAME: texts.called(one.name),
            texts.C_STATE: texts.MARKS[one.state],
            texts.C_SIZE: one.size,
            texts.C_DAMAGED: one.n_positive,
            texts.C_LABELED: 100 * one.n_positive / one.size,
            texts.C_ESTIMATE: None if one.damaged is None else 100 * one.damaged,
            texts.C_INTERVAL: _NONE
            if one.low is None or one.high is None
            else f"{100 * one.low:.0f}–{100 * one.high:.0f} %",
            texts.C_SPREAD: one.spread[1],
            texts.C_SCORE: one.mean_score,
            texts.C_STABLE: one.stability,
        }
        for one in found.clusters
    ]
    number, c = st.column_config.NumberColumn, texts.C_HELP
    st.dataframe(
        rows, key=table, on_select=choose, selection_mode="single-row-required", hide_index=True,
        selection_default={"selection": {"rows": [names.index(st.session_state[kept])]}},
        height=min(_TABLE_PX, _ROW_PX * (len(rows) + 1) + 2), column_config={
            texts.C_LABELED: number(format="%.0f %%", help=c[texts.C_LABELED]),
            texts.C_ESTIMATE: st.column_config.ProgressColumn(
                min_value=0.0, max_value=100.0, format="%.0f %%", help=c[texts.C_ESTIMATE], width="small"
            ),
            texts.C_INTERVAL: st.column_config.TextColumn(help=c[texts.C_INTERVAL]),
            **{name: number(format="%.2f", help=c[name]) for name in (texts.C_SPREAD, texts.C_SCORE, texts.C_STABLE)},
        },
    )  # fmt: skip
    st.caption(texts.TABLE_NOTE)
    return found.clusters[names.index(st.session_state[kept])]


def _one(layout: Layout, run_id: str, found: Inspected, chosen: Cluster) -> None:
    state = f" · :violet-badge[{texts.MARKS[chosen.state]}]" if chosen.state else ""
    low, middle, high = chosen.spread
    st.markdown(texts.CLUSTER_LINE.format(
        name=frame.plain(texts.called(chosen.name)), state=state, size=chosen.size, damaged=chosen.n_positive,
        not_damaged=chosen.n_not_damaged, low=low, middle=middle, high=high,
    ))  # fmt: skip
    _buttons(layout, run_id, found, chosen)
    if chosen.low is not None and chosen.low < _SURE and chosen.state == "":
        st.caption(texts.MAY_BE_LITTLE.format(low=chosen.low))
    rows = clusters.examples(layout, run_id, found, chosen.name, _N_CHIPS)
    for title, each in zip(texts.EXAMPLES, (rows.center, rows.border, rows.highest), strict=True):
        st.caption(title)
        ids = [found.ids[row] for row in each]
        st.image(umap_picture.chip_pictures(layout, run_id, ids), width=_CHIP_PX)


def _buttons(layout: Layout, run_id: str, found: Inspected, chosen: Cluster) -> None:
    which = f"{found.clustering}-{chosen.name}"

    def button(label: str, icon: str, is_off: bool, words: str, act: Callable[..., object]) -> None:
        frame.press(
            label,
            partial(act, layout, run_id, found, chosen.name, analyst=frame.analyst()),
            key=f"cluster-{act.__name__}-{which}",
            icon=f":material/{icon}:",
            disabled=is_off,
            help=words,
            once=True,
        )

    with st.container(horizontal=True, vertical_alignment="bottom"):
        is_off = chosen.n_open == 0 or chosen.state == "accepted"
        button(texts.ACCEPT.format(n=chosen.n_open), "check", is_off, texts.ACCEPT_HELP, clusters.accept)
        button(texts.REJECT, "close", chosen.state == "rejected", texts.REJECT_HELP, clusters.reject)
        button(texts.SPLIT, "call_split", chosen.size < 2, texts.SPLIT_HELP, clusters.split)
        others = [one.name for one in found.clusters if one.name != chosen.name]
        other_key = f"merge-with-{chosen.name}"
        other = st.selectbox(
            texts.MERGE_WITH, others, index=None, key=other_key, placeholder=texts.MERGE_WITH_EXAMPLE, width=180
        )

        def merge() -> None:
            """Merge with the cluster that is chosen at the click; the one drawn last may be an earlier choice."""
            if with_which := st.session_state.get(other_key):
                clusters.merge(layout, run_id, found, chosen.name, with_which, analyst=frame.analyst())

        frame.press(
            texts.MERGE,
            merge,
            key=f"cluster-merge-{which}",
            icon=":material/call_merge:",
            disabled=other is None,
            help=texts.MERGE_HELP,
            once=True,
        )


COLOR, OTHERS = "#CC79A7", "#C8C8C8"


def map_of(own: NDArray[np.float32], others: NDArray[np.float32]) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down."""
    return figures.dots(
        [
            {"x": xy[:, 0], "y": xy[:, 1], "name": name, "hoverinfo": "skip", "marker_color": color}
            for name, xy, color in ((texts.OTHER_BUILDINGS, others, OTHERS), (texts.THIS_CLUSTER, own, COLOR))
        ]
    )
