"""A button's act has the values that stand in the fields at the click, is done once, and tells its mistake beside it."""

from __future__ import annotations

import time

from streamlit.testing.v1 import AppTest

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


def test_a_mistake_is_shown_in_words_and_acts_no_more() -> None:
    shown = app()
    shown.number_input(key="n").set_value(13)
    shown.button(key="go").click().run()
    assert "13 is not allowed" in shown.error[0].value
    shown.run()
    assert not shown.error


def test_a_click_on_what_the_new_values_forbid_does_nothing() -> None:
    shown = app()
    shown.number_input(key="n").set_value(0)
    shown.button(key="go").click().run()
    assert "done" not in shown.session_state


def test_a_click_amid_a_rerun_is_kept_but_not_for_ever() -> None:
    shown = app()
    shown.session_state["go:clicked"] = time.monotonic() - 1.0  # its run was preempted before the button was drawn
    shown.run()
    assert shown.session_state["done"] == [7]
    shown.session_state["go:clicked"] = time.monotonic() - 60.0  # another screen was opened
    shown.run()
    assert shown.session_state["done"] == [7]
