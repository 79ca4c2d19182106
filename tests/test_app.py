"""The settings of Streamlit that promises rest on."""

from app import CONFIG
from pu_geo.store import contents


def test_nothing_is_sent_to_anybody_and_nobody_else_can_connect() -> None:
    assert CONFIG["browser.gatherUsageStats"] is False
    assert CONFIG["server.address"] == "127.0.0.1"
    assert CONFIG["client.allowedOrigins"] == [], "no other site's page may steer ours by messages"


def test_one_thread_draws_a_page_at_a_time() -> None:
    """With two, "Start clustering" was lost in 1 of 37 journeys: a rerun ends the thread that has not yet acted on the click."""
    assert CONFIG["runner.fastReruns"] is False


def test_the_server_takes_what_the_upload_boxes_promise() -> None:
    assert CONFIG["server.maxUploadSize"] * 1024**2 == contents.MAX_BYTES
