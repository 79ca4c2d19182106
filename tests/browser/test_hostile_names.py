"""Names out of somebody's file with script, markup or Markdown in them are shown as they are, and do nothing, on Annotate."""

import dataclasses
import json
from pathlib import Path

import pytest

from pu_geo.records import LabelOp
from pu_geo.store import labels, store
from tests.browser.conftest import Village
from tests.browser.make_project import make_project
from tests.browser.real_app import AppServer, made_up_project
from tests.browser.steps import a_run, ask, at_rest, become, chip, on_wall, open_view, settle, show_wall, spot, until

pytestmark = [pytest.mark.browser, pytest.mark.ci]
SIDE_PX, N_BUILDINGS = 600, 64
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
    return Village(app.address, layout, ids)


def nothing_injected(part) -> None:
    found = part.locator(INJECTED).evaluate_all("(all) => all.map((each) => each.outerHTML.slice(0, 200))")
    assert found == []


def test_names_are_shown_as_they_are(page, hostile: Village) -> None:
    open_view(page, hostile)
    view = page.locator(".pugeo")
    _card_and_tooltip(page, view)
    _around_the_view(page)
    page.evaluate("document.activeElement.blur()")
    show_wall(page)
    name = next(each for each in on_wall(page, "Order", "id") if each in NAMES)
    page.mouse.move(*chip(page, name))
    view.locator(f".preview b[title={json.dumps(name)}]").wait_for()
    page.keyboard.press("3")
    view.locator(".picker .who").wait_for()
    nothing_injected(view)

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
        until(lambda name=name: card.locator(".id").inner_text() == f"ID {name}", 60)
        assert ANALYSTS[2] in card.inner_text()
        assert HOSTILE["picture"] in card.locator(".type span").all_inner_texts(), "a damage type of somebody's"
        assert card.locator("textarea").input_value() == HOSTILE["tag"]
    nothing_injected(view)
    page.keyboard.press("i")
    ask(page, "setView", [SIDE_PX / 2, SIDE_PX / 2], 1.5)
    at_rest(page)
    for name in NAMES:
        page.mouse.move(*spot(page, name))
        until(lambda name=name: view.locator(".tooltip b").get_attribute("title") == name, 60)
    nothing_injected(view)


def _around_the_view(page) -> None:
    """What Streamlit writes of them is no Markdown."""
    with a_run(page):
        page.get_by_text("Analysts", exact=True).click()
    page.get_by_text("by two or more").wait_for()
    text = page.get_by_test_id("stMain").inner_text().replace(JOINER, "")
    assert [name for name in NAMES if f"Building {number_of(page, name)}" not in text] == []
    assert f"{ANALYSTS[0]}: not damaged, {ANALYSTS[2]}: damaged" in text
    for part in page.get_by_test_id("stCaptionContainer").filter(has_text=ANALYSTS[0] + ":").all():
        nothing_injected(part)
    assert page.locator(LINKED).count() == 0
    sidebar = page.get_by_test_id("stSidebar")
    assert HOSTILE["tag"] + HOSTILE["picture"] in sidebar.inner_text().replace(JOINER, "")
    assert sidebar.get_by_test_id("stMarkdownContainer").locator("img, script").count() == 0


def number_of(page, name: str) -> int:
    """A building's place in the footprint file, from 1."""
    return page.evaluate("window.__pugeo.ids()").index(name) + 1
