"""A browser is let in by the address that the app printed, and stays in; one that was not reads how to get in."""

import re
from pathlib import Path

import pytest

from pu_geo.lifecycle import access
from pu_geo.ui import texts
from tests.browser.real_app import AppServer

pytestmark = [pytest.mark.browser, pytest.mark.ci]


def test_the_printed_address_lets_a_browser_in(chromium, tmp_path: Path) -> None:
    """By hand, and by the private file that PU-Geo gives to the browser which it opens itself."""
    with AppServer(tmp_path / "home") as server:
        printed = re.search(r"http://\S+", server.log.read_text(encoding="utf-8"))
        assert printed
        (tmp_path / "open.html").write_text(access._OPENING.format(url=printed[0]), encoding="utf-8")
        (tmp_path / "link.html").write_text(f'<a href="{server.address}/annotate">map</a>', encoding="utf-8")
        icon = f"{server.address}/favicon.ico"  # which a browser asks for late, for the words of its first visit
        for first in (printed[0], (tmp_path / "open.html").as_uri()):
            context = chromium.new_context()
            page, broken = context.new_page(), []
            page.on("console", lambda message, broken=broken: broken.append(message) if message.type == "error" else None)
            page.goto(f"{server.address}/annotate")
            assert page.locator("body").inner_text() == texts.NOT_LET_IN
            broken.clear()
            page.goto(first)
            sidebar = page.get_by_test_id("stSidebar")
            sidebar.wait_for(timeout=60_000)
            assert "token" not in page.url
            assert page.evaluate("document.cookie").find("pu_geo_") < 0, "no script can read it"
            assert [each.text for each in broken if each.location["url"] != icon] == []
            page.goto((tmp_path / "link.html").as_uri())
            page.get_by_text("map").click()
            sidebar.wait_for(timeout=60_000)
        server.end()
        server.start()
        page.reload()
        sidebar.wait_for(timeout=60_000)
        for context in chromium.contexts:
            context.close()
