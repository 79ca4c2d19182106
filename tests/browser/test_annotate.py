"""Annotate in the real app: by map, wall, queue, keys, box and lasso; what the page shows at once is what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.methods import catalog, herocon
from pu_geo.project.layout import Layout
from pu_geo.tasks.train.inputs import read_inputs
from pu_geo.training.run import Run
from tests.browser.steps import (
    ask,
    chip,
    drag,
    lasso,
    on_page,
    open_view,
    press,
    queue,
    see_all,
    settle,
    settled,
    show_wall,
    spot,
    spots,
    until,
    wait_for_frames,
    wait_for_view,
    wall,
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MEANS = {"1": "positive", "Enter": "positive", "2": "not_damaged", "3": "not_assessable"}
GAPS_MS = (0, 30, 100)


def click_all(page, places: dict[str, list[float]], expected: dict[str, str]) -> dict[str, str]:
    """Click each place, every third one with the right button, ever more slowly; return what should be labeled then."""
    expected = dict(expected)
    for k, (building, place) in enumerate(places.items()):
        wanted = "not_damaged" if k % 3 == 2 else "positive"
        page.mouse.click(*place, button="right" if k % 3 == 2 else "left")
        page.wait_for_timeout(GAPS_MS[3 * k // len(places)])
        if expected.pop(building, None) != wanted:
            expected[building] = wanted
    return expected


def assert_stored(page, village, expected: dict[str, str]) -> None:
    """At once on the page, soon in the project."""
    assert on_page(page) == expected, "the page shows a click at once"
    settle(page)
    assert village.labels() == on_page(page) == expected


def test_clicks_on_the_map_at_any_pace(page, village) -> None:
    received: list[int] = []
    page.on("websocket", lambda link: link.on("framereceived", lambda frame: received.append(len(frame))))
    open_view(page, village)
    see_all(page)
    look = ask(page, "look")
    before = village.labels()
    expected = click_all(page, spots(page, 30), before)
    assert_stored(page, village, expected)
    assert ask(page, "look") == look, "under a pointer that clicks, the map stays"

    building, place = next((each, place) for each, place in spots(page, 60).items() if each not in expected)
    for k in range(8):  # positive, cleared, not damaged, positive, cleared, not damaged, positive, cleared
        page.mouse.click(*place, button="right" if k % 3 == 2 else "left")
        page.wait_for_timeout(GAPS_MS[k % 3])
    assert building not in expected
    assert_stored(page, village, expected)

    settled(page)
    n_bytes = sum(received)
    for k, key in enumerate(("2", "0", "1")):  # keys mean the queue; these clicks go on the map
        page.mouse.click(*list(spots(page, 60).values())[-1 - k], button="right" if key == "2" else "left")
        settle(page)
    assert (sum(received) - n_bytes) / 3 < 40 * 1024, "a click costs a few kilobytes"

    expected = on_page(page)
    open_view(page, village)
    assert on_page(page) == village.labels() == expected, "and the same after a reload"


def choose(page, label: str, value: str) -> list[str]:
    page.get_by_label(label, exact=True).select_option(value)
    wait_for_frames(page)  # until then chips of the order before stand there
    return wall(page)


def test_the_wall_of_chips(page, village) -> None:
    open_view(page, village)
    before = village.labels()
    show_wall(page)
    shown = wall(page)
    assert (len(shown), choose(page, "Order", "id")) == (len(village.ids), sorted(village.ids))
    assert choose(page, "Order", "score") == shown
    places = {building: chip(page, building) for building in shown[:12]}
    expected = click_all(page, places, before)
    page.locator(".pugeo .renew").wait_for(timeout=30_000)
    assert wall(page) == shown, "new scores move no chip under the pointer"
    assert_stored(page, village, expected)

    press(page, "ArrowRight", "ArrowRight", "Enter", "ArrowRight", "2")  # on from the chip that was clicked last
    for building, key in ((shown[13], "Enter"), (shown[14], "2")):
        if expected.pop(building, None) != MEANS[key] or key == "2":  # Enter is a click: a second one clears
            expected[building] = MEANS[key]
    assert_stored(page, village, expected)
    wait_for_frames(page, 300)  # the wall has scrolled after the last chip
    page.mouse.move(*chip(page, shown[12]))
    preview = page.locator(".pugeo .preview")
    preview.wait_for(timeout=30_000)
    assert preview.locator(".picture").first.bounding_box()["width"] > 150
    page.keyboard.press("3")
    page.keyboard.press("k")
    page.get_by_label("Order", exact=True).get_by_text(f"Like building {village.ids.index(shown[12]) + 1}").wait_for(
        state="attached", timeout=30_000
    )
    assert wall(page)[0] == shown[12], "chips like this one first"
    settle(page)
    labels = village.labels()
    for label in ("positive", "not_damaged", "not_assessable"):
        assert set(choose(page, "Show", label)) == {building for building, given in labels.items() if given == label}
    open_view(page, village)
    assert wall(page) == [shown[12]], "the choice survives a reload"


def test_a_queue_by_keys_into_the_next(page, village) -> None:
    open_view(page, village)
    before, first = village.labels(), queue(page)
    ids, n = first["ids"], len(first["ids"])
    assert n == 20
    assert not set(ids) & set(before)
    checks = [building for building, kind in zip(ids, first["kinds"], strict=True) if kind == "audit"]
    assert checks
    assert all(ask(page, "score", building) is None for building in checks), "a check is answered by the pictures alone"
    keys = (["1", "2", "3", "Enter", "2"] * 4)[:n]
    for k, key in enumerate(keys[:-1]):
        page.keyboard.press(key)
        page.wait_for_timeout(GAPS_MS[3 * k // n])
    expected = {**before, **{building: MEANS[key] for building, key in zip(ids[:-1], keys[:-1], strict=True)}}
    assert on_page(page) == expected
    press(page, "Control+z")
    settle(page)
    page.wait_for_function("(id) => window.__pugeo.queue().current === id", arg=ids[-2], timeout=30_000)
    press(page, "3", "m")  # why the one before
    see_all(page, 3)
    look = ask(page, "look")
    page.mouse.click(*spot(page, ids[-1]))  # the last one
    assert_stored(page, village, {**expected, ids[-2]: "not_assessable", ids[-1]: "positive"})
    answers = village.answers()
    assert [answers[building].reason for building in (ids[2], ids[-2])] == ["unclear", "misaligned"]
    assert [answers[building].shown for building in ids[:-1]] == first["kinds"][:-1]
    page.wait_for_function("(id) => window.__pugeo.queue().id !== id", arg=first["id"], timeout=60_000)
    page.wait_for_timeout(700)
    assert ask(page, "look") == look, "whose last answer was on the map is not led away"
    second = queue(page)["ids"]
    assert not set(second) & set(village.labels()), "the next ones are others"
    press(page, "1", "n", "q")
    settle(page)
    assert village.labels().keys() == {*before, *ids, second[0]}
    page.wait_for_function("(id) => !window.__pugeo.queue().ids.includes(id)", arg=second[0], timeout=60_000)


def test_a_box_and_a_line_are_one_act_and_one_undo(page, village) -> None:
    open_view(page, village)
    see_all(page)
    page.evaluate("""() => {
      window.writes = 0;
      const set = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) { window.writes += key.startsWith("pugeo:log:"); set.call(this, key, value); };
    }""")
    before, places = village.labels(), ask(page, "onScreen", 60)
    corners = np.array([spot(page, each) for each in places[: len(places) // 2]])
    drag(page, [corners.min(0) - 12, corners.max(0) + 12])
    page.locator(".boxbar .choice.label1").click()
    settle(page)
    boxed = village.labels()
    assert on_page(page) == boxed
    assert len(boxed) > len(before) + 10
    assert page.evaluate("window.writes") == 1, "a write for each building froze the browser"
    press(page, "Control+z")
    settle(page)
    assert village.labels() == on_page(page) == before

    middle = np.mean([spot(page, each) for each in places], axis=0)
    lasso(page, [middle - 90, middle + 90], key="Alt")
    page.locator(".boxbar .choice.label3").click()
    press(page, "c")
    settle(page)
    marked = {each: answer for each, answer in village.answers().items() if answer.label == "not_assessable"}
    assert len(marked) > 5
    assert {answer.reason for answer in marked.values()} == {"cloud"}, "one letter is enough for all"
    press(page, "Control+z")
    settle(page)
    assert village.labels() == before
    press(page, "Control+Shift+Z")
    settle(page)
    assert {each for each, label in on_page(page).items() if label == "not_assessable"} == set(marked)
    assert on_page(page) == village.labels()


def test_the_card_of_a_building(page, village) -> None:
    open_view(page, village)
    see_all(page)
    free = [each for each in spots(page, 40).items() if each[0] not in village.labels()]
    (first, a), (second, b) = free[-2:]  # the card covers the upper left
    card = page.locator(".pugeo .card")
    comment = card.locator("textarea")
    page.mouse.click(*a)
    press(page, "i")
    box = card.get_by_role("button", name="roof").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    settle(page)  # the new ranking arrives, and the card is drawn again
    page.mouse.up()
    comment.focus()
    page.keyboard.type("2 3 q cab")
    page.keyboard.press("Escape")  # the keys are the view's again, and it is stored
    settle(page)
    assert (village.answers()[first].damage_types, village.answers()[first].comment) == (("roof",), "2 3 q cab")
    comment.fill("two of 3 <b>walls</b> gone")
    page.mouse.click(*b)  # the comment was not confirmed by anything
    settle(page)
    assert village.answers()[first].comment == "two of 3 <b>walls</b> gone"
    assert (village.answers()[second].damage_types, village.answers()[second].comment) == ((), "")
    page.mouse.click(*a, button="right")
    settle(page)
    assert village.answers()[first].damage_types == (), "types go with positives"
    press(page, "Control+z")
    settle(page)
    assert village.answers()[first].damage_types == ("roof",)

    page.mouse.click(*b)  # cleared, and selected
    page.mouse.click(*b)
    settle(page)
    page.route("**/operations", lambda route: route.fulfill(status=503, json={"problem": "Busy.", "hint": ""}))
    comment.focus()
    page.keyboard.type("half a sentence")
    page.reload()
    page.unroute("**/operations")
    wait_for_view(page)
    # The new page takes it over once the browser has let go of the old one.
    until(lambda: village.answers()[second].comment == "half a sentence", 60)  # what was being written when the page went


def test_several_types_of_a_building_reach_what_herocon_learns_from(page, village, screenshots, monkeypatch) -> None:
    open_view(page, village)
    pane = page.locator(".pugeo .queuepane")
    kind = lambda name: pane.get_by_role("button", name=f"{name}:")  # noqa: E731
    first = queue(page)["current"]
    press(page, "t", "Tab", "Enter")  # past "collapsed", to "roof"
    until(lambda: kind("roof").get_attribute("aria-label") == "roof: yes", 30)  # with the next frame
    for name in ("flooded", "burned", "burned"):  # the second press: no
        kind(name).click()
    assert queue(page)["current"] == first, "its other types may follow"
    pane.get_by_role("button", name="+ Type").click()
    page.keyboard.type("tarp on 2 walls")
    page.keyboard.press("Enter")
    settle(page)
    page.screenshot(path=screenshots / "types.png")
    answer = village.answers()[first]
    assert (answer.label, answer.damage_types, answer.absent_types) == (
        "positive",
        ("roof", "flooded", "tarp on 2 walls"),
        ("burned",),
    )
    pane.get_by_role("button", name="Keep for the next").click()
    press(page, "1")
    second = queue(page)["current"]
    until(lambda: kind("flooded").get_attribute("aria-label") == "flooded: yes", 30)
    kind("debris").click(button="right")
    until(lambda: kind("debris").get_attribute("aria-label") == "debris: no", 30)
    settle(page)
    assert second not in village.labels(), "what it has not makes no building damaged"
    kind("debris").click(button="right")
    page.screenshot(path=screenshots / "types_kept.png")
    press(page, "1")
    press(page, "Control+z")
    settle(page)
    assert second not in village.labels()
    press(page, "Control+Shift+Z")
    settle(page)
    press(page, "i")
    page.screenshot(path=screenshots / "types_card.png")
    names, known_of = labels_of_eq_7(village.layout, monkeypatch)
    assert set(names) == {"roof", "flooded", "tarp on 2 walls"}, "burned has no building of its own"
    assert {first, second} <= set(village.labels())
    assert known_of.count((1, 1, 1)) == 2, "both buildings have all three types"
    assert known_of.count((-1, -1, -1)) == 10, "nobody named the types of the ten damaged ones from before"


def labels_of_eq_7(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
    """Train HeroCon for a step with types from answers; return the types, and Eq. 7's labels of each building, -1 where not known."""
    given: list[tuple[int, ...]] = []
    real = herocon.formulas.supervised_loss

    def recorded(views, labels, *, is_known, **rest):
        given.extend(map(tuple, labels.int().masked_fill(~is_known, -1).tolist()))
        return real(views, labels, is_known=is_known, **rest)

    monkeypatch.setattr(herocon.formulas, "supervised_loss", recorded)
    settings = catalog.settings_for(
        "herocon", "quick", {"epochs": "1", "max_steps": "1", "labeled_batch": "64", "batch_size": "2000"}
    )
    data = read_inputs(layout).with_types(layout, "answers", catalog.card("herocon")).data(layout, settings)
    herocon.fit(data, settings, Run(seed=0))
    return data.type_names, given


def test_a_grade_is_one_key_or_one_click_and_the_bar_names_its_building(page, village) -> None:
    open_view(page, village)
    bar = page.locator(".pugeo .gradebar")
    grades = lambda *ids: [village.answers()[each].grade for each in ids]  # noqa: E731
    first, second, third = queue(page)["ids"][:3]
    press(page, "1")
    assert bar.locator(".who").inner_text() == f"Building {village.ids.index(first) + 1}", (
        "the queue has gone on; the bar has not"
    )
    bar.get_by_text("Keys 4 5 6: the large picture").wait_for(timeout=30_000)
    press(page, "5")
    assert not bar.locator(".who").count()
    press(page, "1")
    bar.get_by_text("Destroyed").click()
    settle(page)
    assert grades(first, second, third) == ["", "major", "destroyed"]
    press(page, "Control+z")
    settle(page)
    assert grades(third) == [""], "without the grade, still damaged"

    show_wall(page)
    one = next(each for each in wall(page) if each not in village.labels())
    page.mouse.move(*chip(page, one))
    preview = page.locator(".pugeo .preview")
    preview.wait_for(timeout=30_000)
    page.mouse.click(*chip(page, one))
    settle(page)
    page.wait_for_timeout(1_000)
    until(lambda: f"score {ask(page, 'score', one):.2f}" in preview.inner_text(), 30)  # that of the newest ranking
    assert bar.locator(".who").get_attribute("title") == f"ID {one}"
    bar.locator("kbd").first.wait_for(timeout=30_000)  # keys are about the same building
    press(page, "6", "4", "4", "5")  # given, changed, taken away, given
    settle(page)
    assert "Damaged: Major" in preview.inner_text()
    assert grades(one) == ["major"]
    assert choose(page, "Show", "grade:major") == [each for each in wall(page) if village.answers()[each].grade == "major"]
    assert set(wall(page)) == {second, one}
    assert choose(page, "Show", "grade:")
    assert "Damaged, not graded" in page.locator(".pugeo .legend").inner_text()
