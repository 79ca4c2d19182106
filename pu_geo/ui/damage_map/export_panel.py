"""Versions of the damage map: what the next one says is confirmed, then written; those that are there are read and
compared.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo import jobs, wording
from pu_geo.assessment import auditing
from pu_geo.lifecycle import projects
from pu_geo.maps import exporting
from pu_geo.maps.actions import Publish
from pu_geo.maps.damage_map import SITE_COLUMNS, DamageMap
from pu_geo.store import chosen as choices
from pu_geo.store import contents, run_names, store, versions
from pu_geo.store.layout import Layout
from pu_geo.store.population import CLASSES
from pu_geo.store.store import is_writable
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card, remove_dialog
from pu_geo.ui.damage_map import texts
from pu_geo.ui.routes import PREFIX

_MOST_VERSIONS, _MOST_ROWS, _MOST_CHANGES = 20, 5_000, 8
Versions = Sequence[Mapping[str, Any]]
_OPEN = "export-open"  # the visit of the screen in which the summary was opened and not closed again


def draw_action(place: DeltaGenerator, run_id: str, shown: DamageMap) -> None:
    """Draw the screen's main action into `place`, and what it opens: a summary to be confirmed."""
    place.button(
        texts.EXPORT, type="primary", icon=":material/download:", key="export", help=texts.EXPORT_HELP, on_click=_open
    )
    if _is_open():
        st.dialog(texts.EXPORT_TITLE, width="large", on_dismiss=_close)(_confirm)(run_id, shown)


def _open() -> None:
    st.session_state[_OPEN] = frame.visit()


def _close() -> None:
    st.session_state[_OPEN] = None


def _is_open() -> bool:
    return bool(st.session_state.get(_OPEN) == frame.visit())


def _confirm(run_id: str, shown: DamageMap) -> None:
    """Draw what the next version will say, and beside it its files and the button that writes it."""
    if not _is_open():
        st.rerun()
    layout, number, threshold = shown.layout, versions.next_number(shown.layout), shown.limit.value
    with frame.show_errors():  # what it was made from may be gone
        frame.caption(auditing.how_many(layout).words_beside(run_id))
        with st.container(horizontal=True, gap="small"):
            for kind in CLASSES:
                st.metric(texts.COUNTED[kind], f"{shown.n[kind]:,}", border=True, width=165)
    summary, files = st.columns([3, 2], gap="medium")
    with summary, frame.show_errors():
        _draw_summary(run_id, shown, number)
    with files:
        _draw_files(layout, run_id, number, threshold)


def _draw_files(layout: Layout, run_id: str, number: int, threshold: float) -> None:
    """Draw the formats of the next version and the button that writes it."""
    if not is_writable(layout):
        st.info(texts.READ_ONLY, icon=":material/lock:")
        st.code(
            texts.EXPORT_COMMAND.format(folder=shlex.quote(str(layout.folder)), run_id=run_id, threshold=threshold),
            language=None,
            wrap_lines=True,
        )
        return
    has_place = store.call(layout, contents.grid).has_place
    offered = list(exporting.FORMATS if has_place else exporting.LOCAL_FORMATS)
    format_box = chosen.kept(layout, "formats", "formats", offered)
    formats = st.multiselect(
        texts.FORMATS, offered, format_func=exporting.FORMATS.__getitem__, **format_box
    )  # fmt: skip
    profile_box = chosen.kept(layout, "profiles", "profiles", exporting.PROFILES)
    st.multiselect(
        texts.PROFILES,
        list(exporting.PROFILES),
        format_func=exporting.PROFILES.__getitem__,
        help=texts.PROFILES_HELP,
        **profile_box,
    )
    local = False
    if not has_place:
        st.caption(texts.NO_PLACE)
        local = st.checkbox(texts.LOCAL, key="local_coordinates")
    start = partial(_start, layout, run_id, threshold, format_box["key"], profile_box["key"])
    frame.press(
        texts.EXPORT_NUMBER.format(number=number),
        start,
        type="primary",
        icon=":material/download:",
        key="export-confirm",
        disabled=not (formats and (has_place or local)),
        once=True,
    )


def _start(layout: Layout, run_id: str, threshold: float, *fields: str) -> None:
    """Start the export with what the dialog's fields, of formats and of profiles, hold at the click."""
    formats, profiles, local = (st.session_state.get(key) for key in (*fields, "local_coordinates"))
    asked = Publish(formats or [], profiles=profiles or [], run=run_id, threshold=threshold, local=bool(local))
    jobs.start(layout, asked)
    _close()
    st.session_state["damage-tab"] = texts.TAB_EXPORT


def _draw_summary(run_id: str, shown: DamageMap, number: int) -> None:
    if shown.sites:
        st.dataframe(shown.sites, column_config=SITE_COLUMNS, hide_index=True)
    basis = texts.THRESHOLD_IS.format(
        threshold=shown.limit.value, basis=frame.plain(choices.basis_words(shown.limit.origin))
    )
    types = ", ".join(
        texts.TYPE_COUNT.format(name=frame.plain(one.name), n=one.n_by_people + one.n_by_score) for one in shown.types.types
    )
    since = texts.FIELD_CHANGES_SINCE.format(version=f"v{number - 1}") if number > 1 else texts.FIELD_CHANGES
    fields = {
        texts.FIELD_RUN: frame.plain(run_names.name(shown.layout, run_id)),
        texts.FIELD_THRESHOLD: basis,
        texts.TAB_TYPES: types,
        texts.FIELD_AUDIT: frame.plain(shown.audit_words) or texts.WITHOUT_AUDIT,
        since: _changes(shown, number),
    }
    of_all = texts.OF_ALL.format(n=len(shown.classes), units=frame.plain(shown.units.full))
    gaps = (f"- {frame.plain(words)}" for words in shown.cannot_say)
    rows = (f"- {name}: {words}" for name, words in fields.items() if words)
    st.markdown("\n".join([of_all, "", *rows, "", f"**{texts.CANNOT_SAY}**", "", *gaps]))


def _changes(shown: DamageMap, number: int) -> str:
    found = exporting.since_last(shown)
    if found is None:
        return texts.NOT_COMPARED if number > 1 else texts.FIRST_VERSION
    counts = exporting.counted(found)
    rows = [
        texts.CHANGE.format(before=texts.state(before), after=texts.state(after), n=n)
        for before, after, n in counts[:_MOST_CHANGES]
    ]
    return ", ".join(rows) or texts.NOTHING_CHANGED


# The versions there are


def draw(layout: Layout) -> None:
    """Draw the progress of an export, the versions so far, and beside them a report or what changed."""
    job_card.watch_unless_done(layout, "export")
    found = exporting.all_versions(layout)[:_MOST_VERSIONS]
    if not found:
        st.info(texts.NO_VERSIONS, icon=":material/download:")
        return
    there, beside = st.columns([5, 6], gap="medium")
    with there:
        for version in found:
            _draw_version(layout, version)
    with beside:
        report, changes = st.tabs([texts.SHOW_REPORT, texts.SHOW_CHANGES], key="version-tabs", on_change="rerun")
        with report:
            _draw_report(layout, found)
        if changes.open:  # comparing reads two whole versions
            with changes:
                _draw_changes(layout, found)


def _draw_version(layout: Layout, version: Mapping[str, Any]) -> None:
    name, origin = version["version"], str(version["threshold_origin"])
    with st.container(border=True, gap="small"):
        st.markdown(f"**{name}** · {wording.when(version['made_at'])}")
        facts = texts.VERSION_FACTS.format(
            run=frame.plain(version["run"]),
            threshold=version["threshold"],
            basis=f" ({frame.plain(choices.basis_words(origin))})",
            audit=texts.NOT_AUDITED.lower() if version["audit_id"] == choices.NOT_AUDITED else texts.AUDITED,
        )
        counts = texts.VERSION_COUNTS.format(
            confirmed=version["confirmed"],
            flagged=version["flagged"],
            not_assessed=version["not_assessed"],
            n=version["n"],
            units=frame.plain(version["units"]),
        )
        st.caption(f"{facts}  \n{counts}" + (f"  \n{frame.plain(version['words'])}" if version["words"] else ""))
        with st.container(horizontal=True, gap="small"):
            if exporting.REPORT in version["files"]:
                address = file_url(layout, name, exporting.REPORT)
                st.link_button(texts.OPEN_REPORT, address, icon=":material/open_in_new:", key=f"report-{name}")
            st.link_button(texts.DOWNLOAD_ZIP, zip_url(layout, name), icon=":material/folder_zip:", key=f"zip-{name}")
            with st.popover(texts.FILES, icon=":material/description:", key=remove_dialog.menu_key(f"files-{name}")):
                st.caption(texts.FILES_PATH)
                st.code(str(layout.exports / name), language=None)
                links = (f"- [{frame.plain(one)}]({file_url(layout, name, one)}?download=1)" for one in version["files"])
                st.markdown("\n".join(links))
                remove_dialog.button(
                    layout, "export", name, key=f"remove-{name}", label=texts.REMOVE_VERSION.format(version=name)
                )


def file_url(layout: Layout, version: str, name: str) -> str:
    """Return the address of a file of a version."""
    return f"{PREFIX}/{projects.token_of(layout)}/exports/{version}/{name}"


def zip_url(layout: Layout, version: str) -> str:
    """Return the address of all files of a version as one zip file."""
    return f"{PREFIX}/{projects.token_of(layout)}/exports/{version}.zip"


def _draw_report(layout: Layout, found: Versions) -> None:
    """Draw a version's report in the page; the route lets it run no scripts and load nothing."""
    named = [version["version"] for version in found if exporting.REPORT in version["files"]]
    if not named:
        return
    name = st.selectbox(texts.VERSIONS, named, key="report-version", label_visibility="collapsed", width=120)
    st.iframe(file_url(layout, name, exporting.REPORT), height=900, alt=texts.REPORT_OF.format(version=name))


def _draw_changes(layout: Layout, versions_there: Versions) -> None:
    """Draw how many buildings differ between two versions, in which way, and which ones."""
    names = [version["version"] for version in versions_there]
    if len(names) < 2:
        st.caption(texts.ONE_VERSION)
        return
    with st.container(horizontal=True, gap="small"):
        before = st.selectbox(texts.COMPARE_FROM, names, index=1, key="compare-from", width=120)
        after = st.selectbox(texts.COMPARE_TO, names, index=0, key="compare-to", width=120)
    with frame.show_errors():
        found = exporting.difference(layout, before, after)
        if not found:
            st.caption(texts.SAME.format(before=before, after=after))
            return
        st.caption(texts.CHANGED.format(n=wording.plural(len(found), "building"), before=before, after=after))
        kinds = [(texts.state(before), texts.state(after), n) for before, after, n in exporting.counted(found)]
        buildings = [(one.building_id, texts.state(one.before), texts.state(one.after)) for one in found[:_MOST_ROWS]]
        for key, columns, rows in (
            ("change-counts", texts.CHANGE_COLUMNS, kinds),
            ("changed", texts.BUILDING_COLUMNS, buildings),
        ):
            st.dataframe([dict(zip(columns, row, strict=True)) for row in rows], hide_index=True, key=key)
