"""Versions of the damage map: what the next one says is confirmed, then written; those that are there are read and compared."""

from __future__ import annotations

import shlex
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pu_geo import wording
from pu_geo.project.layout import Layout
from pu_geo.project.store import is_writable
from pu_geo.services.damage_map import exporting, mapping
from pu_geo.services.damage_map.exporting import CLASSES, Class, Summary, Version
from pu_geo.services.project import projects
from pu_geo.ui import frame
from pu_geo.ui.components import chosen, job_card, remove_dialog
from pu_geo.ui.damage_map import texts
from pu_geo.ui.routes import PREFIX

_MOST_VERSIONS, _MOST_ROWS = 20, 5_000
_OPEN = "export-open"  # the visit of the screen in which the summary was opened and not closed again


def draw_action(place: DeltaGenerator, layout: Layout, run_id: str, threshold: float) -> None:
    """Draw the screen's main action into `place`, and what it opens: a summary to be confirmed."""
    place.button(
        texts.EXPORT, type="primary", icon=":material/download:", key="export", help=texts.EXPORT_HELP, on_click=_open
    )
    if _is_open():
        st.dialog(texts.EXPORT_TITLE, width="large", on_dismiss=_close)(_confirm)(layout, run_id, threshold)


def _open() -> None:
    st.session_state[_OPEN] = frame.visit()


def _close() -> None:
    st.session_state[_OPEN] = None


def _is_open() -> bool:
    return bool(st.session_state.get(_OPEN) == frame.visit())


def _confirm(layout: Layout, run_id: str, threshold: float) -> None:
    """Draw what the next version will say, its files, and the button that writes it."""
    if not _is_open():
        st.rerun()
    found = exporting.summary(layout, run_id, threshold)
    _draw_summary(found)
    if not is_writable(layout):
        st.info(texts.READ_ONLY, icon=":material/lock:")
        st.code(
            texts.EXPORT_COMMAND.format(folder=shlex.quote(str(layout.folder)), run_id=run_id, threshold=threshold),
            language=None,
            wrap_lines=True,
        )
        return
    has_place = mapping.has_place(layout)
    offered = list(mapping.FORMATS if has_place else mapping.LOCAL_FORMATS)
    format_box = chosen.kept(layout, "formats", "formats", offered)
    formats = st.multiselect(
        texts.FORMATS, offered, format_func=mapping.FORMATS.__getitem__, **format_box
    )  # fmt: skip
    profile_box = chosen.kept(layout, "profiles", "profiles", mapping.PROFILES)
    st.multiselect(
        texts.PROFILES, list(mapping.PROFILES), format_func=mapping.PROFILES.__getitem__, help=texts.PROFILES_HELP, **profile_box
    )  # fmt: skip
    local = False
    if not has_place:
        st.caption(texts.NO_PLACE)
        local = st.checkbox(texts.LOCAL, key="local_coordinates")
    start = partial(_start, layout, run_id, threshold, format_box["key"], profile_box["key"])
    frame.press(
        texts.EXPORT_NUMBER.format(number=found.number),
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
    mapping.start_publish(layout, run_id, threshold, formats or [], profiles or [], local=bool(local))
    _close()
    st.session_state["damage-tab"] = texts.TAB_EXPORT


def _draw_summary(found: Summary) -> None:
    total = sum(found.n.values())
    for column, kind in zip(st.columns(len(CLASSES)), CLASSES, strict=True):
        column.metric(texts.CLASSES[kind], f"{found.n[kind]:,}", border=True)
    basis = texts.THRESHOLD_IS.format(threshold=found.threshold.value, basis=frame.plain(found.basis))
    fields = [
        (texts.FIELD_RUN, frame.plain(found.run_name)), (texts.FIELD_THRESHOLD, basis),
        (texts.FIELD_AUDIT, frame.plain(found.audit) or texts.WITHOUT_AUDIT), (_changes_title(found), _changes(found)),
    ]  # fmt: skip
    if found.types:
        types = ", ".join(texts.TYPE_COUNT.format(name=frame.plain(name), n=n) for name, n in found.types)
        fields.insert(2, (texts.TAB_TYPES, types))
    of_all = texts.OF_ALL.format(n=total, units=frame.plain(found.units))
    st.markdown("\n".join([of_all, "", *(f"- {name}: {words}" for name, words in fields)]))
    if found.gaps:
        st.markdown("\n".join([f"**{texts.CANNOT_SAY}**", "", *(f"- {frame.plain(words)}" for words in found.gaps)]))


def _changes_title(found: Summary) -> str:
    return texts.FIELD_CHANGES_SINCE.format(version=f"v{found.number - 1}") if found.number > 1 else texts.FIELD_CHANGES


def _changes(found: Summary) -> str:
    if found.before is None:
        return texts.NOT_COMPARED if found.number > 1 else texts.FIRST_VERSION
    return ", ".join(f"{texts.CHANGES[kind]} {n:,}" for kind, n in found.changes.items()) or texts.NOTHING_CHANGED


# The versions there are


def draw(layout: Layout) -> None:
    """Draw the progress of an export, the versions so far, and beside them a report or what changed."""
    job_card.watch_unless_done(layout, mapping.EXPORT_TASKS)
    versions = exporting.all_versions(layout)[:_MOST_VERSIONS]
    if not versions:
        st.info(texts.NO_VERSIONS, icon=":material/download:")
        return
    there, beside = st.columns([5, 6], gap="medium")
    with there:
        for version in versions:
            _draw_version(layout, version)
    with beside:
        report, changes = st.tabs([texts.SHOW_REPORT, texts.SHOW_CHANGES], key="version-tabs", on_change="rerun")
        with report:
            _draw_report(layout, versions)
        if changes.open:  # comparing reads two whole versions
            with changes:
                _draw_changes(layout, versions)


def _draw_version(layout: Layout, version: Version) -> None:
    audit = texts.AUDITED if version.is_audited else texts.NOT_AUDITED.lower()
    basis = f" ({frame.plain(version.basis)})"
    with st.container(border=True, gap="small"):
        st.markdown(f"**{version.name}** · {wording.when(version.made_at)}")
        facts = texts.VERSION_FACTS.format(
            run=frame.plain(version.run), threshold=version.threshold, basis=basis, audit=audit
        )
        counts = texts.VERSION_COUNTS.format(
            confirmed=version.confirmed, flagged=version.flagged, not_assessed=version.not_assessed, n=version.n,
            units=frame.plain(version.units),
        )  # fmt: skip
        st.caption(f"{facts}  \n{counts}" + (f"  \n{frame.plain(version.estimate)}" if version.estimate else ""))
        with st.container(horizontal=True, gap="small"):
            if exporting.REPORT in version.files:
                st.link_button(
                    texts.OPEN_REPORT, file_url(layout, version.name, exporting.REPORT), icon=":material/open_in_new:",
                    key=f"report-{version.name}",
                )  # fmt: skip
            st.link_button(
                texts.DOWNLOAD_ZIP, zip_url(layout, version.name), icon=":material/folder_zip:", key=f"zip-{version.name}"
            )
            with st.popover(texts.FILES, icon=":material/description:", key=remove_dialog.menu_key(f"files-{version.name}")):
                st.caption(texts.FILES_PATH)
                st.code(str(version.folder), language=None)
                links = (
                    f"[{frame.plain(name)}]({file_url(layout, version.name, name)}?download=1)" for name in version.files
                )
                st.markdown("\n".join(f"- {link}" for link in links))
                remove_dialog.button(
                    layout, "export", version.name, key=f"remove-{version.name}",
                    label=texts.REMOVE_VERSION.format(version=version.name),
                )  # fmt: skip


def file_url(layout: Layout, version: str, name: str) -> str:
    """Return the address of a file of a version."""
    return f"{PREFIX}/{projects.token_of(layout)}/exports/{version}/{name}"


def zip_url(layout: Layout, version: str) -> str:
    """Return the address of all files of a version as one zip file."""
    return f"{PREFIX}/{projects.token_of(layout)}/exports/{version}.zip"


def _draw_report(layout: Layout, versions: list[Version]) -> None:
    """Draw a version's report in the page; the route lets it run no scripts and load nothing."""
    named = [version.name for version in versions if exporting.REPORT in version.files]
    if not named:
        return
    name = st.selectbox(texts.VERSIONS, named, key="report-version", label_visibility="collapsed", width=120)
    st.iframe(file_url(layout, name, exporting.REPORT), height=900, alt=texts.REPORT_OF.format(version=name))


def _draw_changes(layout: Layout, versions: list[Version]) -> None:
    """Draw how many buildings differ between two versions, in which way, and which ones."""
    names = [version.name for version in versions]
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
        rows = [
            dict(zip(texts.CHANGE_COLUMNS, (texts.CHANGES[kind], n), strict=True))
            for kind, n in exporting.difference_rows(found)
        ]
        st.dataframe(rows, hide_index=True, key="change-counts")
        buildings = [
            (one.building_id, texts.CHANGES[one.change], _class_words(one.before, one.grades, 0), _class_words(one.after, one.grades, 1))
            for one in found[:_MOST_ROWS]
        ]  # fmt: skip
        st.dataframe(
            [dict(zip(texts.BUILDING_COLUMNS.values(), row, strict=True)) for row in buildings],
            hide_index=True,
            key="changed",
        )


def _class_words(kind: Class | None, grades: tuple[str, str] | None, at: int) -> str:
    if kind is None:
        return texts.ABSENT
    return texts.CLASSES[kind] if grades is None else texts.graded(kind, grades[at])
