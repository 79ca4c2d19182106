"""What tests of the damage view do with it: open it, look what it shows, ask the small server what it stored."""

from __future__ import annotations

import json
import urllib.request

CLICKS = 10


def refuse(app: str, how: str) -> None:
    """Let the server fail to store: "disk" (PuGeoError), "lock" (sqlite3.Error), "" (store again)."""
    urllib.request.urlopen(f"{app}/harness/set?refuse={how}").close()


def click_some(page) -> dict[str, list[float]]:
    places = spots(page, n=3)
    for spot in places.values():
        page.mouse.click(*spot)
    return places


def open_view(page, app: str, query: str = "") -> None:
    page.goto(f"{app}/?{query}")
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
    page.wait_for_timeout(400)  # the first frames: fit, tiles


def told(app: str) -> dict:
    with urllib.request.urlopen(f"{app}/harness/labels") as answer:
        return json.load(answer)


def on_server(app: str) -> dict[str, str]:
    return told(app)["labels"]


def on_page(page) -> dict[str, str]:
    return page.evaluate("window.__pugeo.labels()")


def settle(page, seconds: float = 15) -> None:
    """Wait until everything is acknowledged and the page has run since."""
    page.wait_for_function("window.__pugeo.pending() === 0 && window.__pugeo.fresh()", timeout=seconds * 1000)


def spots(page, how: str = "pixelOf", n: int = CLICKS) -> dict[str, list[float]]:
    """Where the first `n` buildings are that can be clicked, by building id."""
    listed = "onScreen(60)" if how == "pixelOf" else "wallIds().slice(0, 12)"
    found = page.evaluate(f"window.__pugeo.{listed}.map((id) => [id, window.__pugeo.{how}(id)])")
    step = max(1, len(found) // n) if how == "pixelOf" else 1  # spread over the map
    return dict(found[::step][:n])


def drag_box(page, a: list[float], b: list[float]) -> None:
    (x0, y0), (x1, y1) = a, b
    page.keyboard.down("Shift")
    page.mouse.move(min(x0, x1) - 12, min(y0, y1) - 12)
    page.mouse.down()
    page.mouse.move(max(x0, x1) + 12, max(y0, y1) + 12, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")


def drag_lasso(page, corners: list[list[float]]) -> None:
    page.keyboard.down("Alt")
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in [*corners[1:], corners[0]]:
        page.mouse.move(*corner, steps=6)
    page.mouse.up()
    page.keyboard.up("Alt")


def chip(page, building_id: str) -> list[float]:
    return page.evaluate("(id) => window.__pugeo.chipOf(id)", building_id)


def spot(page, building_id: str) -> list[float]:
    return page.evaluate("(id) => window.__pugeo.pixelOf(id)", building_id)


def queue(page) -> dict:
    return page.evaluate("window.__pugeo.queue()")
