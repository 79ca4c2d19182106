"""Where a run's result is doubtful, scene by scene."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pu_geo.services.damage_map.mapping import SceneRow

MOST_SHOWN = 3


def draw(rows: Sequence[SceneRow]) -> None:
    """Draw the doubts, and a table of all scenes where there are several."""
    doubtful = [row for row in rows if row.doubt]
    for row in doubtful[:MOST_SHOWN]:
        st.warning(row.doubt, icon=":material/visibility_off:")
    if len(rows) < 2:
        return
    more = f", {len(doubtful)} doubtful" if doubtful else ""
    with st.expander(f"{len(rows)} scenes{more}"):
        st.dataframe(
            [
                {
                    "Scene": row.scene_id or "no scene",
                    "Buildings": row.n,
                    "Assessed": row.n_assessed,
                    "Damaged, answered": row.n_damaged,
                    "Not damaged, answered": row.n_not_damaged,
                    "Flagged": row.n_flagged,
                    "Flag rate": None if row.flag_rate is None else f"{row.flag_rate:.1%}",
                    "Doubt": row.doubt or "none",
                }
                for row in rows
            ],
            hide_index=True,
        )
