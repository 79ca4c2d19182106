"""On the damage map a click tells a building's story; where answers are given it stays untold."""

from __future__ import annotations

from browser.damage_view_steps import open_view, spots


def test_a_click_on_the_damage_map_tells_the_story(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app, "mode=view")
    (building_id, place), (other, there), *_ = list(spots(page).items())[-3:]
    page.mouse.click(*place)
    story = page.locator(".pugeo .story")
    story.get_by_text("rank 12 of 3,000").wait_for()
    text = story.inner_text()
    assert "2026-01-02 03:04 <img src=x onerror=window.hit=1>: damaged" in text
    assert "storeys: 2" in text
    assert "round 1: not flagged" in text
    assert page.evaluate("window.hit") is None
    assert story.locator("img").count() == 0
    story.locator(".picture").last.click()  # a chip that looks like it
    assert page.evaluate("window.__pugeo.selected") != building_id
    page.locator(".pugeo .card .cardhead button").click()
    assert page.locator(".pugeo .card").is_hidden()
    page.mouse.click(*there)
    page.locator(".pugeo .card").wait_for()
    assert page.evaluate("window.__pugeo.selected") == other


def test_no_story_is_told_where_answers_are_given(chromium_page, app: str) -> None:
    page = chromium_page
    open_view(page, app)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/story/" in request.url else None)
    page.mouse.click(*list(spots(page).values())[-1])
    page.keyboard.press("i")
    page.locator(".pugeo .card").wait_for()
    page.wait_for_timeout(500)
    assert asked == []
    assert page.locator(".pugeo .story").is_hidden()
