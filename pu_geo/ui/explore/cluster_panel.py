"""The PUPL inspector: the clusters of a run, what is in them, and what people decide about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.explore import clusters, exploring
from pu_geo.services.explore.clusters import Cluster, Inspected, OnMap
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

_CHIP_PX, _N_CHIPS = 64, 8
_TABLE_PX, _ROW_PX = 330, 35
_SURE = 0.5
_KINDS: dict[str, clusters.Kind] = {"Two means (PUPL)": "two", "Many small clusters": "many"}
_MARKS = {"": "", "accepted": "accepted", "partly": "partly accepted", "rejected": "rejected"}
_NONE = "—"


def draw(layout: Layout, run_id: str) -> None:
    """Draw the inspector of a run, and the job that clusters it."""
    is_busy = job_card.watch_unless_done(layout, clusters.CLUSTER_TASKS)
    with frame.show_errors():
        _next_run(layout)
        chosen = st.segmented_control("Clusters", list(_KINDS), default="Many small clusters", key="cluster-kind")
        kind = _KINDS[chosen or "Many small clusters"]
        if kind == "many" or not clusters.is_clustered(layout, run_id):
            _start(layout, run_id, is_busy)
        if kind == "many" and not clusters.is_clustered(layout, run_id):
            st.info("Small clusters can follow damage where two means follow roofs. Start the clustering to see them.")
            return
        _inspected(layout, run_id, clusters.inspect(layout, run_id, kind))


def _next_run(layout: Layout) -> None:
    """Draw what the next run learns from, and the button that takes the last decision back."""
    found = clusters.next_run(layout)
    words, button = st.columns([4, 1], vertical_alignment="center")
    overruled = f" ({found.n_overruled:,} more were answered by people, whose answers count)" if found.n_overruled else ""
    words.markdown(f"**{found.words.capitalize()}**{overruled}")
    effect = clusters.effect(layout) if found.n_accepted else None
    if effect is not None:
        words.caption(f"With them the instant ranker keeps {effect.n_kept} of its {effect.n} highest unanswered buildings.")
    past = clusters.history(layout)
    help_words = f"Takes back: {past[0].words}" if past else "Nothing was decided about clusters."
    button.button(
        "Undo", key="cluster-undo", icon=":material/undo:", disabled=not past, help=frame.plain(help_words),
        on_click=frame.does(lambda: clusters.undo(layout, past[0].decision, analyst=frame.analyst())),  # what is shown now
    )  # fmt: skip


def _start(layout: Layout, run_id: str, is_busy: bool) -> None:
    number, go = st.columns([1, 3], vertical_alignment="bottom")
    number.number_input("Number of clusters", 0, 500, 0, key="cluster-k", help="0 takes one for 30 buildings, 60 at most.")
    label = "Cluster again" if clusters.is_clustered(layout, run_id) else "Start clustering"
    go.button(
        label, key="cluster-start", icon=":material/bubble_chart:", disabled=is_busy,
        on_click=frame.does(lambda: clusters.start(layout, run_id, k=int(st.session_state["cluster-k"]))),
    )  # fmt: skip


def _inspected(layout: Layout, run_id: str, found: Inspected) -> None:
    if found.kind == "two":
        _two_means(found)
    table, figure = st.columns([7, 3], gap="medium")
    with table:
        chosen = _table(found)
    with figure:
        st.plotly_chart(
            map_of(clusters.on_map(layout, found, chosen.name)),
            key="cluster-map",
            config={"displaylogo": False, "scrollZoom": True},
        )
    _one(layout, run_id, found, chosen)


def _two_means(found: Inspected) -> None:
    """Draw what is known of two means: the orientation check, the potential, and how single seeds ended."""
    if found.is_oriented is False:
        st.error("Orientation check failed: the positives do not lean to their cluster. Do not trust these two clusters.")
    elif found.is_oriented:
        st.success("Orientation check passed: the positives lean to their cluster more than the unlabeled do.")
    if found.n_near is not None and found.n_kept:
        later = f" {found.n_later:,} came later, and lie where they lie." if found.n_later else ""
        st.caption(
            f"PUPL kept all {found.n_kept:,} positives that it was told of in their cluster; {found.n_near:,} of them also lie "
            "nearer to it. Where these are few, the two clusters follow something else than damage, whatever the check "
            f"says.{later}"
        )
    if not found.seeds:
        st.caption("As the run stored them. Start the clustering to see their potential, and how other seeds end.")
        return
    percent = partial(st.column_config.NumberColumn, format="percent")
    with st.expander(f"Potential {found.potential:.4g}, the lowest of {len(found.seeds)} seeds"):
        st.dataframe(
            list(found.seeds), hide_index=True, column_config={
                "potential": st.column_config.NumberColumn(format="%.4g"), "oriented": "orientation check passed",
                "iterations": "passes", "share": percent("share in the positives' cluster"), "agrees": percent("same labels"),
                "is_chosen": "chosen",
            },
        )  # fmt: skip


def _table(found: Inspected) -> Cluster:
    """Draw all clusters, those with the largest share of clicks first; return the one that is chosen."""
    rows = [
        {
            "cluster": one.name, "decided": _MARKS[one.state], "buildings": one.size, "positives": one.n_positive,
            "clicked": 100 * one.n_positive / one.size, "damaged": None if one.damaged is None else 100 * one.damaged, "interval": _NONE if one.low is None or one.high is None else f"{100 * one.low:.0f} to {100 * one.high:.0f} %",
            "spread": one.spread[1], "score": one.mean_score, "comes again": one.stability,
        }
        for one in found.clusters
    ]  # fmt: skip
    event = st.dataframe(
        rows, key=f"cluster-table-{found.clustering}", on_select="rerun", selection_mode="single-row", hide_index=True,
        height=min(_TABLE_PX, _ROW_PX * (len(rows) + 1) + 2), column_config={
            "clicked": st.column_config.NumberColumn(format="%.0f %%", help="Positives among its buildings"),
            "damaged": st.column_config.ProgressColumn(
                min_value=0.0, max_value=100.0, format="%.0f %%", help="Estimate from where the clicks lie", width="small"
            ),
            "interval": st.column_config.TextColumn(help="95 % interval of the estimate"),
            "spread": st.column_config.NumberColumn(format="%.2f", help="Middle cosine distance to its center, 0 to 2"),
            "score": st.column_config.NumberColumn(format="%.2f", help="Mean score of the run"),
            "comes again": st.column_config.NumberColumn(format="%.2f", help="How well other seeds find it again, 0 to 1"),
        },
    )  # fmt: skip
    st.caption(
        "How much of a cluster is damaged is estimated once random checks say how much there is in all. It takes the clicks for an even draw of the damage: a cluster with a tenth of the clicks holds a tenth of "
        "it. Where only the worst was clicked, it misses the rest. Choose a row to look at its chips."
    )
    chosen = event["selection"]["rows"]
    return found.clusters[chosen[0] if chosen and chosen[0] < len(found.clusters) else 0]


def _one(layout: Layout, run_id: str, found: Inspected, chosen: Cluster) -> None:
    state = f" · :violet-badge[{_MARKS[chosen.state]}]" if chosen.state else ""
    low, middle, high = chosen.spread
    counts = f"{chosen.size:,} buildings, {chosen.n_positive} positive, {chosen.n_not_damaged} not damaged"
    st.markdown(f"**Cluster {frame.plain(chosen.name)}**{state} · {counts} · distances {low:.2f}, {middle:.2f}, {high:.2f}")
    _buttons(layout, run_id, found, chosen)
    if chosen.low is not None and chosen.low < _SURE and chosen.state == "":
        st.caption(
            f"It may be as little as {chosen.low:.0%} damaged. Accept it only if nearly all of its chips look damaged: undamaged "
            "ones that are learned as damage make the next run worse."
        )
    rows = clusters.examples(layout, run_id, found, chosen.name, _N_CHIPS)
    titles = {"Center": rows.center, "Border": rows.border, "Highest scores": rows.highest}
    for title, each, column in zip(titles, titles.values(), st.columns(3), strict=True):
        column.caption(title)
        ids = [found.ids[row] for row in each]
        column.image(exploring.chip_pictures(layout, run_id, ids), width=_CHIP_PX)


def _buttons(layout: Layout, run_id: str, found: Inspected, chosen: Cluster) -> None:
    def button(label: str, icon: str, is_off: bool, words: str, act: Callable[..., object], *more: object) -> None:
        st.button(
            label, key=f"cluster-{act.__name__}", icon=f":material/{icon}:", disabled=is_off, help=words,
            on_click=frame.does(partial(act, layout, run_id, found, chosen.name, *more, analyst=frame.analyst())),
        )  # fmt: skip

    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = (
            "Its unlabeled buildings count as positives in the next run. They get no label, and are in no count or export."
        )
        is_off = chosen.n_open == 0 or chosen.state == "accepted"
        button(f"Accept ({chosen.n_open:,})", "check", is_off, words, clusters.accept)
        words = "It is not damage; nothing is labeled by this."
        button("Reject", "close", chosen.state == "rejected", words, clusters.reject)
        button("Split", "call_split", chosen.size < 2, "In two, by two means within it.", clusters.split)
        others = [one.name for one in found.clusters if one.name != chosen.name]
        other = st.selectbox(
            "Merge with", others, index=None, key=f"merge-with-{chosen.name}", placeholder="another cluster", width=180
        )
        button("Merge", "call_merge", other is None, "Makes one cluster of both.", clusters.merge, other)


COLOR, OTHERS = "#CC79A7", "#C8C8C8"
_MANY = 5000


def map_of(found: OnMap) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down."""
    figure = go.Figure()
    size = 3 if len(found.own) + len(found.others) > _MANY else 6
    for name, xy, color in (("other buildings", found.others, OTHERS), ("this cluster", found.own, COLOR)):
        marker = {"size": size, "color": color}
        figure.add_scattergl(x=xy[:, 0], y=xy[:, 1], mode="markers", name=name, hoverinfo="skip", marker=marker)
    figure.update_layout(
        height=300, margin={"l": 0, "r": 0, "t": 8, "b": 0}, dragmode="pan", xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed", "scaleanchor": "x"}, legend={"orientation": "h"},
    )  # fmt: skip
    return figure
