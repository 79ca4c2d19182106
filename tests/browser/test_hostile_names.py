"""Names out of somebody's file with script, markup or Markdown in them are shown as they are, and do nothing, on Annotate."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pu_geo.project import labels, store
from pu_geo.records import LabelOp
from pu_geo.services.project import projects
from tests.browser.conftest import Village
from tests.browser.make_project import make_project
from tests.browser.real_app import AppServer, made_up_project
from tests.browser.steps import (
    ask,
    become,
    chip,
    open_view,
    queue,
    settle,
    settled,
    show_wall,
    spot,
    until,
    wait_for_frames,
    wall,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIDE_PX, N_BUILDINGS = 600, 64
ENOUGH = 8  # of the names, in queues that hold others too
JOINER = "\u2060"  # may stand between the signs of an address, so that it is not made a link
ELSEWHERE = "http://203.0.113.9"  # an address for documentation; a request for it would be noted
HOSTILE = {
    "tag": "<img src=x onerror='window.hit = 1'>",
    "script": "<script>window.hit = 2</script>",
    "attribute": "\"><svg onload='window.hit = 3'>' onmouseover='window.hit = 4",
    "code": "');window.hit = 5;alert(1);//${window.hit = 6}`{{7*7}}",
    "turned": "b\u202egpj.exe\u202c",
    "picture": f"![x]({ELSEWHERE}/x.png)",
    "link": f"[x]({ELSEWHERE}) [y](javascript:alert(1))",
    "address": "www.example.com",
    "color": ":red[x] :material/delete: $x^2$ **bold** `code` ~~gone~~",
    "heading": "# 1. - > | a | b |",
    "entity": "&lt;b&gt; &amp; &#60;i&#62;",
    "long": "W" * 200,
}
NAMES = list(HOSTILE.values())
ANALYSTS = ("ann", f"bob ![x]({ELSEWHERE}/bob.png) <b>", "**eve** [x](javascript:alert(1)) :red[x]")
INJECTED = (
    "img, script, iframe, object, embed, a, b b, [onerror], [onload], [onmouseover], .katex, strong, code, del, h1, li"
)
LINKED = "a[href*='203.0.113.9'], a[href*='example.com'], a[href^='javascript']"


@pytest.fixture
def hostile(app: AppServer, tmp_path: Path) -> Village:
    """A project whose first buildings, and two of its analysts, have such names, and who disagree."""
    pictures = make_project(tmp_path / "pictures", n=N_BUILDINGS, side=SIDE_PX)
    ids = [*NAMES, *(f"b{i:03d}" for i in range(N_BUILDINGS - len(NAMES)))]
    layout = made_up_project(tmp_path / "hostile.pugeo", ids, pictures=pictures)
    details = {"damage_types": (HOSTILE["script"][:60], HOSTILE["picture"]), "comment": HOSTILE["tag"]}
    with store.connect(layout) as db:
        db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'name'", (HOSTILE["tag"] + HOSTILE["picture"],))
        for analyst, label in zip(ANALYSTS, ("not_damaged", "cleared", "positive"), strict=True):
            ops = [LabelOp(f"{analyst}-{i}", each, label) for i, each in enumerate(NAMES)]
            if label == "positive":
                ops = [dataclasses.replace(op, **details) for op in ops]
            labels.append(db, ops, analyst=analyst, screen="map")
    projects.open_project(str(layout.folder))
    return Village(app.address, layout, ids)


def nothing_injected(part) -> None:
    found = part.locator(INJECTED).evaluate_all("(all) => all.map((each) => each.outerHTML.slice(0, 200))")
    assert found == []


def test_names_are_shown_as_they_are(page, hostile: Village) -> None:
    open_view(page, hostile)
    view = page.locator(".pugeo")
    _card_and_tooltip(page, view)
    _around_the_view(page)
    _wall(page, view)
    hostile.put(ANALYSTS[2], dict.fromkeys(NAMES, "cleared"))  # nobody has answered: they are likely in the first queues
    open_view(page, hostile)
    view.get_by_role("button", name="Queue", exact=True).click()
    _queue_and_picker(page, view)

    become(page, ANALYSTS[1])
    target = hostile.ids[-1]
    ask(page, "select", target)
    page.mouse.click(*spot(page, target))
    settle(page)
    assert hostile.answers()[target].analyst == ANALYSTS[1]
    nothing_injected(view)


def _card_and_tooltip(page, view) -> None:
    page.keyboard.press("i")
    card = view.locator(".card")
    for name in NAMES:
        ask(page, "select", name)
        assert card.locator(".id").inner_text() == f"ID {name}"
        assert ANALYSTS[2] in card.inner_text()
        assert HOSTILE["picture"] in card.locator(".type span").all_inner_texts(), "a damage type of somebody's"
        assert card.locator("textarea").input_value() == HOSTILE["tag"]
    nothing_injected(view)
    page.keyboard.press("i")
    ask(page, "setView", [SIDE_PX / 2, SIDE_PX / 2], 1.5)
    wait_for_frames(page, 500)
    for name in NAMES:
        page.mouse.move(*spot(page, name))
        until(lambda name=name: view.locator(".tooltip b").get_attribute("title") == name, 30)
    nothing_injected(view)


def _around_the_view(page) -> None:
    """What Streamlit writes of them is no Markdown."""
    page.get_by_text("Analysts", exact=True).click()
    page.get_by_text("by two or more").wait_for(timeout=30_000)
    page.wait_for_timeout(1_000)
    settled(page)
    text = page.get_by_test_id("stMain").inner_text().replace(JOINER, "")
    assert [name for name in NAMES if f"Building {number_of(page, name)}" not in text] == []
    assert f"{ANALYSTS[0]}: not damaged, {ANALYSTS[2]}: damaged" in text
    for part in page.get_by_test_id("stCaptionContainer").filter(has_text=ANALYSTS[0] + ":").all():
        nothing_injected(part)
    assert page.locator(LINKED).count() == 0
    sidebar = page.get_by_test_id("stSidebar")
    assert HOSTILE["tag"] + HOSTILE["picture"] in sidebar.inner_text().replace(JOINER, "")
    assert sidebar.get_by_test_id("stMarkdownContainer").locator("img, script").count() == 0


def _wall(page, view) -> None:
    page.evaluate("document.activeElement.blur()")
    show_wall(page)
    order = page.get_by_label("Order", exact=True)
    order.select_option("id")
    wait_for_frames(page, 300)
    for name in [each for each in wall(page) if each in NAMES][:4]:
        page.mouse.move(*chip(page, name))
        view.locator(f".preview b[title={json.dumps(name)}]").wait_for(timeout=30_000)
        page.keyboard.press("k")
        order.get_by_text(f"Like building {number_of(page, name)}", exact=True).wait_for(state="attached", timeout=30_000)
        order.select_option("id")
        wait_for_frames(page, 200)
    nothing_injected(view)


def number_of(page, name: str) -> int:
    """A building's place in the footprint file, from 1."""
    return page.evaluate("window.__pugeo.ids()").index(name) + 1


def _queue_and_picker(page, view) -> None:
    who, shown = view.locator(".queuepane .who"), set()
    for _ in range(N_BUILDINGS):
        if len(shown & set(NAMES)) >= ENOUGH:
            break
        until(lambda: queue(page)["current"] not in {*shown, None}, 30)
        until(lambda: who.get_attribute("title") == f"ID {queue(page)['current']}", 30)  # drawn with the next frame
        current = queue(page)["current"]
        shown.add(current)
        page.keyboard.press("3")
        assert view.locator(".picker .who").inner_text() == f"Building {number_of(page, current)}"
        nothing_injected(view)
        page.keyboard.press("Escape")
    assert len(shown & set(NAMES)) >= ENOUGH, "such names came in the queue"
