"""A download's address stays while its page is open, and the field for a cluster refuses what is none."""

from __future__ import annotations

import pytest
from small_parts import need_extra
from streamlit.testing.v1 import AppTest

from pu_geo.services.project import computers
from pu_geo.ui.components import download


@pytest.fixture(autouse=True)
def none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_DOWNLOADS", type(download._DOWNLOADS)())


def script() -> None:
    import streamlit as st

    from pu_geo.ui.components import download

    run = st.session_state["run"] = st.session_state.get("run", 0) + 1
    if run != 3:
        download.button("Export", lambda: f"of run {run}", "a.txt", "text/plain", key="export")
        download.button("Log", lambda: "log", "b.txt", "text/plain", key="log")


def addresses(app: AppTest) -> list[str]:
    assert not app.exception
    return [button.proto.url for button in app.get("link_button")]


def made(address: str) -> bytes | str | None:
    found = download.find(address.rpartition("/")[2])
    return found.make() if found else None


def test_an_address_stays_and_has_what_the_newest_run_of_the_page_makes() -> None:
    app = AppTest.from_function(script).run()
    first = addresses(app)
    assert len(set(first)) == 2
    assert [made(each) for each in first] == ["of run 1", "log"]
    assert addresses(app.run()) == first
    assert made(first[0]) == "of run 2"
    assert addresses(app.run()) == [], "the button is not drawn"
    assert made(first[0]) == "of run 2", "a browser may show it still"
    assert addresses(app.run()) == first


def test_those_that_were_drawn_least_lately_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_MOST", 4)
    old, kept = (AppTest.from_function(script).run() for _ in range(2))
    gone, stays = addresses(old), addresses(kept.run())
    assert not {*gone} & {*stays}, "another browser has other addresses"
    AppTest.from_function(script).run()
    assert [made(each) for each in gone] == [None, None]
    assert [made(each) for each in stays] == ["of run 2", "log"]
    assert download.find("") is None


SCRIPT = """
from pu_geo.ui.components import cluster_field
cluster_field.draw("c", "about")
"""


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
    assert ("run code as the app's user" in words) is has_dask
