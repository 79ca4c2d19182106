"""Annotate in the real app: by wall, queue, keys, box, line and card; what the page shows at once is what is stored."""

import numpy as np
import pytest

from pu_geo.answers import queueing
from pu_geo.assessment import random_audits
from tests.browser import steps
from tests.browser.conftest import SIDE_PX
from tests.browser.steps import ask, chip, on_page, on_wall, open_view, press, queue, settle, wall

pytestmark = [pytest.mark.browser, pytest.mark.ci]
MEANS = {"1": "positive", "Enter": "positive", "2": "not_damaged", "3": "not_assessable"}
HOW_MANY_COLORS = """(all) => all.map((each) =>
    new Set(new Uint32Array(each.getContext("2d").getImageData(0, 0, each.width, each.height).data.buffer)).size)"""


def colors_of(page, selector: str) -> list[int]:
    """Return how many colors each picture has, once all are drawn."""
    pictures = page.locator(f".pugeo {selector}")
    steps.until(lambda: pictures.evaluate_all("(all) => all.length && all.every((each) => each.dataset.drawn)"), 60, page)
    return pictures.evaluate_all(HOW_MANY_COLORS)


def test_the_wall_of_chips(page, village) -> None:
    open_view(page, village)
    assert min(colors_of(page, ".large canvas")) > 50, "the ground, not an empty canvas"
    before = village.labels()
    steps.show_wall(page)
    assert min(colors_of(page, ".chip canvas")) > 50
    shown = wall(page)
    assert (len(shown), on_wall(page, "Order", "id")) == (len(village.ids), sorted(village.ids))
    assert on_wall(page, "Order", "score") == shown
    far = next(each for each in reversed(shown[:12]) if each not in ask(page, "onScreen"))
    page.mouse.click(*chip(page, far))
    steps.at_rest(page)
    assert far in ask(page, "onScreen"), "a click on the wall moves the map"
    expected = steps.click_all(page, {each: chip(page, each) for each in shown[:12]}, on_page(page))
    page.locator(".pugeo .renew").wait_for()
    assert wall(page) == shown, "new scores move no chip under the pointer"
    steps.assert_stored(page, village, expected)

    press(page, "ArrowRight", "ArrowRight", "Enter", "ArrowRight", "2")  # on from the chip that was clicked last
    for building, key in ((shown[13], "Enter"), (shown[14], "2")):
        if expected.pop(building, None) != MEANS[key] or key == "2":  # Enter is a click: a second one clears
            expected[building] = MEANS[key]
    steps.assert_stored(page, village, expected)
    steps.at_rest(page)  # the wall has scrolled after the last chip
    page.mouse.move(*chip(page, shown[12]))
    page.locator(".pugeo .preview").wait_for()
    assert page.evaluate("window.__pugeo.selected") == shown[14], "a pointer that passes by moves no cursor"
    steps.select(page, chip(page, shown[12]))
    page.keyboard.press("3")
    page.keyboard.press("k")
    words = f"Like building {village.ids.index(shown[12]) + 1}"
    page.get_by_label("Order", exact=True).get_by_text(words).wait_for(state="attached")
    assert wall(page)[0] == shown[12], "chips like this one first"
    one = next(each for each in wall(page)[:20] if each not in on_page(page) and ask(page, "chipOf", each))
    page.mouse.click(*chip(page, one))
    press(page, "6", "4", "4", "5")  # given, changed, taken away, given
    settle(page)
    assert village.answers()[one].grade == "major"
    assert on_wall(page, "Show", "grade:major") == [one]
    labels = village.labels()
    assert before.items() != labels.items()
    for label in ("positive", "not_damaged", "not_assessable"):
        assert set(on_wall(page, "Show", label)) == {building for building, given in labels.items() if given == label}
    open_view(page, village)
    assert wall(page) == [shown[12]], "the choice survives a reload"

    on_wall(page, "Show", "all")
    last = wall(page)[-1]
    assert ask(page, "chipOf", last) is None
    page.mouse.click(*steps.go_to(page, last))
    top, box = chip(page, last)[1], page.locator(".pugeo .scroller").bounding_box()
    assert box["y"] < top < box["y"] + box["height"], "a click on the map brings its chip into view"
    ask(page, "setView", [-SIDE_PX, 0], 0.5)  # beside the picture
    assert on_page(page)[last] == "positive"
    assert last not in on_wall(page, "Show", "not_damaged")
    labels = on_page(page)
    assert page.evaluate("window.__pugeo.target") is None, "neither map nor wall shows it now"
    press(page, "2", "0", "Backspace", "Enter")
    assert on_page(page) == labels
    settle(page)


def test_a_queue_by_keys_into_the_next(page, village) -> None:
    open_view(page, village)
    before, first = village.labels(), queue(page)
    ids, n = first["ids"], len(first["ids"])
    assert n == 20
    assert not set(ids) & set(before)
    checks = [building for building, kind in zip(ids, first["kinds"], strict=True) if kind == "audit"]
    assert checks
    assert all(ask(page, "score", building) is None for building in checks), "a check is answered by the pictures alone"
    keys, asked = (["1", "2", "3", "Enter", "2"] * 4)[:n], []
    for k, key in enumerate(keys[:-1]):
        asked.append(
            queue(page)
        )  # newer scores put others in the place of those that wait, never of the picture that is large
        page.keyboard.press(key)
        page.wait_for_timeout((0, 30, 100)[3 * k // n])  # the pace of a hand
    ids, kinds = [*(each["current"] for each in asked), queue(page)["current"]], [each["kind"] for each in asked]
    assert len(set(ids)) == n
    expected = {**before, **{building: MEANS[key] for building, key in zip(ids[:-1], keys[:-1], strict=True)}}
    assert on_page(page) == expected
    press(page, "Control+z")
    settle(page)
    page.wait_for_function("(id) => window.__pugeo.queue().current === id", arg=ids[-2])
    press(page, "3", "m")  # why the one before
    settle(page)
    while len(still_open := [each for each in queue(page)["ids"] if each not in on_page(page)]) > 1:
        expected[queue(page)["current"]] = "not_damaged"  # in the place of one whose answer was on its way
        press(page, "2")
        settle(page)
    ids[-1] = still_open[0]
    steps.see_all(page, 3)
    look = ask(page, "look")
    page.mouse.click(*steps.spot(page, ids[-1]))  # the last one
    steps.assert_stored(page, village, {**expected, ids[-2]: "not_assessable", ids[-1]: "positive"})
    answers = village.answers()
    assert [answers[building].reason for building in (ids[2], ids[-2])] == ["unclear", "misaligned"]
    assert [answers[building].shown for building in ids[:-1]] == kinds
    second = steps.queue_goes_on(page, first)["ids"]
    steps.at_rest(page)
    assert ask(page, "look") == look, "whose last answer was on the map is not led away"
    assert not set(second) & set(village.labels()), "the next ones are others"

    page.keyboard.press("n")  # from the building that was clicked
    three = [queue(page)["current"]]
    press(page, "1")
    three.append(queue(page)["current"])
    who = page.locator(".pugeo .gradebar .who")
    who.get_by_text(f"Building {village.ids.index(three[1]) + 1}").wait_for()  # with the next one
    press(page, "5")
    three.append(queue(page)["current"])
    page.locator(".pugeo .gradebar").get_by_text("Destroyed").click()
    press(page, "n", "q")
    settle(page)
    assert [village.answers()[each].grade for each in three] == ["", "major", "destroyed"]
    assert village.labels().keys() == {*expected, *ids, *three}
    page.wait_for_function("(id) => !window.__pugeo.queue().ids.includes(id)", arg=three[0])


def test_a_box_and_a_line_are_one_act_and_one_undo(page, village) -> None:
    open_view(page, village)
    steps.see_all(page)
    page.evaluate("""() => {
      window.writes = 0;
      const set = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) { window.writes += key.startsWith("pugeo:log:"); set.call(this, key, value); };
    }""")
    before, places = village.labels(), ask(page, "onScreen", 60)
    corners = np.array([steps.spot(page, each) for each in places[: len(places) // 2]])
    steps.drag(page, [corners.min(0) - 12, corners.max(0) + 12])
    page.locator(".boxbar .choice.label1").click()
    settle(page)
    boxed = village.labels()
    assert on_page(page) == boxed
    assert len(boxed) > len(before) + 10
    assert page.evaluate("window.writes") == 1, "a write for each building froze the browser"
    press(page, "Control+z")
    settle(page)
    assert village.labels() == on_page(page) == before

    middle = np.mean([steps.spot(page, each) for each in places], axis=0)
    steps.lasso(page, [middle - 90, middle + 90], key="Alt")
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


def test_the_card_of_a_building_and_what_is_being_written_on_it(page, village) -> None:
    open_view(page, village)
    steps.see_all(page)
    free = [each for each in steps.spots(page, 40).items() if each[0] not in village.labels()]
    (first, a), (second, b) = free[-2:]  # the card covers the upper left
    card = page.locator(".pugeo .card")
    comment = card.locator("textarea")
    page.mouse.click(*a)
    press(page, "i")
    card.get_by_role("button", name="+ Type").click()  # nobody uses types here yet
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
    comment.focus()
    page.keyboard.type("next t")
    before, old = village.labels(), queue(page)
    queueing.advance(village.layout, "ann", done=old["id"])
    other = next(each for each in village.ids if each not in {*before, *old["ids"]})
    village.put("bob", {other: "positive"})
    ask(page, "rerun")
    steps.queue_goes_on(page, old)
    page.keyboard.type("o church, 2 floors down")  # goes on when the next queue comes; no letter is an answer
    card.locator(".who").click()  # which leaves the field
    settle(page)
    assert village.answers()[second].comment == "next to church, 2 floors down"
    village.put("bob", {second: "positive"})
    page.wait_for_function("(id) => window.__pugeo.labels()[id] === 'positive'", arg=second)
    comment.click()
    page.keyboard.type("and ")
    village.put("bob", {second: "cleared"})  # the field goes away
    comment.wait_for(state="hidden")
    page.keyboard.type("2 cars, 1 tree")
    settle(page)
    before.pop(second)
    assert village.labels() == on_page(page) == {**before, other: "positive"}

    page.mouse.click(*b)
    settle(page)
    page.route("**/operations", lambda route: route.fulfill(status=503, json={"problem": "Busy.", "hint": ""}))
    comment.focus()
    page.keyboard.type("half a sentence")
    page.reload()
    page.unroute("**/operations")
    steps.wait_for_view(page)
    # The new page takes it over once the browser has let go of the old one.
    steps.until(lambda: village.answers()[second].comment == "half a sentence", 60, page)


def test_keys_are_about_what_was_clicked_and_random_checks_about_themselves_alone(page, village) -> None:
    """Before: a click on the map stored building 1,248, and key 4 graded the queue's 1,250; a click amid an audit was an ordinary label."""
    open_view(page, village)
    before, at_first = village.labels(), queue(page)
    free = next(each for each in village.ids if each not in before and each not in at_first["ids"])
    page.mouse.click(*steps.go_to(page, free))
    number = village.ids.index(free) + 1
    page.locator(".pugeo .queuepane .facts").get_by_text(f"Building {number}", exact=True).wait_for()
    press(page, "4")
    settle(page)
    answer = village.answers()[free]
    assert (answer.label, answer.grade, on_page(page)) == ("positive", "destroyed", {**before, free: "positive"})
    press(page, "w", "q")  # the wall, and the queue again
    press(page, "2")
    settle(page)
    assert village.labels() == {**before, free: "positive", at_first["current"]: "not_damaged"}

    random_audits.begin_stop_check(village.layout, "ann")
    steps.open_view(page, village)
    labels, checks = village.labels(), queue(page)
    assert set(checks["kinds"]) == {"audit"}
    steps.see_all(page, 3)
    other = next(each for each in ask(page, "onScreen") if each not in checks["ids"])
    for button in ("left", "right"):
        page.mouse.click(*steps.spot(page, other), button=button)
    steps.drag(page, [np.array(steps.spot(page, other)) - 40, np.array(steps.spot(page, other)) + 40])
    press(page, "h", "w")
    settle(page)
    assert village.labels() == labels
    assert not any(page.locator(part).is_visible() for part in (".pugeo .wallpane", ".boxbar"))
    press(page, "2")
    settle(page)
    assert village.answers()[checks["current"]].shown == "audit"
    steps.go(page, "Explore")
    page.get_by_text("nothing else is labeled meanwhile").wait_for()
    assert not page.locator(".pugeo").count()
    page.get_by_role("button", name="Leave completeness test").click()
    steps.wait_for_view(page, "explore")
