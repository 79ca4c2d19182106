"""The field for a cluster keeps what somebody wrote while another page is open."""

import pytest
from small_parts import need_extra
from streamlit.testing.v1 import AppTest

from pu_geo.scale import computers

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
