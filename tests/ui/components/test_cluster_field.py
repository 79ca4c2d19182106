"""The field for a cluster keeps what somebody wrote while another page is open."""

from __future__ import annotations

import pytest
from small_parts import need_extra
from streamlit.testing.v1 import AppTest

from pu_geo.services.project import computers

SCRIPT = """
import streamlit as st
from pu_geo.ui.components import cluster_field
if st.session_state.get("page", "imagery") == "imagery":
    cluster_field.draw("c", "about")
st.write(f"on [{cluster_field.given('c')}]")
"""


def drawn() -> AppTest:
    need_extra("scale")
    return AppTest.from_string(SCRIPT, default_timeout=30).run()


def test_a_cluster_stays_when_its_page_is_left_and_goes_when_it_is_emptied() -> None:
    app = drawn()
    assert app.markdown[-1].value == "on []"
    app.text_input[0].set_value(" local:2 ").run()
    for page in ("train", "imagery"):
        app.session_state["page"] = page
        app.run()
        assert app.markdown[-1].value == "on [local:2]"
    assert app.text_input[0].value.strip() == "local:2"
    label = str(app.main.children[0].proto.popover.label)
    assert label.replace("\\", "").replace("\u2060", "") == "More computers: local:2", "while it is folded away"
    app.text_input[0].set_value("scheduler-file=/" + "x" * 90).run()
    assert len(str(app.main.children[0].proto.popover.label)) < 80, "cut"
    app.text_input[0].set_value("").run()
    app.session_state["page"] = "train"
    app.run()
    assert app.markdown[-1].value == "on []"


def test_a_wrong_cluster_is_refused_beside_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    need_extra("scale")
    import distributed

    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 9 * 10**9)
    app = drawn()
    for wrong, words in (("foo", "names no cluster"), ("local:90", "need 180 GB; this computer has 9 GB")):
        app.text_input[0].set_value(wrong).run()
        assert [words in error.value for error in app.error] == [True]
    app.text_input[0].set_value("local:2").run()
    assert not app.error


@pytest.mark.parametrize("has_dask", [True, False])
def test_the_field_names_what_a_cluster_is_trusted_with(has_dask: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers, "has_dask", lambda: has_dask)
    app = AppTest.from_string(SCRIPT, default_timeout=30).run()
    words = " ".join(one.value for one in app.markdown)
    for warning in ("run code as the app's user", "local:N has no password"):
        assert (warning in words) is has_dask
