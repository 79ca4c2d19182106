"""Pages and panels without a browser: opened, read and pressed, and none of it may end in an exception."""

from typing import Any

from small_parts import REPOSITORY
from streamlit.testing.v1 import AppTest

from pu_geo.store.layout import Layout

Started = list[tuple[str, dict[str, Any]]]
"""What the fixture `started` gives."""
PANEL = """
from pathlib import Path
import streamlit as st
from pu_geo import jobs
from pu_geo.store.layout import Layout
from pu_geo.runs import training
from pu_geo.ui.{module} import {name} as panel
layout = Layout(Path({folder!r}))
panel.{call}
"""


def show(page: str, layout: Layout | None = None, **state: object) -> AppTest:
    """Open a page in a session of its own."""
    app = AppTest.from_file(REPOSITORY / "pages" / f"{page}.py", default_timeout=20)
    for name, value in (state | ({"project": str(layout.folder)} if layout else {})).items():
        app.session_state[name] = value
    return checked(app.run())


def show_tab(layout: Layout, tab: str, **state: object) -> AppTest:
    """Open the damage map with one of its tabs open, which is the only one that is drawn beside the map."""
    return show("damage_map", layout, **{"damage-tabs": tab, **state})


def show_panel(path: str, layout: Layout, call: str = "draw(layout)", **state: object) -> AppTest:
    """Draw a panel alone, such as "train.live_panel"."""
    module, _, name = path.rpartition(".")
    script = PANEL.format(module=module, name=name, folder=str(layout.folder), call=call)
    app = AppTest.from_string(script, default_timeout=30)
    for key, value in state.items():
        app.session_state[key] = value
    return checked(app.run())


def shell(layout: Layout, screen: str = "") -> AppTest:
    """Open the whole app with a project, and go to a screen."""
    app = AppTest.from_file(REPOSITORY / "pu_geo" / "ui" / "shell.py", default_timeout=60)
    app.session_state["project"] = str(layout.folder)
    checked(app.run())
    app.session_state["goes-to"] = screen
    return checked(app.run()) if screen else app


def checked(app: AppTest) -> AppTest:
    assert not app.exception
    return app


def run_ahead(app: AppTest) -> AppTest:
    """Run a page, and once more as by a browser that acts before it has drawn what came of the first run."""
    held = app._tree.get_widget_states()
    checked(app.run())
    return checked(app._run(held))


def shown_late(element: Any) -> Any:
    """Return what a browser shows of a field that it draws for the first time now, as in a popover that is opened only then."""
    proto = element.proto
    if element.type == "selectbox":
        return proto.raw_value if proto.set_value else proto.options[proto.default]
    return proto.value if proto.set_value else proto.default


def press(app: AppTest, what: str) -> AppTest:
    """Press the button of a key, or else the first one whose label begins so."""
    by_key = [button for button in app.button if button.key == what]
    button = next(iter(by_key), None) or next(button for button in app.button if button.label.startswith(what))
    return checked(button.click().run())


def key_like(app: AppTest, start: str) -> str:
    """Return the key of the first button whose key begins so."""
    return next(str(button.key) for button in app.button if str(button.key).startswith(start))


def field(app: AppTest, label: str) -> Any:
    fields = (*app.selectbox, *app.slider, *app.number_input, *app.multiselect, *app.text_input, *app.text_area)
    return next(each for each in fields if each.label == label)


def words(app: AppTest) -> str:
    """Return what stands on a page, in Markdown."""
    parts = [*app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.code, *app.subheader]
    return "\n".join(str(part.value) for part in parts)


def plain(app: AppTest) -> str:
    """Return the same without the signs that keep names from becoming Markdown."""
    return words(app).replace("\\", "").replace("\u2060", "")
