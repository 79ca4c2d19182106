"""The frame around every page: which project is open, the sidebar, and errors in words."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import StreamlitPage

from pu_geo.answers import labeling
from pu_geo.errors import ProjectError, PuGeoError, name_too_long
from pu_geo.files import is_ours
from pu_geo.lifecycle import daily_backups, projects, recovery
from pu_geo.lifecycle.launch import OPEN_VARIABLE, SAMPLE
from pu_geo.records import MAX_NAME
from pu_geo.store import backups, freshness
from pu_geo.store.layout import Layout
from pu_geo.store.store import is_writable, one_connection
from pu_geo.ui import texts

_ADDRESS_KEY, _ANALYST_KEY = "project", "analyst"
_CHOSEN = "chosen_analyst"  # the name, while the session lasts
_PAGES_AT_A_TIME = threading.Semaphore(2)  # they share one interpreter, and clicks of others would wait behind all of them
_GOES_TO = "goes-to"  # the screen that a button led to
_NAMES = "analyst-names"  # that this session had
_SCREEN, _VISIT = "screen", "visit"  # the one that is drawn, and how many were opened so far
_WITH_MAP = ("annotate", "explore", "damage_map")
_SECONDS_OVER_MAP = 30  # that a refusal stands there
_DAMAGE = "damage"  # what is damaged of the session's project; "" if nothing
_CLICKS = "clicks"  # keys of buttons of this screen that were clicked and not acted on yet
_BUTTONS = "buttons"  # keys of those that are drawn
_MOST_PROJECTS = 12  # in the list of others


keep_backups = daily_backups.start


def plain(text: str) -> str:
    """Escape Markdown, so that a name out of somebody's file is shown as it is: no link, no picture from elsewhere, no icon.

    Streamlit finds icons and addresses after backslashes are gone, so an invisible joiner breaks these up.
    """
    signs = re.sub(r"([\\`*_{}\[\]()#+!|~:$<>&@-])", r"\\\1", re.sub(r"\s+", " ", text))
    return re.sub(r"(?<=[:@])(?=\S)|(?<=-)(?=\\?[->])|(?<=www)(?=\.)", "\u2060", signs, flags=re.IGNORECASE)


def caption(words: str) -> None:
    """Draw small words, some of which may come from somebody's file."""
    st.caption(plain(words))


def warn(words: str) -> None:
    """Draw a warning, some words of which may come from somebody's file."""
    st.warning(plain(words), icon=":material/warning:")


@contextmanager
def show_errors(*, is_callback: bool = False) -> Iterator[None]:
    """Show a user's mistake as problem and hint; nothing else of it reaches the page.

    Args:
        is_callback: it would stand at the top of the page and be gone with the next click, so on a screen with a map, which
            it would push down and up again under the pointer, it stands over the page for a while.
    """
    try:
        yield
    except (PuGeoError, OSError) as error:
        words = error if isinstance(error, PuGeoError) else name_too_long(error)
        if words is None:
            raise
        text = f"**{plain(words.problem)}**\n\n{plain(words.hint)}"
        if is_callback and st.session_state.get(_SCREEN) in _WITH_MAP:
            st.toast(text, icon=":material/error:", duration=_SECONDS_OVER_MAP)
        else:
            st.error(text, icon=":material/error:")


def does(act: Callable[[], object], *, once: bool = False) -> Callable[[], None]:
    """Return what a button's `on_click` takes. It acts before anything is drawn: a rerun amid the drawing would lose a
    click.

    Args:
        once: a second press does nothing until the button is drawn again. For a button whose act puts another in its place,
            with a key that names what it acts on: the second press of a double click may come while the first is still on
            the screen.
    """
    n_presses = count()

    def on_click() -> None:
        if next(n_presses) and once:
            return
        with show_errors(is_callback=True):
            act()

    return on_click


def press(
    label: str, act: Callable[[], object], *, place: DeltaGenerator | None = None, once: bool = False, **look: Any
) -> None:  # fmt: skip
    """Draw a button that acts before the page is drawn anew; see `does`.

    Args:
        place: where to draw it; here if None.
        look: what else `st.button` takes.
    """
    (st if place is None else place).button(label, on_click=does(act, once=once), **look)


def own(name: str) -> str:
    """Return the key of a field that belongs to the open project: what is written there is not in another one's."""
    layout = current()
    return f"{name}-{projects.token_of(layout)}" if layout else name


def digest(names: Iterable[str]) -> str:
    """Return a short text that stands for some names in their order, for the key of what acts on them."""
    return hashlib.sha256("\n".join(names).encode(errors="surrogateescape")).hexdigest()[:12]


def button(
    label: str, act: Callable[[], object], *, key: str, place: DeltaGenerator | None = None, goes_to: str = "", **look: Any
) -> None:  # fmt: skip
    """Draw a button that acts with the values that the widgets above it have now; a callback would see those of the run
    before.

    Its click is kept until it was acted on, so a rerun amid the drawing loses none. A second one while it acts, and one that
    waits for a button which is not drawn any more, do nothing. A user's mistake is shown beside it.

    Args:
        place: where to draw it; here if None.
        goes_to: screen to open afterwards.
        look: what else `st.button` takes.
    """
    clicks: set[str] = st.session_state.setdefault(_CLICKS, set())
    st.session_state.setdefault(_BUTTONS, set()).add(key)
    where, acted = st if place is None else place, list[str]()

    def on_click() -> None:
        if not acted:
            st.session_state[_CLICKS].add(key)

    where.button(label, key=key, on_click=on_click, **look)
    if key not in clicks:
        return
    clicks.discard(key)
    if look.get("disabled"):
        return
    acted.append(key)
    with show_errors():
        act()
        if goes_to:
            st.session_state[_GOES_TO] = goes_to
        st.rerun()
    acted.clear()  # it was refused, and may be pressed again


def goes(page: str, act: Callable[[], object] | None = None) -> Callable[[], None]:
    """Return what a button's `on_click` takes that leads to another screen, once it has done what it asks for."""

    def on_click() -> None:
        with show_errors(is_callback=True):
            if act is not None:
                act()
            st.session_state[_GOES_TO] = page

    return on_click


def visit() -> int:
    """Return how many screens this session opened so far: what belongs to one visit ends with it."""
    return int(st.session_state.get(_VISIT, 0))


@one_connection()
def draw(pages: Mapping[str, StreamlitPage], page: StreamlitPage) -> None:
    """Draw the sidebar, then the page."""
    st.session_state["pages"] = dict(pages)
    _restore_analyst()
    st.session_state[_NAMES] = {*st.session_state.get(_NAMES, ()), analyst()}
    if (wanted := st.session_state.pop(_GOES_TO, None)) in pages and pages[wanted] != page:
        st.switch_page(pages[wanted])
    if st.session_state.get(_SCREEN) != page.url_path:
        st.session_state[_SCREEN], st.session_state[_CLICKS] = page.url_path, set()
        st.session_state[_VISIT] = visit() + 1
    with show_errors():
        _restore()
        _open_first()
    layout, damage = current(), ""
    summary = None
    if layout is not None:
        with show_errors():
            try:
                summary = projects.summary(layout)
            except ProjectError as error:
                if error.kind != "corrupt":
                    raise
                damage = error.problem
    st.session_state[_DAMAGE] = damage
    with st.sidebar:
        _draw_project(summary)
        _draw_steps(pages, summary)
        st.text_input(
            texts.ANALYST, key="analyst_name", value=analyst(), max_chars=MAX_NAME, help=texts.ANALYST_HELP,
            on_change=does(_choose_analyst),
        )  # fmt: skip
    if layout is not None and damage:
        with show_errors():
            _draw_damage(layout, damage)
        if page != pages.get("project"):
            return
    elif layout is not None and not is_writable(layout):
        _draw_closed(layout)
    st.session_state[_BUTTONS] = set()
    with show_errors(), _PAGES_AT_A_TIME:
        page.run()
        st.session_state.setdefault(_CLICKS, set()).intersection_update(st.session_state[_BUTTONS])


def _draw_closed(layout: Layout) -> None:
    """Draw why a project may not be changed; of one that another installation made what is odd in it, and the way to work in
    it.
    """
    if is_ours(layout.folder):
        st.info(texts.READ_ONLY.format(folder=plain(str(layout.folder))), icon=":material/lock:")
        return
    st.warning(texts.ELSEWHERE.format(name=plain(layout.folder.name)), icon=":material/shield_question:")
    with st.popover(texts.LOOK_AT_IT, icon=":material/search:"):
        for words in projects.oddities(layout):
            st.markdown(f"- {plain(words)}")
        press(texts.TRUST, partial(_trust, layout), key="trust", icon=":material/verified_user:")


def _trust(layout: Layout) -> None:
    projects.trust(layout)
    open_project(str(layout.folder))


def _draw_damage(layout: Layout, problem: str) -> None:
    """Draw what is damaged of a project, the way to its newest backup, and the file of its labels; in place of its
    screens.
    """
    backup = backups.newest(layout)
    with st.container(border=True, key="damage"):
        st.error(f"**{texts.DAMAGED}**\n\n{plain(problem)}", icon=":material/error:")
        with st.container(horizontal=True):
            press(
                texts.restore(backup.made_at if backup else ""),
                partial(_restore_damaged, layout),
                key="restore-damaged",
                type="primary",
                icon=":material/restore:",
                help=texts.RESTORE_HELP,
                disabled=backup is None,
            )
            st.download_button(
                texts.SAVE_LABELS,
                lambda: recovery.labels_of_journal(layout)[0],
                texts.LABELS_FILE,
                "text/csv",
                on_click="ignore",
                key="save-labels",
                icon=":material/download:",
                help=texts.SAVE_LABELS_HELP,
            )


def _restore_damaged(layout: Layout) -> None:
    done = recovery.restore(layout)
    open_project(str(done.layout.folder))
    st.toast(plain(" ".join(done.notes)), icon=":material/restore:", duration="infinite")


def _restore() -> None:
    """Keep the project's opaque id in the page's address, so that a reload or a bookmark comes back to it."""
    layout, token = current(), st.query_params.get(_ADDRESS_KEY)
    if layout is None and token:
        layout = projects.resolve(token)
        if layout is not None:
            use(layout)
            st.session_state["first_opened"] = True
    if layout is not None and token != projects.token_of(layout):
        st.query_params[_ADDRESS_KEY] = projects.token_of(layout)


def _open_first() -> None:
    """Open what the command line named, once a session."""
    wanted = os.environ.get(OPEN_VARIABLE, "")
    if not wanted or "first_opened" in st.session_state:
        return
    st.session_state["first_opened"] = True
    if wanted == SAMPLE:
        use(projects.open_sample()[0])
    else:
        open_project(wanted)


def _draw_project(summary: projects.Summary | None) -> None:
    """Draw the name of the open project; it opens the list of the others."""
    here = None if summary is None else summary.folder
    with st.popover(texts.NO_PROJECT if summary is None else plain(summary.name), icon=":material/folder:", width="stretch"):
        for other in projects.recent()[:_MOST_PROJECTS]:
            name = summary.name if summary is not None and other.folder == here else projects.card(other).name
            press(
                plain(name),
                partial(open_project, str(other.folder)),
                key=f"switch-{projects.token_of(other)}",
                type="tertiary",
                disabled=other.folder == here,
                help=plain(str(other.folder)),
            )
        link("project", texts.MANAGE_PROJECTS)
    if summary is not None:
        st.caption(f"{summary.n_buildings:,} {summary.units.several}")  # no count that clicks change: they redraw no sidebar


def _draw_steps(pages: Mapping[str, StreamlitPage], summary: projects.Summary | None) -> None:
    """Draw the screens as steps, each with its state; Research is none, and Train leads to it."""
    with st.container(key="steps", gap="xxsmall"):
        for name, page in pages.items():
            if name == "research":
                continue
            state = summary.state(name) if summary else "next" if name == "project" else "blocked"
            st.page_link(page, label=f"{page.title} {texts.STATES[state]}".strip(), icon=page.icon, width="stretch")


def analyst() -> str:
    """Return the analyst's pseudonym of this session."""
    return str(st.session_state.get("analyst_name") or chosen_analyst() or labeling.default_analyst())


def chosen_analyst() -> str:
    """Return the name that was chosen in this browser; "" if none was."""
    return str(st.session_state.get(_CHOSEN) or "")


def _choose_analyst() -> None:
    """Keep the name in this session and its address: others who use this server have names of their own."""
    name = labeling.as_name(str(st.session_state.get("analyst_name") or ""))
    st.session_state[_CHOSEN] = name
    if not name:
        st.query_params.pop(_ANALYST_KEY, None)
    is_mine = "analyst-kept" in st.session_state  # this session's name is the machine's, and may be put right
    if labeling.choose_analyst(name, again=is_mine):
        st.session_state["analyst-kept"] = True


def _restore_analyst() -> None:
    """Keep the chosen name in the page's address, so that a reload does not credit answers to whoever chose one last."""
    if _CHOSEN not in st.session_state:
        st.session_state[_CHOSEN] = labeling.as_name(st.query_params.get(_ANALYST_KEY, ""))
    if (name := chosen_analyst()) and st.query_params.get(_ANALYST_KEY) != name:
        st.query_params[_ANALYST_KEY] = name


def former_names() -> set[str]:
    """Return the other names that this session's analyst had."""
    return set(st.session_state.get(_NAMES, ())) - {analyst()}


def use(layout: Layout) -> None:
    """Make a project the one that this session works on."""
    st.session_state["project"] = str(layout.folder)


def open_project(path: str) -> None:
    """Open a project for this session; of a damaged one the screens show what can be saved."""
    try:
        use(projects.open_project(path))
    except ProjectError as error:
        if error.kind != "corrupt":
            raise
        use(projects.find(path))


def whole() -> Layout | None:
    """Return the project of this session; None without one, and for one that is damaged."""
    return None if st.session_state.get(_DAMAGE) else current()


def current() -> Layout | None:
    """Return the project of this session, or None."""
    folder = st.session_state.get("project")
    return None if folder is None else Layout(Path(folder))


def needs_project() -> Layout:
    """Return the project of this session, or write that there is none and end the page."""
    layout = current()
    if layout is None:
        st.info(texts.NEEDS_PROJECT, icon=":material/folder_open:")
        link("project", texts.OPEN_PROJECT)
        st.stop()
    return layout


def link(page: str, label: str, help: str | None = None, *, is_main: bool = False) -> None:
    """Draw a link to another screen; as the screen's main button if it is what comes next."""
    pages = st.session_state.get("pages", {})
    if page in pages:
        (st.container(key="main-link", width="content") if is_main else st).page_link(
            pages[page], label=label, icon=":material/arrow_forward:", help=help
        )


def warn_of_former(layout: Layout, chip_set: str | None = None) -> None:
    """Draw that chips, the newest if None, are out of date, and the way to cut them again; nothing where they are
    current.
    """
    with show_errors():
        if words := freshness.of_chips(layout, chip_set).words:
            with st.container(key="out-of-date", horizontal=True, vertical_alignment="center"):
                warn(words)
                link("imagery", texts.CUT_AGAIN)


def title_bar(title: str, purpose: str) -> DeltaGenerator:
    """Draw a screen's title, what the screen is for behind a question mark, and return the place of its one main action."""
    with st.container(key="title-bar", horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(title, anchor=False, help=purpose, width="content")
        return st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="small")
