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


def test_a_cluster_stays_when_its_page_is_left_and_goes_when_it_is_emptied() -> None:
    need_extra("scale")
    app = AppTest.from_string(SCRIPT, default_timeout=30).run()
    assert app.markdown[-1].value == "on []"
    app.text_input[0].set_value(" local:2 ").run()
    for page in ("train", "imagery"):
        app.session_state["page"] = page
        app.run()
        assert app.markdown[-1].value == "on [local:2]"
    assert app.text_input[0].value.strip() == "local:2"
    app.text_input[0].set_value("").run()
    app.session_state["page"] = "train"
    app.run()
    assert app.markdown[-1].value == "on []"


def button_of(app: AppTest) -> str:
    """Return what the button shows while its field is folded away."""
    return str(app.main.children[0].proto.popover.label).replace("\\", "").replace("\u2060", "")


def test_the_folded_field_shows_the_cluster_that_is_given() -> None:
    need_extra("scale")
    app = AppTest.from_string(SCRIPT, default_timeout=30).run()
    assert button_of(app) == "More computers"
    app.text_input[0].set_value("local:2").run()
    assert button_of(app) == "More computers: local:2"
    app.text_input[0].set_value("scheduler-file=/" + "x" * 90).run()
    assert button_of(app).endswith("xxx…")
    assert len(button_of(app)) < 60


def test_a_wrong_cluster_is_refused_beside_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    need_extra("scale")
    import distributed

    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 9 * 10**9)
    app = AppTest.from_string(SCRIPT, default_timeout=30).run()
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
    assert ("run code as the app's user:** name none that you do not trust" in words) is has_dask
    assert ("**local:N has no password:** any account of this computer can run code" in words) is has_dask
