"""A button's act has the values that stand in the fields at the click, is done once, and tells its mistake beside it."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from pu_geo.ui import frame

SCRIPT = """
import streamlit as st
from pu_geo.errors import PuGeoError
from pu_geo.ui import frame

n = st.number_input("n", 0, 100, 7, key="n")

def act():
    if n == 13:
        raise PuGeoError("13 is not allowed.", "Take another.")
    st.session_state["done"] = [*st.session_state.get("done", []), n]

frame.button("Go", act, key="go", disabled=n == 0)
"""


def app() -> AppTest:
    return AppTest.from_string(SCRIPT).run()


def test_the_act_has_the_number_typed_just_before_the_click() -> None:
    shown = app()
    shown.number_input(key="n").set_value(40)  # in the same run as the click, as a browser sends both
    shown.button(key="go").click().run()
    assert shown.session_state["done"] == [40]
    shown.run()
    assert shown.session_state["done"] == [40], "one click is one act"


def test_a_click_amid_a_rerun_is_kept_until_the_button_is_drawn_once() -> None:
    shown = app()
    shown.session_state["clicks"] = {"go"}  # its run was preempted before the button was drawn
    shown.run()
    assert shown.session_state["done"] == [7]
    shown.run()
    assert shown.session_state["done"] == [7]


def test_a_second_press_while_it_acts_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited until the button was drawn again, perhaps minutes later, and acted then."""
    state, pressed, done = dict[str, object](), list[Callable[[], None]](), list[int]()

    class Rerun(Exception):
        pass

    def rerun() -> None:
        raise Rerun

    def act() -> None:
        done.append(1)
        pressed[-1]()

    def draw() -> None:
        frame.button("Go", act, key="go")

    def button(label: str, key: str, on_click: Callable[[], None]) -> None:
        pressed.append(on_click)

    monkeypatch.setattr(frame, "st", SimpleNamespace(session_state=state, button=button, rerun=rerun))
    draw()
    pressed[-1]()
    with pytest.raises(Rerun):
        draw()
    draw()
    assert done == [1]
    pressed[-1]()
    with pytest.raises(Rerun):
        draw()
    assert done == [1, 1], "a press after that is another one"


def test_a_mistake_is_shown_in_words_acts_no_more_and_may_be_pressed_again_at_once() -> None:
    shown = app()
    shown.number_input(key="n").set_value(13)
    for _ in range(2):
        shown.button(key="go").click().run()
        assert "13 is not allowed" in shown.error[0].value
    assert not shown.run().error
    shown.number_input(key="n").set_value(0)
    shown.button(key="go").click().run()
    assert "done" not in shown.session_state, "the new value forbids it"


SHELL = """
from types import SimpleNamespace
import streamlit as st
from pu_geo.ui import frame

st.session_state["clicks"] = {"go"} if "before" not in st.session_state else st.session_state["clicks"]
st.session_state["before"] = True
path = st.session_state.get("path", "train")
frame.draw({}, SimpleNamespace(url_path=path, run=lambda: st.text(str(sorted(st.session_state["clicks"])))))
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("path", ["train", "explore"])
def test_a_click_on_a_button_that_is_not_drawn_any_more_is_forgotten_on_any_screen(path: str) -> None:
    shown = AppTest.from_string(SHELL)
    shown.session_state["screen"] = "train"
    assert "['go']" in shown.run().text[0].value
    shown.session_state["path"] = path
    assert shown.run().text[0].value == "[]"


REFUSED = """
import streamlit as st
from pu_geo.errors import PuGeoError
from pu_geo.ui import frame

def act():
    raise PuGeoError("13 is not allowed.", "Take another.")

st.button("Do", on_click=frame.does(act))
st.button("Go", on_click=frame.goes("train", act))
"""


@pytest.mark.parametrize(("screen", "n_over_page"), [("annotate", 1), ("explore", 1), ("damage_map", 1), ("train", 0)])
def test_a_refusal_stands_over_the_page_where_it_would_move_a_map(screen: str, n_over_page: int) -> None:
    for place in (0, 1):
        shown = AppTest.from_string(REFUSED)
        shown.session_state["screen"] = screen
        shown.run().button[place].click().run()
        assert (len(shown.toast), len(shown.error)) == (n_over_page, 1 - n_over_page)
        (one,) = (*shown.toast, *shown.error)
        assert "13 is not allowed" in one.value
        assert "Take another" in one.value
