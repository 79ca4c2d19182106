"""Pick files and folders of the machine that PU-Geo runs on; see `lifecycle.browsing`.

A dialog that a button opens. What was picked goes to a function, which starts what it was picked for, or writes it into a
text field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import streamlit as st

from pu_geo.errors import PuGeoError
from pu_geo.lifecycle import browsing
from pu_geo.lifecycle.browsing import Kind, Listing, Place
from pu_geo.scenes import preparation
from pu_geo.ui import frame
from pu_geo.ui.project import texts

_OPEN, _FOLDER = "picker-open", "picker-folder"  # which picker is open, and the folder that all of them open with
_HEIGHT_PX = 160  # at least; it grows with the window
_COLUMNS, _FOLDER_COLUMNS = 5, 3
_ROLES = ("pre", "post")
_MOST_SHOWN = 60
_STYLE = """<style>
[class*="st-key-picker-row-"] button, [class*="st-key-picker-row-"] button > div { justify-content: flex-start; }
[class*="st-key-picker-row-"] button { min-height: 1.9rem; padding-block: 0.1rem; }
div:has(> .st-key-picker-list) { flex-basis: clamp(10rem, calc(100vh - 25.5rem), 34rem) !important; }
[role="dialog"]:has([data-testid="stDataFrame"]) div:has(> .st-key-picker-list) {
  flex-basis: clamp(6rem, calc(100vh - 37rem), 34rem) !important;
}
</style>"""


@dataclass(frozen=True)
class _Picker:
    """One use of the dialog, see `browse_button`."""

    key: str
    title: str
    kind: Kind
    pick: Callable[..., object]
    several: bool
    by_date: bool

    @property
    def chosen(self) -> list[str]:
        found: list[str] = st.session_state.setdefault(f"{self.key}-chosen", [])
        return found

    @property
    def round(self) -> int:
        """How often all files were chosen, or none, by one button."""
        return int(st.session_state.get(f"{self.key}-round", 0))

    @property
    def listed(self) -> Path:
        return Path(st.session_state.get(f"{_FOLDER}-{self.kind == 'projects'}") or browsing.first_folder(self.kind))

    def go(self, folder: Path) -> None:
        """Show another folder; the next picker opens with it, too. Projects are kept elsewhere than imagery."""
        st.session_state[f"{_FOLDER}-{self.kind == 'projects'}"] = str(folder)
        browsing.remember(self.kind, folder)


def browse_button(
    key: str, title: str, kind: Kind, pick: Callable[..., object], *, several: bool = False, by_date: bool = False,
    label: str = texts.BROWSE, is_main: bool = False, disabled: bool = False,
) -> None:  # fmt: skip
    """Draw a button that opens the dialog.

    Args:
        key: of this picker on its page.
        title: of the dialog, and what the button is called for screen readers.
        kind: what can be picked: "scenes", "vectors", "projects", or "folders" of any content.
        pick: is called with the list of paths that were picked, one where not `several`, before the page is drawn anew.
        several: whether more than one may be picked, in several folders.
        by_date: of several scenes, whether the dialog tells those of before the event from those of after it, by their names
            or by asking. `pick` gets two lists then, pre and post. Several scenes without dates only fill a field.
        is_main: whether it is the main button of its screen.
    """
    picker = _Picker(key, title, kind, pick, several, by_date)
    frame.press(
        label,
        lambda: _open(picker),
        key=f"{key}-browse",
        icon=":material/folder_open:",
        help=title,
        disabled=disabled,
        type="primary" if is_main else "secondary",
    )
    if st.session_state.get(_OPEN) == key:
        st.dialog(title, width="large", on_dismiss=_close)(_draw)(picker)


def into_lines(key: str) -> Callable[[list[str]], None]:
    """Return what adds picked paths to a text area of one path a line."""

    def pick(paths: list[str]) -> None:
        known = [line for line in str(st.session_state.get(key, "")).splitlines() if line.strip()]
        st.session_state[key] = "\n".join([*known, *(path for path in paths if path not in known)])

    return pick


def into_field(key: str) -> Callable[[list[str]], None]:
    """Return what writes the picked path into a text field."""

    def pick(paths: list[str]) -> None:
        st.session_state[key] = paths[0]

    return pick


def _open(picker: _Picker) -> None:
    _choose_all(picker, [])
    st.session_state[_OPEN] = picker.key


def _close() -> None:
    st.session_state[_OPEN] = None


def _go(picker: _Picker, folder: Path) -> None:
    picker.go(folder)
    st.session_state[f"{picker.key}-filter"] = ""


def _picked(picker: _Picker, *paths: list[str]) -> None:
    found = [browsing.picked(some, picker.kind) for some in paths]
    _close()
    picker.pick(*found)


def _draw(picker: _Picker) -> None:
    """Draw the dialog; its buttons draw it alone anew, until one of them closes it."""
    if st.session_state.get(_OPEN) != picker.key:
        st.rerun()
    st.html(_STYLE)
    listing = _listing(picker)
    _ways(picker, listing)
    with st.container(height=_HEIGHT_PX, border=True, key="picker-list"):
        _rows(picker, listing.folders, ":material/folder:", _go)
        if picker.several:
            _several(picker, listing)
        else:
            icon = ":material/deployed_code:" if picker.kind == "projects" else ":material/draft:"
            _rows(picker, listing.files, icon, lambda picker, path: _picked(picker, [str(path)]))
        if listing.problem:
            st.warning(frame.plain(listing.problem), icon=":material/lock:")
        elif not (listing.folders or listing.files):
            st.caption(texts.NO_MATCH)
    _foot(picker, listing)


def _listing(picker: _Picker) -> Listing:
    """List the folder where the picker is, or the one whose path stands in the filter."""
    try:
        filter = _filter(picker)
        return browsing.browse(picker.listed, picker.kind, filter=filter)
    except PuGeoError as error:
        return Listing([Place(picker.listed.name, picker.listed)], problem=f"{error.problem} {error.hint}")


def _filter(picker: _Picker) -> str:
    """Return part of the names to show; a path that stands there is gone to."""
    wanted = str(st.session_state.get(f"{picker.key}-filter") or "").strip()
    if not wanted.startswith(("/", "~")):
        return wanted
    picker.go(browsing.allowed(Path(wanted).expanduser()))
    return ""


def _ways(picker: _Picker, listing: Listing) -> None:
    """Draw the roots, the way down to this folder, and the filter."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for root in browsing.roots():
            _goes(picker, root, f"root-{root.path}", icon=":material/home_storage:", type="secondary")
    way, filter = st.columns([3, 2], vertical_alignment="center")
    with way.container(horizontal=True, gap=None, vertical_alignment="center"):
        for i, place in enumerate(listing.way):
            _goes(
                picker,
                place,
                f"way-{i}",
                icon=":material/chevron_right:" if i else ":material/folder_open:",
                type="tertiary",
            )
    filter.text_input(
        texts.FILTER, key=f"{picker.key}-filter", type="search", live=True, placeholder=texts.FILTER,
        label_visibility="collapsed",
    )  # fmt: skip


def _goes(picker: _Picker, place: Place, key: str, *, icon: str, type: Literal["secondary", "tertiary"]) -> None:
    frame.press(frame.plain(place.name), partial(_go, picker, place.path), key=f"{picker.key}-{key}", icon=icon, type=type)


def _rows(picker: _Picker, places: Sequence[Place], icon: str, act: Callable[[_Picker, Path], object]) -> None:
    """Draw folders to go into, or files of which one can be picked."""
    columns = st.columns(_FOLDER_COLUMNS, gap="small") if places else []
    for i, place in enumerate(places[:_MOST_SHOWN]):
        key = f"{picker.key}-row-{frame.digest([str(place.path)])}"
        with columns[i % _FOLDER_COLUMNS], st.container(key=f"picker-row-{key}"):
            st.button(
                frame.plain(place.name), key=key, icon=icon, type="tertiary", width="stretch",
                on_click=frame.does(partial(act, picker, place.path)),
            )  # fmt: skip
    _more(places)


def _several(picker: _Picker, listing: Listing) -> None:
    """Draw files of which several can be picked."""
    columns = st.columns(_COLUMNS, gap="small") if listing.files else []
    for i, file in enumerate(listing.files[:_MOST_SHOWN]):
        with columns[i % _COLUMNS], st.container(gap="small"):
            key = f"{picker.key}-pick-{picker.round}-{frame.digest([str(file.path)])}"
            st.checkbox(
                frame.plain(file.name), str(file.path) in picker.chosen, key=key,
                on_change=partial(_choose, picker, str(file.path), key),
            )  # fmt: skip
    _more(listing.files)


def _more(places: Sequence[Place]) -> None:
    if len(places) > _MOST_SHOWN:
        st.caption(texts.TOO_MANY.format(n_shown=_MOST_SHOWN, n=len(places)))


def _choose(picker: _Picker, path: str, key: str) -> None:
    """Take over what the box of a file says now."""
    picker.chosen[:] = [other for other in picker.chosen if other != path] + [path] * bool(st.session_state[key])


def _choose_all(picker: _Picker, files: Sequence[Place]) -> None:
    """Choose these files as well, none for no file.

    Their boxes are new ones then: a browser that clicks meanwhile sends what it showed before, and the old boxes would take
    it for clicks on all of them.
    """
    picker.chosen[:] = list(dict.fromkeys([*picker.chosen, *(str(file.path) for file in files)])) if files else []
    st.session_state[f"{picker.key}-round"] = picker.round + 1


def _foot(picker: _Picker, listing: Listing) -> None:
    """Draw what ends the dialog."""
    if not picker.several:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(texts.FORMATS[picker.kind])
            if picker.kind == "folders":
                frame.press(
                    texts.USE_FOLDER,
                    lambda: _picked(picker, [str(listing.way[-1].path)]),
                    key=f"{picker.key}-use",
                    type="primary",
                    disabled=bool(listing.problem),
                )
        return
    names, lists = [_name(path) for path in picker.chosen], [picker.chosen]
    if picker.by_date and names:
        lists = _by_date(picker)
    else:
        st.caption(frame.plain(texts.chosen(names)) if names else texts.FORMATS[picker.kind])
    with st.container(horizontal=True):
        frame.press(
            texts.add_files(len(names), fills=picker.kind == "scenes" and not picker.by_date),
            lambda: _picked(picker, *map(list, lists)),
            key=f"{picker.key}-add",
            type="primary",
            disabled=not names or sum(map(len, lists)) < len(names),
        )
        if listing.files:
            st.button(
                texts.SELECT_ALL.format(n=len(listing.files)), key=f"{picker.key}-all",
                on_click=partial(_choose_all, picker, listing.files),
            )  # fmt: skip
        if not listing.problem:
            frame.press(texts.SELECT_BELOW, lambda: _choose_below(picker), key=f"{picker.key}-below")
        if picker.chosen:
            st.button(texts.CLEAR, key=f"{picker.key}-clear", on_click=partial(_choose_all, picker, []))


def _name(path: str) -> str:
    """Return the name of a file with its folder, which tells files of one name from each other."""
    return "/".join(Path(path).parts[-2:])


def _choose_below(picker: _Picker) -> None:
    """Choose the files of this folder and of those below it as well, those that fit the filter."""
    filter = _filter(picker)
    _choose_all(picker, browsing.below(picker.listed, picker.kind, filter=filter))


def _by_date(picker: _Picker) -> list[list[str]]:
    """Draw which chosen scenes are pre and which post, and return them; those of which neither a name nor a person tells it
    are in neither list.
    """
    guess, rest, place = [preparation.role_by_name(path) for path in picker.chosen], None, st.empty()
    if n := guess.count(None):
        rest = st.radio(texts.UNTOLD.format(n=n), _ROLES, None, key=f"{picker.key}-rest", horizontal=True)
    rows = [{texts.FILE: _name(path), texts.DATE: one or rest} for path, one in zip(picker.chosen, guess, strict=True)]
    key = f"{picker.key}-dates-{frame.digest([*picker.chosen, str(rest)])}"
    dates = {texts.DATE: st.column_config.SelectboxColumn(options=_ROLES)}
    shown = st.data_editor(rows, key=key, column_config=dates, disabled=[texts.FILE], height=_HEIGHT_PX, hide_index=True)
    found = [[path for path, row in zip(picker.chosen, shown, strict=True) if row[texts.DATE] == role] for role in _ROLES]
    place.caption(texts.BY_DATE.format(*map(len, found)))
    return found
