"""The settings of Streamlit that promises rest on."""

from app import CONFIG
from pu_geo.store import contents


def test_settings_that_promises_rest_on() -> None:
    assert CONFIG["browser.gatherUsageStats"] is False
    assert CONFIG["server.address"] == "127.0.0.1"
    assert CONFIG["client.allowedOrigins"] == [], "no other site's page may steer ours by messages"
    # With two threads "Start clustering" was lost in 1 of 37 journeys: a rerun ends the one that has not yet acted on the click.
    assert CONFIG["runner.fastReruns"] is False
    assert CONFIG["server.maxUploadSize"] * 1024**2 == contents.MAX_BYTES, "what the upload boxes promise"
