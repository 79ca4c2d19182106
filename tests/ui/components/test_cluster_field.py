"""The field for a cluster keeps what somebody wrote while another page is open."""

from __future__ import annotations

from small_parts import need_extra
from streamlit.testing.v1 import AppTest

SCRIPT = """
import streamlit as st
from pu_geo.ui.components import cluster_field
if st.session_state.get("page", "imagery") == "imagery":
    cluster_field.draw("c", "about")
st.write(f"on [{cluster_field.given('c')}]")
"""


def test_a_cluster_stays_when_its_page_is_left_and_goes_when_it_is_emptied() -> None:
    need_extra("scale")
    app = AppTest.from_string(SCRIPT, default_timeout=30).run()
    assert app.markdown[0].value == "on []"
    app.text_input[0].set_value(" local:2 ").run()
    for page in ("train", "imagery"):
        app.session_state["page"] = page
        app.run()
        assert app.markdown[0].value == "on [local:2]"
    assert app.text_input[0].value.strip() == "local:2"
    app.text_input[0].set_value("").run()
    app.session_state["page"] = "train"
    app.run()
    assert app.markdown[0].value == "on []"
