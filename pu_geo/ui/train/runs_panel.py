"""Finished runs: all in a table, two side by side (orange is A, blue is B), and the model card of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pu_geo import wording
from pu_geo.assessment import auditing
from pu_geo.maps import run_card
from pu_geo.methods import catalog
from pu_geo.records import RunFacts
from pu_geo.runs import comparing, results, training
from pu_geo.runs.comparing import Comparison, Disagreement, MapPoints, Side
from pu_geo.scenes import pictures
from pu_geo.store import chosen as choices
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, figures, remove_dialog
from pu_geo.ui.train import texts

_CHIP_PX = 72
_NONE = "—"
COLORS = {"A": "#D55E00", "B": "#0072B2"}
_STYLES = [(COLORS["A"], "solid"), (COLORS["B"], "dot")]
_SCALE = [[0, COLORS["B"]], [0.5, "#E6E6E6"], [1, COLORS["A"]]]
_MOST_WARNINGS, _LONGEST_WARNING = 5, 400  # of a run; one that was imported may hold any number and length
_TABLE_PX, _ROW_PX = 215, 35
_FILES = {"html": ("HTML", "text/html"), "md": ("Markdown", "text/markdown"), "json": ("JSON", "application/json")}


def draw_results(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw all finished runs, which of them is shown on all screens, and what one should know of that one and the newest."""
    rows = results.table(layout, found)
    st.dataframe(
        [
            {
                **{title: getattr(row, field) for title, (field, _, _) in texts.RESULTS.items()},
                texts.SHOWN: texts.SHOWN_MARK if row.is_shown else "",
            }
            for row in rows
        ],
        hide_index=True, height=min(_TABLE_PX, _ROW_PX * (len(rows) + 1) + 2), alt=texts.RESULTS_ALT,
        column_config={
            title: st.column_config.Column(width=px, help=words) for title, (_, px, words) in texts.RESULTS.items()
        },
    )  # fmt: skip
    names = {row.run_id: row.name for row in rows}
    shown = next((row.run_id for row in rows if row.is_shown), found[0].run_id)
    with st.container(horizontal=True, gap="small"):
        with st.popover(texts.SHOWN_RUN.format(name=frame.plain(names[shown])), icon=":material/visibility:"):
            chosen.run_box(layout, found, "train-run")
        with st.popover(texts.RENAME, icon=":material/edit:", help=texts.RENAME_HELP):
            _rename(layout, found, shown)
        with st.popover(texts.REMOVE, icon=":material/more_horiz:", key=remove_dialog.menu_key("runs-menu")):
            _remove(layout, found, shown)
    for run in (run for run in found if run is found[0] or run.run_id == shown):
        name = frame.plain(names[run.run_id])
        st.caption(texts.EVIDENCE.format(name=name, words=training.evidence_words(run)))
        for warning in run.warnings[:_MOST_WARNINGS]:
            st.caption(texts.WARNING_OF_RUN.format(name=name, words=frame.plain(str(warning)[:_LONGEST_WARNING])))
        if (n_more := len(run.warnings) - _MOST_WARNINGS) > 0:
            st.caption(texts.MORE_WARNINGS.format(name=name, n=wording.plural(n_more, "more warning")))


def _remove(layout: Layout, found: Sequence[RunFacts], shown: str) -> None:
    """Draw the choice of a run to be removed; the one that is shown comes last, and can be removed once another is shown."""
    names = run_names.names(layout)
    ids = sorted((run.run_id for run in found), key=lambda run_id: run_id == shown)
    run_id = st.selectbox(texts.RUN, ids, format_func=lambda run_id: names[run_id], key="run-to-remove")
    remove_dialog.button(layout, "run", run_id, key="remove-run", label=texts.REMOVE_RUN)


def _rename(layout: Layout, found: Sequence[RunFacts], shown: str) -> None:
    names, ids = run_names.names(layout), [run.run_id for run in found]
    run_id = st.selectbox(
        texts.RUN, ids, ids.index(shown), format_func=lambda run_id: names[run_id], key=f"rename-run-{shown}"
    )  # fmt: skip
    key = f"rename-{run_id}-{names[run_id]}"  # a new one, with the name as it is, once it has changed
    st.text_input(texts.NEW_NAME, names[run_id], max_chars=run_names.LONGEST, key=key)
    frame.press(
        texts.SAVE_NAME,
        lambda: run_names.rename(layout, run_id, st.session_state[key]),
        key=f"rename-save-{run_id}",
        icon=":material/check:",
    )
    st.caption(texts.NAME_NOTE.format(run_id=run_id))


def draw_comparison(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the comparison of two runs; words for fewer than two."""
    if len(found) < 2:
        st.caption(texts.TOO_FEW_RUNS)
    else:
        _choose_and_compare(layout, found)


@st.fragment  # another choice does not draw the rest of the page anew
def _choose_and_compare(layout: Layout, found: Sequence[RunFacts]) -> None:
    pinned, by_id, names = choices.chosen_run(layout), {run.run_id: run for run in found}, run_names.names(layout)
    newest, *older = by_id
    both = []
    other = pinned.run_id if pinned and pinned.run_id in older else older[0]
    for name, usual, column in zip("AB", (newest, other), st.columns(2, gap="medium"), strict=True):
        key = f"compare-{name}"
        if st.session_state.get(key) not in by_id:  # at first, and in another project
            st.session_state[key] = usual
        label = texts.RUN_A_OR_B.format(name=name)
        both.append(column.selectbox(label, list(by_id), format_func=lambda run_id: names[run_id], key=key))
    with frame.show_errors():
        compared = comparing.compare(layout, *both)
        table, words = st.columns([3, 2], gap="medium")
        with table:
            _table(compared)
        with words:
            lines = [f"- {frame.plain(one)}" for one in comparing.agreement_words(compared)]
            st.markdown("\n".join([f"**{texts.AGREEMENT}**", "", *lines]))
        has_called = auditing.how_many(layout).basis in ("all", "audit")
        both_curves = curves([comparing.curve(layout, side.facts.run_id) for side in compared.sides], has_called=has_called)
        if not both_curves:
            st.caption(texts.NO_CURVES)
        figures.draw(both_curves, "compare")
        _draw_disagreement(layout, compared)


_ROWS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    (texts.ROW_METHOD, lambda side: catalog.title(side.facts.method)),
    (texts.ROW_PRESET, lambda side: f"{side.facts.preset}, {side.facts.seed}"),
    (texts.ROW_LABELS, lambda side: texts.MODEL_FROM_ELSEWHERE if side.facts.from_model else
     texts.LEARNED_FROM.format(n=side.facts.n_positive)),
    (texts.ROW_TIME, lambda side: f"{wording.duration(side.facts.seconds)}, {side.facts.device}"),
    (texts.ROW_THRESHOLD, lambda side: f"{side.facts.threshold:.3f}"),
    (texts.ROW_PLACE, lambda side: training.place_words(side.facts) or _NONE),
    (texts.ROW_CRITERION, comparing.criterion_words),
    (texts.ROW_PRECISION, lambda side: _audited(side, "precision")),
    (texts.ROW_RECALL, lambda side: _audited(side, "recall")),
)  # fmt: skip


def _table(found: Comparison) -> None:
    lines = ["| | A | B |", "|---|---|---|"]
    for title, words_of in _ROWS if found.check else _ROWS[:-2]:
        lines.append(f"| {title} | " + " | ".join(frame.plain(words_of(side)) for side in found.sides) + " |")
    st.markdown("\n".join(lines))
    st.caption(f"{frame.plain(found.clicks.words)} {texts.OWN_THRESHOLD} {texts.AUDITED[found.check is not None]}")


def _audited(side: Side, name: str) -> str:
    return _NONE if side.audited is None else wording.interval_of(vars(getattr(side.audited, name)))


def _draw_disagreement(layout: Layout, found: Comparison) -> None:
    st.markdown(f"**{texts.DISAGREE}**")
    chips, where = st.columns([3, 2], gap="medium")
    higher, lower = comparing.most_disagreeing(layout, found)
    with chips:
        _chips(layout, found.sides[0].facts, texts.A_HIGH, higher)
        _chips(layout, found.sides[0].facts, texts.B_HIGH, lower)
        st.caption(texts.DISAGREE_NOTE)
    with where:
        figures.draw_map(map_of(comparing.map_points(layout, found)), "compare-map")


def _chips(layout: Layout, run: RunFacts, title: str, rows: Sequence[Disagreement]) -> None:
    st.caption(f"{title}{'' if rows else texts.NOWHERE}")
    if rows:
        images = pictures.of_run(layout, run.run_id, [row.building_id for row in rows])
        captions = [f"{row.places[0]:,} | {row.places[1]:,}{' +' if row.label == 'positive' else ''}" for row in rows]
        st.image(images, width=_CHIP_PX, caption=captions)


# Figures


def curves(reports: Sequence[Sequence[Mapping[str, Any]]], *, has_called: bool = False) -> list[go.Figure]:
    """Draw the losses of two runs, and the shares that they call damaged, where they report them.

    Losses of different methods have no common scale, so each is drawn in units of its first value.

    Args:
        reports: of A and of B, an epoch each: {"epoch", "epochs", "loss", "share_positive"?, "stage"?}.
        has_called: draw these shares; before an audit there is nothing to hold them against.
    """
    points: list[dict[str, Any]] = []
    for name, each in zip("AB", reports, strict=True):
        found = [one for one in each if one.get("stage") in (None, "training") and one.get("loss") is not None]
        for one in found:
            done, first = one["epoch"] / (one.get("epochs") or found[-1]["epoch"] or 1), abs(found[0]["loss"]) or 1.0
            called = one.get("share_positive") if has_called else None
            points.append({"epoch": done, "epochs": 1, f"loss {name}": one["loss"] / first, f"share {name}": called})
    return [
        figure
        for what, title, axis in (("loss", texts.LOSS_AXIS, {}), ("share", texts.CALLED_AXIS, figures.SHARES))
        for figure in figures.lines(
            title, points, {f"{what} {name}": name for name in COLORS}, styles=_STYLES,
            yaxis=axis, xaxis_tickformat=".0%", xaxis_title=texts.DONE_AXIS, showlegend=True,
        )
    ]  # fmt: skip


def map_of(points: MapPoints) -> go.Figure:
    """Draw buildings as dots in grid pixels, y down, colored by how much higher A ranks them than B."""
    bar = {
        "title": "", "thickness": 10, "tickvals": [-points.most, 0, points.most],
        "ticktext": [texts.B_HIGHER, texts.SAME, texts.A_HIGHER],
    }  # fmt: skip
    marker = {
        "color": points.difference, "colorscale": _SCALE, "cmin": -points.most, "cmax": points.most, "colorbar": bar,
    }  # fmt: skip
    return figures.dots([{"x": points.x, "y": points.y, "hovertemplate": texts.DIFFERENCE, "marker": marker}])


# Model card


def draw_card(layout: Layout, found: Sequence[RunFacts]) -> None:
    """Draw the choice of a run, its model card, and three buttons that download it, once there are runs."""
    st.caption(texts.CARD_NOTE)
    if not found:
        return
    ids, shown = [run.run_id for run in found], choices.chosen_run(layout)
    usual = ids.index(shown.run_id) if shown and shown.run_id in ids else 0
    names = run_names.names(layout)
    run = st.selectbox(texts.RUN, list(found), usual, format_func=lambda run: names[run.run_id], key="run-card-run")
    card = run_card.card(layout, run.run_id)
    row = st.container(horizontal=True)
    for suffix, (name, kind) in _FILES.items():
        row.download_button(
            texts.DOWNLOAD.format(kind=name),
            run_card.WRITERS[suffix](card),
            f"{run.run_id}-card.{suffix}",
            kind,
            key=f"run-card-{suffix}",
            icon=":material/download:",
            on_click="ignore",
        )
    with st.container(border=True, height=520):
        st.markdown(run_card.as_markdown(card, level=4))
