"""The selection on the Explore page: label it, queue it, save it under a name, load it again, export it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

import streamlit as st

from pu_geo import wording
from pu_geo.answers import labeling, queueing
from pu_geo.explore import selections
from pu_geo.lifecycle import projects
from pu_geo.maps import exporting
from pu_geo.records import Label
from pu_geo.store.decisions import Decision
from pu_geo.store.layout import Layout
from pu_geo.ui import frame
from pu_geo.ui.components import job_card
from pu_geo.ui.explore import texts
from pu_geo.wording import LABEL_WORDS, plural

_MOST_SHOWN = 30


def view_key(layout: Layout) -> str:
    """Return the key of the view on Explore; what is selected in one project says nothing of another one."""
    return f"explore-{projects.token_of(layout)}"


def selected(key: str) -> list[str]:
    """Return the buildings that are selected in the view `key`."""
    return list(st.session_state.get(f"{key}:selected", ()))


def shown_group(key: str) -> Sequence[str]:
    """Return the buildings of the cluster that was chosen in the view `key`, as long as they and no others are selected."""
    group = st.session_state.get(f"{key}:group") or ()
    return group if set(group) == set(selected(key)) else ()


def select(key: str, building_ids: Sequence[str]) -> None:
    """Select buildings in the view `key`, as a click on a saved selection does. For callbacks, before the view is drawn."""
    st.session_state[f"{key}:selected"] = list(building_ids)
    st.session_state[f"{key}:load"] = uuid.uuid4().hex


def draw(layout: Layout, run_id: str, key: str) -> None:
    """Draw what is selected and what can be done with it, and the saved selections.

    Args:
        run_id: of the run that an exported selection is a part of the damage map of; nothing is exported if "".
        key: of the view, as given to `project_view`.
    """
    ids, saved = selected(key), selections.saved(layout)
    st.markdown(f"**{texts.SELECTED.format(n=plural(len(ids), 'building'))}**")
    if ids:
        frame.caption(selections.on_the_ground(layout, ids))
        _acts(layout, ids)
        with st.form(f"{key}:saving", border=False):
            st.text_input(texts.SAVE_AS, key=f"{key}:name", placeholder=texts.SAVE_AS_EXAMPLE, help=texts.SAVE_AS_HELP)
            st.form_submit_button(
                texts.SAVE.format(n=plural(len(ids), "building")), icon=":material/bookmark_add:",
                on_click=frame.does(partial(_save, layout, run_id, key, ids)), key=f"{key}:save",
            )  # fmt: skip
    else:
        st.caption(texts.NOTHING_SELECTED)
    st.markdown(texts.SAVED.format(n=len(saved)))
    _list(layout, run_id, key, saved)
    name, decision = st.session_state.get(f"{key}:changed") or ("", 0)
    if name:
        frame.press(
            frame.plain(texts.PUT_BACK.format(name=wording.shortened(name, 24))),
            partial(_put_back, layout, key, name, decision), icon=":material/undo:", key=f"{key}:put-back",
        )  # fmt: skip
    job_card.watch(layout, "selection", body=_exported)


def _acts(layout: Layout, ids: list[str]) -> None:
    """Draw buttons that label all that is selected in one act, and that queue what is open of it."""
    which = f"{frame.digest(ids)}-{labeling.newest_event(layout)}"

    def label(wanted: Label) -> None:
        n = labeling.label_all(layout, ids, wanted, analyst=frame.analyst(), screen="explore")
        st.toast(texts.LABELED.format(n=plural(n, "building")))

    def queue() -> None:
        n = queueing.put_first(layout, frame.analyst(), ids, texts.QUEUED_WHY)
        st.toast(texts.QUEUED.format(n=plural(n, "building")))

    with st.container(horizontal=True, gap="small"):
        for wanted in ("positive", "not_damaged", "not_assessable"):
            words = LABEL_WORDS[wanted].capitalize()
            frame.press(words, partial(label, wanted), key=f"selection-{wanted}-{which}", once=True)
        frame.press(texts.QUEUE, queue, key=f"selection-queue-{which}", once=True, help=texts.QUEUE_HELP)


def _list(layout: Layout, run_id: str, key: str, saved: list[Decision]) -> None:
    for each in saved[:_MOST_SHOWN]:
        name, analyst = frame.plain(each.name), frame.plain(each.analyst)
        st.markdown(
            texts.SAVED_ROW.format(
                name=name, n=len(each.facts["building_ids"]), analyst=analyst, day=wording.when(each.at[:10])
            )
        )
        row = f"{key}:{each.decision}"
        with st.container(horizontal=True, gap="small"):
            st.button(texts.SELECT, type="tertiary", key=f"{row}:load", help=texts.SELECT_HELP,
                      on_click=frame.does(partial(select, key, each.facts["building_ids"])))  # fmt: skip
            st.button(texts.EXPORT, type="tertiary", key=f"{row}:export", help=texts.EXPORT_HELP, disabled=not run_id,
                      on_click=frame.does(partial(exporting.start_selection, layout, run_id, each.name)))  # fmt: skip
            st.button(texts.REMOVE, type="tertiary", key=f"{row}:remove", help=texts.REMOVE_HELP,
                      on_click=frame.does(partial(_remove, layout, key, each.name)))  # fmt: skip
    if len(saved) > _MOST_SHOWN:
        st.caption(texts.NEWEST.format(most=_MOST_SHOWN, n=len(saved)))


def _save(layout: Layout, run_id: str, key: str, ids: list[str]) -> None:
    name = str(st.session_state[f"{key}:name"])
    replaced = selections.save(layout, name, ids, run_id=run_id, analyst=frame.analyst())
    st.session_state[f"{key}:name"] = ""
    st.session_state[f"{key}:changed"] = (name.strip(), replaced) if replaced else None


def _remove(layout: Layout, key: str, name: str) -> None:
    st.session_state[f"{key}:changed"] = name, selections.remove(layout, name, analyst=frame.analyst())


def _put_back(layout: Layout, key: str, name: str, decision: int) -> None:
    selections.put_back(layout, name, decision=decision, analyst=frame.analyst())
    st.session_state[f"{key}:changed"] = None


def _exported(job: job_card.JobView) -> None:
    if job.state == "done":
        st.caption(
            f"{texts.EXPORTED.format(name=frame.plain(job.result['name']), n=job.result['n'])}  \n"
            + "  \n".join(f"`{path}`" for path in job.result["out"])
        )
