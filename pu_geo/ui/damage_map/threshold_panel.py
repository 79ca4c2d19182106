"""The controls in the title bar of the damage map: run, threshold, accuracy and scenes, each behind a button that shows its
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo import wording
from pu_geo.assessment import auditing
from pu_geo.assessment.auditing import Estimate
from pu_geo.errors import ProjectError
from pu_geo.maps import damage_map, thresholds
from pu_geo.maps.damage_map import DamageMap
from pu_geo.records import RunFacts
from pu_geo.store import chosen as choices
from pu_geo.store import run_names
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import chosen
from pu_geo.ui.damage_map import texts

_MOST_DOUBTS = 3


def draw(layout: Layout, runs: Sequence[RunFacts]) -> tuple[str, DamageMap]:
    """Draw them; return the run that is shown, and its map."""
    run_id = (choices.chosen_run(layout) or runs[0]).run_id
    try:
        shown = damage_map.of_run(layout, run_id)
    except ProjectError:
        chosen.run_box(layout, runs, "damage-run")  # another run may be whole
        raise
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", key="map-controls", horizontal_alignment="right"
    ):
        title = texts.RUN.format(name=frame.plain(run_names.name(layout, run_id)))
        with st.popover(title, icon=":material/model_training:"):
            chosen.run_box(layout, runs, "damage-run")
        flagged = texts.FLAGGED.format(flagged=shown.n["flagged"])
        with st.popover(flagged, icon=":material/tune:"):
            _threshold(run_id, shown)
        _audit(run_id, shown)
        if shown.sites:
            with st.popover(wording.plural(len(shown.sites), "site"), icon=":material/place:", help=texts.SITES_HELP):
                st.dataframe(shown.sites, column_config=damage_map.SITE_COLUMNS, hide_index=True)
        _scenes(shown)
    return run_id, shown


def newer(layout: Layout, runs: Sequence[RunFacts], run_id: str) -> None:
    """Draw that a newer run than the shown one learned from more damaged labels, and the button that shows it."""
    newest, here = runs[0], next(run for run in runs if run.run_id == run_id)
    if newest.n_positive <= here.n_positive:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="newer-run"):
        name = frame.plain(run_names.name(layout, newest.run_id))
        st.caption(texts.NEWER.format(name=name, n=newest.n_positive, here=here.n_positive), width="content")
        show = partial(choices.choose_run, layout, newest.run_id)
        frame.press(texts.SHOW_NEWER, show, key=f"show-{newest.run_id}", type="tertiary")


def _threshold(run_id: str, shown: DamageMap) -> None:
    """Draw how many buildings are flagged and the threshold that this means: either sets the other."""
    n_flagged, n_open, limit = shown.n["flagged"], shown.n_open, shown.limit
    st.number_input(
        texts.TOP, 0, max(n_open, 1), step=1, disabled=not n_open, help=texts.TOP_HELP,
        **chosen.shows(f"top-{run_id}", n_flagged, partial(thresholds.choose_top, shown.layout, run_id)),
    )  # fmt: skip
    st.number_input(
        texts.THRESHOLD, 0.0, 1.0, step=0.001, format="%.4f", help=texts.THRESHOLD_HELP,
        **chosen.shows(f"threshold-{run_id}", limit.value, partial(choices.choose_threshold, shown.layout, run_id)),
    )  # fmt: skip
    st.caption(texts.BASIS.format(threshold=limit.value, basis=frame.plain(choices.basis_words(limit.origin))))
    wanted = thresholds.wanted_of(limit.origin)
    if wanted is not None and wanted != n_flagged:
        st.caption(texts.FEWER.format(k=wanted, n=n_flagged))


def _audit(run_id: str, shown: DamageMap) -> None:
    """Draw precision and recall of the map, or that nobody assessed it."""
    here, found = shown.at, shown.audit
    if here is None or found is None:
        st.badge(
            texts.NOT_AUDITED,
            icon=":material/help:",
            color="gray",
            help=frame.plain(auditing.how_many(shown.layout).words_beside(run_id)),
        )
        return
    shares = [(texts.PRECISION, here.precision), (texts.RECALL, here.recall)]
    known = [words.format(share=share_words(share)) for words, share in shares if share.is_enough]
    for words in known:
        st.badge(words, color="blue", help=texts.INTERVALS)
    if not known or found.done.n_open:
        open_words = texts.AUDIT_OPEN.format(done=found.done.n_answered, drawn=found.done.n_drawn)
        st.badge(open_words, color="gray", help=frame.plain(found.done.words))


def share_words(share: Estimate) -> str:
    """Return a share with its interval; that there is not enough where it has none."""
    return wording.interval_of({**vars(share), "words": texts.NOT_ENOUGH})


def _scenes(shown: DamageMap) -> None:
    """Draw what the run finds in each scene, and where that is doubtful."""
    rows, doubtful = shown.scenes, [row for row in shown.scenes if row.doubt]
    if len(rows) < 2 and not doubtful:
        return
    icon = ":material/visibility_off:" if doubtful else ":material/satellite_alt:"
    with st.popover(texts.scenes(len(rows), len(doubtful)), icon=icon, help=texts.SCENES_HELP):
        for row in doubtful[:_MOST_DOUBTS]:
            st.warning(frame.plain(row.doubt), icon=":material/visibility_off:")
        said = {"scene_id": texts.NO_SCENE, "doubt": texts.NO_DOUBT}
        values = [{**vars(row), **{name: getattr(row, name) or words for name, words in said.items()}} for row in rows]
        st.dataframe(
            [{title: each[name] for name, title in texts.SCENE_COLUMNS.items()} for each in values],
            hide_index=True, width="content",
            column_config={texts.SCENE_COLUMNS["flag_rate"]: st.column_config.NumberColumn(format="percent")},
        )  # fmt: skip
