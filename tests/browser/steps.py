"""What journeys do with the app by mouse and keyboard, what they ask the damage view through `hooks.js`, and how they wait.

They wait for a state: for what the page says of itself, for a run of Streamlit's script (`a_run`), for frames in which what was
changed is drawn (`at_rest`), or for what stands in the project (`until`). Never for a time: a busy machine takes longer.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from pu_geo import jobs
from pu_geo.store.layout import Layout

READY = "window.__pugeo && window.__pugeo.ready"
PATIENCE_MS = 120_000
JOB_SECONDS = 300.0


def open_view(page, village, screen: str = "annotate") -> None:
    page.goto(village.url(screen))
    wait_for_view(page, screen)


def wait_for_view(page, screen: str = "annotate") -> None:
    has_queue = " && window.__pugeo.queue().id" * (screen == "annotate")
    page.wait_for_function(f"{READY}{has_queue}", timeout=PATIENCE_MS)
    at_rest(page)  # the first frames, and on Annotate the way to the queue's building


def at_rest(page) -> None:
    """Wait until the map stands still, and what was changed is drawn."""
    ask(page, "rest")


def settle(page) -> None:
    """Wait until everything is acknowledged and the page has run since."""
    page.wait_for_function("window.__pugeo.pending() === 0 && window.__pugeo.fresh()", timeout=PATIENCE_MS)


def settled(page) -> None:
    """Wait until Streamlit draws nothing any more: what is there is the newest, and nothing is there twice."""
    page.wait_for_selector(".stApp[data-test-script-state=notRunning]", timeout=PATIENCE_MS)
    page.evaluate("async () => { for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame); }")


@contextmanager
def a_run(page) -> Iterator[None]:
    """Do something that asks for a run of the page, and wait until that run has ended and is drawn."""
    settled(page)
    asked = page.evaluate("window.__runs.asked")
    yield
    has_ended = "(asked) => window.__runs.asked > asked && window.__runs.ended > 0"
    page.wait_for_function(has_ended, arg=asked, timeout=PATIENCE_MS)
    settled(page)


def still(page, part) -> dict[str, float]:
    """Wait until an element stands where it stood some frames ago; return its box in the window."""
    boxes = [None]

    def has_not_moved() -> bool:
        page.evaluate("async () => { for (let n = 0; n < 5; n++) await new Promise(requestAnimationFrame); }")
        boxes.append(part.bounding_box())
        return boxes[-1] is not None and boxes[-1] == boxes[-2]

    until(has_not_moved, page=page)
    return boxes[-1]


def middle_of(page, part) -> tuple[float, float]:
    """Bring an element of the page into the window; return its middle once it stands still there with nothing above it."""
    is_hit = "(part, place) => part.contains(document.elementFromPoint(...place))"
    places = [(-1.0, -1.0)]

    def can_be_pressed() -> bool:
        settled(page)
        part.scroll_into_view_if_needed()
        box = still(page, part)
        places.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
        return part.evaluate(is_hit, places[-1])

    until(can_be_pressed, page=page)
    return places[-1]


def until(condition: Callable[[], Any], seconds: float = 240.0, page: Any = None) -> Any:
    """Wait for something that happens outside the page; return it. With a page, what it asks the test for is answered meanwhile."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "it took too long"
        page.wait_for_timeout(50) if page else time.sleep(0.05)
    return found


def ended(layout: Layout, task: str) -> jobs.JobView:
    """Wait until the newest job of a task is done; return it."""
    job = until(lambda: next((each for each in jobs.all_jobs(layout) if each.task == task), None))
    found = jobs.wait(layout, job.job_id, seconds=JOB_SECONDS)
    assert found.state == "done", (found.state, found.problem)
    return found


def go(page, screen: str) -> None:
    """Follow the link in the sidebar: the session stays the same."""
    page.locator(".st-key-steps").get_by_role("link", name=screen).click()
    page.get_by_role("heading", name=screen).wait_for(timeout=PATIENCE_MS)


def fill(page, field, value: str) -> None:
    """Write into a field; the page has run since."""
    with a_run(page):
        field.fill(value)
        field.press("Enter")


def choose(page, field, value: str) -> None:
    """Choose from a list, which closes by itself when the page is drawn anew meanwhile."""
    from playwright.sync_api import Error  # not installed everywhere

    option = page.get_by_role("option", name=value, exact=True)

    def is_chosen() -> bool:
        settled(page)
        if field.locator("input").first.input_value() == value or field.get_by_text(value, exact=True).count():
            return True
        with suppress(Error):  # the list, or the option, was gone before the click
            field.locator("input").first.click(timeout=5_000)
            with a_run(page):
                option.click(timeout=5_000)
        return False

    until(is_chosen, page=page)


def panel(page, name: str) -> None:
    """Open one of several panels of a screen."""
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name, exact=True)).first.click()


def become(page, name: str) -> None:
    """Give the analyst another name, and wait until the view answers under it."""
    box = page.get_by_label("Analyst", exact=True)
    box.fill(name)
    box.press("Enter")
    page.wait_for_function("(name) => window.__pugeo.analyst() === name", arg=name, timeout=PATIENCE_MS)
    page.evaluate("document.activeElement.blur()")


def ask(page, name: str, *given):
    """Call one of the hooks."""
    return page.evaluate("([name, given]) => window.__pugeo[name](...given)", [name, list(given)])


def on_page(page) -> dict[str, str]:
    return ask(page, "labels")


def queue(page) -> dict:
    return ask(page, "queue")


def queue_goes_on(page, old: dict) -> dict:
    """Wait until there is another queue than an old one; return it."""
    page.wait_for_function("(id) => window.__pugeo.queue().id !== id", arg=old["id"], timeout=PATIENCE_MS)
    return queue(page)


def see_all(page, resolution: float = 2.2) -> None:
    at_rest(page)  # at the queue's building
    ask(page, "setView", [750, 750], resolution)
    at_rest(page)


def go_to(page, building: str, resolution: float = 0.5) -> list[float]:
    """Bring a building to the middle of the map; return its place in the window."""
    at_rest(page)
    ask(page, "setView", ask(page, "gridCenter", building), resolution)
    at_rest(page)
    ask(page, "tiled")
    return spot(page, building)


def spot(page, building: str) -> list[float]:
    return ask(page, "pixelOf", building)


def spots(page, n: int = 10) -> dict[str, list[float]]:
    """Where buildings are that can be clicked on the map, by id, spread over it, once it is at rest."""
    at_rest(page)
    found = page.evaluate("window.__pugeo.onScreen(60).map((id) => [id, window.__pugeo.pixelOf(id)])")
    return dict(found[:: max(1, len(found) // n)][:n])


def chip(page, building: str) -> list[float]:
    """Where a building's chip is on the wall, once it is drawn there."""
    page.wait_for_function("(id) => window.__pugeo.chipOf(id)", arg=building, timeout=PATIENCE_MS)
    return ask(page, "chipOf", building)


def wall(page) -> list[str]:
    return ask(page, "wallIds")


def show_wall(page) -> None:
    """From the queue to all chips."""
    page.keyboard.press("w")
    page.locator(".pugeo .wallpane").wait_for(timeout=PATIENCE_MS)
    at_rest(page)
    page.wait_for_function(READY, timeout=PATIENCE_MS)


def on_wall(page, label: str, value: str) -> list[str]:
    """Choose an order or a filter of the wall; return what it shows then."""
    page.get_by_label(label, exact=True).select_option(value)
    at_rest(page)  # until then chips of the order before stand there
    return wall(page)


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def select(page, place: list[float]) -> None:
    """Click with Ctrl: keys are about the building then, and nothing is answered."""
    page.keyboard.down("Control")
    page.mouse.click(*place)
    page.keyboard.up("Control")
    at_rest(page)


def drag(page, corners: list, key: str = "Shift", steps: int = 6) -> None:
    """Drag through pixels of the window with a key held down."""
    page.keyboard.down(key)
    page.mouse.move(*map(float, corners[0]))
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*map(float, corner), steps=steps)
    page.mouse.up()
    page.keyboard.up(key)
    at_rest(page)


def lasso(page, places: list, margin: float = 14, key: str = "Shift") -> None:
    """Draw a line around pixels of the window."""
    middle = np.mean(places, axis=0)
    reach = np.abs(places - middle).max(axis=0) + margin
    angles = np.linspace(0, 2 * np.pi, 40)
    drag(page, middle + 1.3 * reach * np.stack([np.cos(angles), np.sin(angles)], axis=1), key, steps=1)


def click_all(page, places: dict[str, list[float]], expected: dict[str, str]) -> dict[str, str]:
    """Click each place, every third one with the right button, ever more slowly; return what should be labeled then."""
    expected = dict(expected)
    for k, (building, place) in enumerate(places.items()):
        wanted = "not_damaged" if k % 3 == 2 else "positive"
        page.mouse.click(*place, button="right" if k % 3 == 2 else "left")
        page.wait_for_timeout((0, 30, 100)[3 * k // len(places)])  # the pace of a hand
        if expected.pop(building, None) != wanted:
            expected[building] = wanted
    return expected


def assert_stored(page, village, expected: dict[str, str]) -> None:
    """At once on the page, soon in the project."""
    assert on_page(page) == expected, "the page shows a click at once"
    settle(page)
    assert village.labels() == on_page(page) == expected
