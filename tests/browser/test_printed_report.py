"""The report in a real browser: it asks nobody for anything, runs nothing, and prints to at most three A4 pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tasks.made_up_map import EVIL, GRID, made_up_areas, made_up_audit, made_up_map

from pu_geo.tasks.report import write_report

pytestmark = [pytest.mark.browser, pytest.mark.slow]
A4_POINTS = (595, 842)


@pytest.fixture
def page(chromium) -> Iterator[object]:
    """A page that notes every request and every dialog."""
    context = chromium.new_context()
    page = context.new_page()
    page.requests, page.dialogs = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()


def written(folder: Path, *, is_long: bool) -> Path:
    """A report; a long one has text wherever it may stand, as long as it may be, and scripts in it."""
    areas = made_up_areas(200 if is_long else 5)
    damage_map = made_up_map(400)
    if is_long:
        words = f"{EVIL} and much more to say about it"
        told = {
            "title": words * 5, "event": words * 5, "license": words * 5, "run_warnings": [words * 9] * 9,
            "product_version": "v12", "n_positive_clicks": 4, "sha256": {f"post-{i}": "ab" * 32 for i in range(40)},
        }  # fmt: skip
        damage_map = made_up_map(400, **told)
        areas = [{**row, "name": f"{i} {words}", "pcode": "XX0100200300400500"} for i, row in enumerate(areas)]
    return write_report(folder / "report.html", damage_map, made_up_audit(), areas, None, grid=GRID)


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_it_makes_no_request_and_prints_to_at_most_three_pages(page, tmp_path: Path, is_long: bool) -> None:
    address = written(tmp_path, is_long=is_long).as_uri()
    page.goto(address)
    page.wait_for_timeout(200)
    assert [url for url in page.requests if not url.startswith("data:")] == [address]
    assert page.dialogs == []
    assert page.evaluate("document.querySelector('.map img').naturalWidth") == 1600
    assert page.evaluate("document.querySelectorAll('script').length") == 0
    pdf = page.pdf(prefer_css_page_size=True)
    assert 1 <= pages_of(pdf) <= 3
    boxes = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert {(round(float(w)), round(float(h))) for w, h in boxes} == {A4_POINTS}


def test_its_policy_stops_what_a_name_might_smuggle_in(page, tmp_path: Path) -> None:
    page.goto(written(tmp_path, is_long=False).as_uri())
    stopped = page.evaluate(
        """() => new Promise(done => {
            const found = [];
            document.addEventListener('securitypolicyviolation', event => {
                found.push(event.effectiveDirective);
                if (found.length === 2) done(found.sort());
            });
            document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'}));
            document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = true'}));
        })"""
    )
    assert stopped == ["img-src", "script-src-elem"]
    assert page.evaluate("window.ran") is None
