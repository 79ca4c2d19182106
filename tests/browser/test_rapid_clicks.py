"""Fast clicks in the real app, with ranking, queue and database behind them: what the page shows is what is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser.damage_view_steps import on_page, queue, settle, spot, spots
from browser.make_project import make_project

from pu_geo.project import labels, store
from pu_geo.project.layout import Layout
from tests.browser.real_app import AppServer, made_up_project, open_annotate

pytestmark = [pytest.mark.browser, pytest.mark.slow]
N_BUILDINGS, SIDE_PX = 400, 1500
N_CLICKS = 20
GAPS_MS = (0, 30, 100)
MEANS = {"1": "positive", "Enter": "positive", "2": "not_damaged", "3": "not_assessable"}


@pytest.fixture(scope="module")
def running(chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AppServer, Layout]]:
    """The real app with 400 made-up houses open, and the project."""
    folder = tmp_path_factory.mktemp("rapid")
    pictures = make_project(folder / "pictures", n=N_BUILDINGS, side=SIDE_PX)
    layout = made_up_project(folder / "rapid.pugeo", [f"b{i:05d}" for i in range(N_BUILDINGS)], pictures=pictures)
    with AppServer(folder / "home", project=layout) as server:
        yield server, layout


@pytest.fixture
def real(running: tuple[AppServer, Layout]) -> tuple[str, Layout]:
    server, layout = running
    return server.address, layout


def stored(layout: Layout) -> dict[str, str]:
    with store.connect(layout) as db:
        return dict(labels.current_labels(db))


def see_all(page) -> None:
    page.wait_for_timeout(400)  # until the map has come to rest at the queue's building
    page.evaluate(f"window.__pugeo.setView([{SIDE_PX / 2}, {SIDE_PX / 2}], 2.2)")
    page.wait_for_timeout(300)


def assert_stored(page, layout: Layout, expected: dict[str, str]) -> None:
    """At once on the page, soon in the project, and the same after a reload."""
    assert on_page(page) == expected, "the page shows a click at once"
    settle(page, 60)
    assert stored(layout) == on_page(page) == expected
    page.reload()
    page.wait_for_function("window.__pugeo && window.__pugeo.ready", timeout=60_000)
    page.wait_for_function(f"Object.keys(window.__pugeo.labels()).length === {len(expected)}", timeout=10_000)
    assert on_page(page) == expected


def clicked(before: dict[str, str], places: dict[str, list[float]], page, gap_ms: int) -> dict[str, str]:
    """Click each place, every third one with the right button; return what should be labeled then."""
    expected = dict(before)
    for k, (building, (x, y)) in enumerate(places.items()):
        wish = "not_damaged" if k % 3 == 2 else "positive"
        page.mouse.click(x, y, button="right" if k % 3 == 2 else "left")
        page.wait_for_timeout(gap_ms)
        if expected.pop(building, None) != wish:
            expected[building] = wish
    return expected


@pytest.mark.parametrize("gap_ms", GAPS_MS)
def test_on_the_map(chromium_page, real, gap_ms: int) -> None:
    page, (address, layout) = chromium_page, real
    open_annotate(page, address)
    see_all(page)
    while queue(page)["current"] not in page.evaluate("window.__pugeo.onScreen(60)"):
        page.keyboard.press("ArrowRight")
        see_all(page)
    places = spots(page, n=N_CLICKS)
    current = queue(page)["current"]
    places = {current: spot(page, current), **places}  # an answer to what the queue shows leaves the map where it is
    assert_stored(page, layout, clicked(stored(layout), places, page, gap_ms))


@pytest.mark.parametrize("gap_ms", GAPS_MS)
def test_on_the_wall(chromium_page, real, gap_ms: int) -> None:
    page, (address, layout) = chromium_page, real
    open_annotate(page, address)
    page.keyboard.press("w")
    page.wait_for_timeout(600)
    places = spots(page, "chipOf", n=12)
    assert len(places) == 12
    assert_stored(page, layout, clicked(stored(layout), places, page, gap_ms))


@pytest.mark.parametrize("gap_ms", GAPS_MS)
def test_by_keys_through_a_queue_into_the_next(chromium_page, real, gap_ms: int) -> None:
    page, (address, layout) = chromium_page, real
    open_annotate(page, address)
    expected = stored(layout)
    if set(queue(page)["ids"]) & set(expected):  # another test answered some of these on the map or on the wall
        before = queue(page)["id"]
        page.keyboard.press("q")
        page.wait_for_function(f"window.__pugeo.queue().id !== '{before}'", timeout=60_000)
        settle(page, 60)
    first = queue(page)
    assert len(first["ids"]) == N_CLICKS
    assert not set(first["ids"]) & set(expected)
    for building, key in zip(first["ids"], ["1", "2", "3", "Enter", "2"] * 4, strict=True):
        page.keyboard.press(key)
        page.wait_for_timeout(gap_ms)
        expected[building] = MEANS[key]
    assert on_page(page) == expected
    page.wait_for_function(f"window.__pugeo.queue().id !== '{first['id']}'", timeout=60_000)
    assert not set(queue(page)["ids"]) & set(expected), "the next ones are others"
    assert_stored(page, layout, expected)


def test_clicks_while_the_server_is_gone_are_stored_once_it_is_back(
    chromium_page, running: tuple[AppServer, Layout]
) -> None:
    page, (server, layout) = chromium_page, running
    open_annotate(page, server.address)
    see_all(page)
    expected = stored(layout)
    places = dict([each for each in spots(page, n=60).items() if each[0] not in expected][:6])
    first, second = dict(list(places.items())[:2]), dict(list(places.items())[2:])
    expected = clicked(expected, first, page, 30)
    server.end()
    expected = clicked(expected, second, page, 30)
    page.wait_for_function("window.__pugeo.status === 'waiting'", timeout=20_000)
    server.start()
    assert_stored(page, layout, expected)


@pytest.mark.parametrize("gap_ms", GAPS_MS)
def test_one_building_clicked_over_and_over_ends_as_the_page_shows_it(chromium_page, real, gap_ms: int) -> None:
    page, (address, layout) = chromium_page, real
    open_annotate(page, address)
    see_all(page)
    known = {*stored(layout), *queue(page)["ids"]}
    building, place = next((each, place) for each, place in spots(page, n=40).items() if each not in known)
    expected = stored(layout)
    for k in range(7):
        page.mouse.click(*place, button="right" if k % 3 == 2 else "left")  # +, cleared, -, +, cleared, -, +
        page.wait_for_timeout(gap_ms)
    expected[building] = "positive"
    assert_stored(page, layout, expected)
