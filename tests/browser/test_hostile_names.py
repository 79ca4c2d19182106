"""Names out of somebody's file with script, markup or Markdown in them are shown as they are, and do nothing, on Annotate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from browser.damage_view_steps import chip, spot
from browser.make_project import make_project

from pu_geo.project import labels, store
from pu_geo.project.labels import LabelOp
from pu_geo.project.layout import Layout
from tests.browser.real_app import AppServer, made_up_project, open_annotate

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SIDE_PX, N_BUILDINGS = 600, 64
ENOUGH = 8  # of the names, in queues that hold others too
JOINER = "\u2060"  # may stand between the signs of an address, so that it is not made a link
ELSEWHERE = "http://203.0.113.9"  # an address for documentation; a request for it would be seen
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
ANALYSTS = ("ann", f"bob ![x]({ELSEWHERE}/bob.png) <b>", "**eve** [x](javascript:alert(1)) :red[x]")
INJECTED = (
    "img, script, iframe, object, embed, a, b b, [onerror], [onload], [onmouseover], .katex, strong, code, del, h1, li"
)
LINKED = "a[href*='203.0.113.9'], a[href*='example.com'], a[href^='javascript']"


@pytest.fixture(scope="module")
def hostile(chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Layout]]:
    """The real app with a project whose first buildings, and two of its analysts, have such names, and who disagree."""
    folder = tmp_path_factory.mktemp("hostile")
    pictures = make_project(folder / "pictures", n=N_BUILDINGS, side=SIDE_PX)
    ids = [*HOSTILE.values(), *(f"b{i:03d}" for i in range(N_BUILDINGS - len(HOSTILE)))]
    layout = made_up_project(folder / "hostile.pugeo", ids, pictures=pictures)
    said = {"damage_types": (HOSTILE["script"][:60], HOSTILE["picture"]), "comment": HOSTILE["tag"]}
    with store.connect(layout) as db:
        db.execute("UPDATE pugeo_meta SET value = ? WHERE key = 'name'", (HOSTILE["tag"] + HOSTILE["picture"],))
        for analyst, label in zip(ANALYSTS, ("not_damaged", "cleared", "positive"), strict=True):
            ops = [LabelOp(f"{analyst}-{i}", each, label) for i, each in enumerate(HOSTILE.values())]
            if label == "positive":
                ops = [dataclasses.replace(op, **said) for op in ops]
            labels.append(db, ops, analyst=analyst, screen="map")
    with AppServer(folder / "home", project=layout) as server:
        yield server.address, layout


@pytest.fixture
def page(chromium_page) -> Iterator[object]:
    """A page on which, after the test, no dialog has opened and no script of a name has run."""
    dialogs: list[str] = []

    def note(dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    chromium_page.on("dialog", note)
    yield chromium_page
    chromium_page.wait_for_timeout(300)
    assert dialogs == [], "a dialog opened"
    assert chromium_page.evaluate("window.hit") is None, "a name ran as script"


def nothing_injected(part) -> None:
    found = part.locator(INJECTED).evaluate_all("(all) => all.map((each) => each.outerHTML.slice(0, 200))")
    assert found == []


def test_map_card_and_tooltip_show_the_name_itself(page, hostile) -> None:
    open_annotate(page, hostile[0])
    view = page.locator(".pugeo")
    page.keyboard.press("i")
    card = view.locator(".card")
    for name in HOSTILE.values():
        page.evaluate("(id) => window.__pugeo.select(id)", name)
        assert card.locator("b").inner_text() == name
        assert ANALYSTS[2] in card.inner_text()
        assert HOSTILE["picture"] in card.locator(".choice").all_inner_texts(), "a damage type of somebody's"
        assert card.locator("textarea").input_value() == HOSTILE["tag"]
    nothing_injected(view)
    page.keyboard.press("i")
    page.evaluate(f"window.__pugeo.setView([{SIDE_PX / 2}, {SIDE_PX / 2}], 1.5)")
    page.wait_for_timeout(500)
    for name in HOSTILE.values():
        page.mouse.move(*spot(page, name))
        view.locator(".tooltip b").get_by_text(name, exact=True).wait_for(timeout=3_000)
    nothing_injected(view)


def test_wall_its_larger_picture_and_the_order_after_a_chip(page, hostile) -> None:
    open_annotate(page, hostile[0])
    view = page.locator(".pugeo")
    page.keyboard.press("w")
    page.get_by_label("Order", exact=True).select_option("id")
    page.wait_for_timeout(500)
    seen = [each for each in page.evaluate("window.__pugeo.wallIds()") if each in HOSTILE.values()]
    assert len(seen) == len(HOSTILE)
    for name in seen[:4]:
        page.mouse.move(*chip(page, name))
        view.locator(".preview").get_by_text(name, exact=True).wait_for(timeout=3_000)
        page.keyboard.press("k")
        page.wait_for_function("window.__pugeo.order().order === 'like'", timeout=5_000)
        assert page.get_by_label("Order", exact=True).locator("option:checked").inner_text() == f"Like {name}"
        page.get_by_label("Order", exact=True).select_option("id")
        page.wait_for_timeout(200)
    nothing_injected(view)


def test_the_queue_and_the_reason_picker(page, hostile) -> None:
    address, layout = hostile
    with store.connect(layout) as db:  # nobody has answered: they are likely in the first queue
        ops = [LabelOp(f"clear-{i}", each, "cleared") for i, each in enumerate(HOSTILE.values())]
        labels.append(db, ops, analyst=ANALYSTS[2], screen="map")
    open_annotate(page, address)
    view = page.locator(".pugeo")
    who, shown = view.locator(".queuepane .who"), set()
    for _ in range(N_BUILDINGS):
        if len(shown & set(HOSTILE.values())) >= ENOUGH:
            break
        page.wait_for_function("(shown) => !shown.includes(window.__pugeo.queue().current)", arg=[*shown], timeout=30_000)
        current = page.evaluate("window.__pugeo.queue().current")
        page.wait_for_timeout(50)  # it is drawn with the next frame
        assert who.inner_text() == current
        shown.add(current)
        page.keyboard.press("3")
        assert view.locator(".picker .who").inner_text() == current
        nothing_injected(view)
        page.keyboard.press("Escape")
    assert len(shown & set(HOSTILE.values())) >= ENOUGH, "such names came in the queue"


def test_texts_around_the_view_are_no_markdown(page, hostile) -> None:
    address, layout = hostile
    with store.connect(layout) as db:  # ann and eve disagree on all of them
        for analyst, label in ((ANALYSTS[0], "not_damaged"), (ANALYSTS[2], "positive")):
            ops = [LabelOp(f"again-{analyst}-{i}", each, label) for i, each in enumerate(HOSTILE.values())]
            labels.append(db, ops, analyst=analyst, screen="map")
    open_annotate(page, address)
    page.get_by_text("Analysts", exact=True).click()
    page.get_by_text("by two or more").wait_for(timeout=30_000)
    page.wait_for_timeout(1_000)
    told = page.get_by_test_id("stMain").inner_text().replace(JOINER, "")
    for name in HOSTILE.values():
        assert name in told
    assert f"{ANALYSTS[0]}: not damaged, {ANALYSTS[2]}: positive" in told
    for part in page.get_by_test_id("stCaptionContainer").filter(has_text=ANALYSTS[0] + ":").all():
        nothing_injected(part)
    assert page.locator(LINKED).count() == 0
    sidebar = page.get_by_test_id("stSidebar")
    assert HOSTILE["tag"] + HOSTILE["picture"] in sidebar.inner_text().replace(JOINER, "")
    assert sidebar.get_by_test_id("stMarkdownContainer").locator("img, script").count() == 0


def test_an_analysts_own_hostile_name(page, hostile) -> None:
    open_annotate(page, hostile[0])
    box = page.get_by_label("Analyst", exact=True)
    box.fill(ANALYSTS[1])
    box.press("Enter")
    page.wait_for_timeout(1_500)
    page.keyboard.press("Escape")
    target = page.evaluate("window.__pugeo.ids()")[-1]
    page.evaluate("(id) => window.__pugeo.select(id)", target)
    page.evaluate("document.activeElement.blur()")
    page.mouse.click(*spot(page, target))
    page.wait_for_function("window.__pugeo.pending() === 0", timeout=30_000)
    with store.connect(hostile[1]) as db:
        assert labels.current(db)[target].analyst == ANALYSTS[1]
    page.get_by_text("Analysts", exact=True).click()
    page.wait_for_timeout(1_500)
    nothing_injected(page.locator(".pugeo"))
