"""Selections on the Explore page: save what is selected under a name, load it again, download it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo.project.layout import Layout
from pu_geo.services.explore import selections
from pu_geo.services.project import projects
from pu_geo.ui import frame
from pu_geo.ui.components import job_card

_MOST_SHOWN = 30


def view_key(layout: Layout) -> str:
    """Return the key of the view on Explore; what is selected in one project says nothing of another one."""
    return f"explore-{projects.token_of(layout)}"


def selected(key: str) -> list[str]:
    """Return the buildings that are selected in the view `key`."""
    return list(st.session_state.get(f"{key}:selected", ()))


def clicked(key: str) -> list[str]:
    """Return the building that was clicked last in the view `key`, as a list; empty where none was, or nobody asked."""
    one = st.session_state.get(f"{key}:focus")
    return [one] if one else []


def select(key: str, building_ids: Sequence[str]) -> None:
    """Select buildings in the view `key`, as a click on a saved selection does. For callbacks, before the view is drawn."""
    st.session_state[f"{key}:selected"] = list(building_ids)
    st.session_state[f"{key}:load"] = uuid.uuid4().hex


def draw(layout: Layout, run_id: str, key: str) -> None:
    """Draw the line below the view: what is selected, to be saved or exported, and the selections saved so far.

    Args:
        key: of the view, as given to `project_view`.
    """
    ids, saved = selected(key), selections.saved(layout)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with (
            st.form(f"{key}:saving", border=False, width="content"),
            st.container(horizontal=True, vertical_alignment="bottom"),
        ):
            words = "A name that is known replaces what was saved under it; that can be put back."
            st.text_input("Save the selection as", key=f"{key}:name", placeholder="collapsed roofs", width=260, help=words)
            st.form_submit_button(
                f"Save {len(ids):,} buildings" if ids else "Save", icon=":material/bookmark_add:", disabled=not ids,
                on_click=frame.does(partial(_save, layout, run_id, key, ids)), key=f"{key}:save",
            )  # fmt: skip
        st.download_button(
            "CSV", partial(selections.as_csv, layout, run_id, ids), "selection.csv", "text/csv", disabled=not ids,
            icon=":material/download:", on_click="ignore", key=f"{key}:csv", help="Ids, labels, scores and ranks, at once.",
        )  # fmt: skip
        with st.popover(f"Saved selections ({len(saved)})", icon=":material/bookmarks:"):
            _list(layout, run_id, key, saved)
        name, decision = st.session_state.get(f"{key}:changed") or ("", 0)
        if name:
            words = f"Put back {name[:24]}{'…' if len(name) > 24 else ''}"
            st.button(frame.plain(words), icon=":material/undo:", key=f"{key}:put-back",
                      on_click=frame.does(partial(_put_back, layout, key, name, decision)))  # fmt: skip
    job_card.watch(layout, (selections.TASK,), body=_exported)


def _list(layout: Layout, run_id: str, key: str, saved: list[selections.Selection]) -> None:
    if not saved:
        st.caption("Nothing was saved yet.")
    for each in saved[:_MOST_SHOWN]:
        words, load, export, remove = st.columns([6, 2, 2, 2], vertical_alignment="center")
        words.markdown(f"**{frame.plain(each.name)}** · {each.n:,} · :gray[{frame.plain(each.analyst)}, {each.at[:10]}]")
        row = f"{key}:{each.decision}"
        load.button("Select", type="tertiary", key=f"{row}:load", help="Select these buildings",
                    on_click=frame.does(partial(_load, layout, key, each.name)))  # fmt: skip
        export.button("Export", type="tertiary", key=f"{row}:export", help="Write CSV and GeoJSON with all columns of the damage map into exports/selections",
                      on_click=frame.does(partial(selections.start_export, layout, run_id, each.name)))  # fmt: skip
        remove.button("Remove", type="tertiary", key=f"{row}:remove", help="Remove; can be put back",
                      on_click=frame.does(partial(_remove, layout, key, each.name)))  # fmt: skip
    if len(saved) > _MOST_SHOWN:
        st.caption(f"The newest {_MOST_SHOWN} of {len(saved)} are shown.")


def _save(layout: Layout, run_id: str, key: str, ids: list[str]) -> None:
    name = str(st.session_state[f"{key}:name"])
    replaced = selections.save(layout, name, ids, run_id=run_id, analyst=frame.analyst())
    st.session_state[f"{key}:name"] = ""
    st.session_state[f"{key}:changed"] = (name.strip(), replaced) if replaced else None


def _load(layout: Layout, key: str, name: str) -> None:
    select(key, selections.buildings(layout, name))


def _remove(layout: Layout, key: str, name: str) -> None:
    st.session_state[f"{key}:changed"] = name, selections.remove(layout, name, analyst=frame.analyst())


def _put_back(layout: Layout, key: str, name: str, decision: int) -> None:
    selections.put_back(layout, name, decision=decision, analyst=frame.analyst())
    st.session_state[f"{key}:changed"] = None


def _exported(job: job_card.JobView) -> None:
    if job.state == "done":
        st.caption(
            f"{frame.plain(job.result['name'])}: {job.result['n']:,} buildings  \n"
            + "  \n".join(f"`{path}`" for path in job.result["out"])
        )
