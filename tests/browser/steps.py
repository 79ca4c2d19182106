"""What journeys do with the damage view, by mouse and keyboard, and what they ask it through `hooks.js`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

READY = "window.__pugeo && window.__pugeo.ready"


def open_view(page, village, screen: str = "annotate") -> None:
    page.goto(village.url(screen))
    wait_for_view(page, screen)


def wait_for_view(page, screen: str = "annotate") -> None:
    page.wait_for_function(f"{READY}{' && window.__pugeo.queue().id' * (screen == 'annotate')}", timeout=60_000)
    page.wait_for_timeout(200)
    ask(page, "rest")  # the first frames, and on Annotate the way to the queue's building


def wait_for_frames(page, ms: int = 0) -> None:
    """Wait for so long, and until what was changed by then is drawn: a busy machine may draw no frame in half a second."""
    page.wait_for_timeout(ms)
    page.evaluate("async () => { for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame); }")


def still(page, part) -> dict[str, float]:
    """Wait until an element stands where it stood a moment ago; return its box in the window."""
    boxes = [None]

    def has_not_moved() -> bool:
        wait_for_frames(page, 300)
        boxes.append(part.bounding_box())
        return boxes[-1] is not None and boxes[-1] == boxes[-2]

    until(has_not_moved, 60)
    return boxes[-1]


def ask(page, name: str, *given):
    """Call one of the hooks."""
    return page.evaluate("([name, given]) => window.__pugeo[name](...given)", [name, list(given)])


def on_page(page) -> dict[str, str]:
    return ask(page, "labels")


def queue(page) -> dict:
    return ask(page, "queue")


def settle(page, seconds: float = 120) -> None:
    """Wait until everything is acknowledged and the page has run since."""
    page.wait_for_function("window.__pugeo.pending() === 0 && window.__pugeo.fresh()", timeout=seconds * 1000)


def settled(page) -> None:
    """Wait until Streamlit draws nothing any more: what is there is the newest, and nothing is there twice."""
    page.wait_for_selector(".stApp[data-test-script-state=notRunning]", timeout=60_000)


def become(page, name: str) -> None:
    """Give the analyst another name, and wait until the view answers under it."""
    box = page.get_by_label("Analyst", exact=True)
    box.fill(name)
    box.press("Enter")
    page.wait_for_function("(name) => window.__pugeo.analyst() === name", arg=name, timeout=60_000)
    page.evaluate("document.activeElement.blur()")


def see_all(page, resolution: float = 2.2) -> None:
    ask(page, "rest")  # at the queue's building
    ask(page, "setView", [750, 750], resolution)
    ask(page, "rest")


def go_to(page, building: str, resolution: float = 0.5) -> list[float]:
    """Bring a building to the middle of the map; return its place in the window."""
    ask(page, "rest")
    ask(page, "setView", ask(page, "gridCenter", building), resolution)
    wait_for_frames(page, 600)  # tiles, and the drawing of another frame
    return spot(page, building)


def spot(page, building: str) -> list[float]:
    return ask(page, "pixelOf", building)


def spots(page, n: int = 10) -> dict[str, list[float]]:
    """Where buildings are that can be clicked on the map, by id, spread over it, once it is at rest."""
    ask(page, "rest")
    found = page.evaluate("window.__pugeo.onScreen(60).map((id) => [id, window.__pugeo.pixelOf(id)])")
    return dict(found[:: max(1, len(found) // n)][:n])


def chip(page, building: str) -> list[float]:
    return ask(page, "chipOf", building)


def wall(page) -> list[str]:
    return ask(page, "wallIds")


def show_wall(page) -> None:
    """From the queue to all chips."""
    page.keyboard.press("w")
    wait_for_frames(page, 400)
    page.wait_for_function(READY, timeout=30_000)


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def drag(page, corners: list, key: str = "Shift", steps: int = 6) -> None:
    """Drag through pixels of the window with a key held down."""
    page.keyboard.down(key)
    page.mouse.move(*map(float, corners[0]))
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*map(float, corner), steps=steps)
    page.mouse.up()
    page.keyboard.up(key)
    wait_for_frames(page, 300)


def lasso(page, places: list, margin: float = 14, key: str = "Shift") -> None:
    """Draw a line around pixels of the window."""
    middle = np.mean(places, axis=0)
    reach = np.abs(places - middle).max(axis=0) + margin
    angles = np.linspace(0, 2 * np.pi, 40)
    drag(page, middle + 1.3 * reach * np.stack([np.cos(angles), np.sin(angles)], axis=1), key, steps=1)


def go(page, screen: str) -> None:
    """Follow the link in the sidebar: the session stays the same."""
    page.locator(".st-key-steps").get_by_role("link", name=screen).click()
    page.get_by_role("heading", name=screen).wait_for(timeout=60_000)


def until(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """Wait for something that happens outside the page; return it."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it took too long"
        time.sleep(0.05)
    return found
