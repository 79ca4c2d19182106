"""The report in a real browser: it asks nobody for anything, runs nothing, and prints to at most three pages of A4 or Letter."""

import re
from pathlib import Path

import numpy as np
import pytest
from map_parts import EVIL, GRID, made_up_areas, made_up_audit, made_up_map

from pu_geo.maps.report_job import write_report

pytestmark = [pytest.mark.browser, pytest.mark.ci]
POINTS = {"A4": (595, 842), "Letter": (612, 792)}
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
SMUGGLE = """() => new Promise(done => {
    const found = [];
    document.addEventListener('securitypolicyviolation', event => {
        found.push(event.effectiveDirective);
        if (found.length === 2) done(found.sort());
    });
    document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'}));
    document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = true'}));
})"""


def written(folder: Path, *, is_long: bool) -> Path:
    """A report; a long one has text wherever it may stand, as long as it may be, and scripts in it."""
    areas = made_up_areas(200 if is_long else 5)
    damage_map = made_up_map(400, audit=made_up_audit())
    if is_long:
        words = f"{EVIL} and much more to say about it"
        more = {
            "title": words * 5, "cannot_say": [words * 9] * 20, "audit": made_up_audit(),
            "product_version": "v12", "n_positive_clicks": 4, "sha256": {f"post-{i}": "ab" * 32 for i in range(40)},
        }  # fmt: skip
        damage_map = made_up_map(400, **more)
        areas = [{**row, "name": f"{i} {words}", "pcode": "XX0100200300400500"} for i, row in enumerate(areas)]
    return write_report(folder / "report.html", damage_map, areas, None, grid=GRID)


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_it_makes_no_request_runs_nothing_and_prints_to_at_most_three_pages(page, tmp_path: Path) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for is_long in (False, True):
        (tmp_path / str(is_long)).mkdir()
        report = written(tmp_path / str(is_long), is_long=is_long)
        requests.clear()
        page.goto(report.as_uri(), wait_until="networkidle")
        assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
        assert page.evaluate("document.querySelector('.map img').naturalWidth") == 1600
        assert page.evaluate("document.querySelectorAll('script').length") == 0
        adjusted = page.evaluate("getComputedStyle(document.body).fontSizeAdjust")
        assert adjusted != "none", "with wide or narrow fonts it is as long"
        for paper, points in POINTS.items():
            pdf = page.pdf(format=paper, prefer_css_page_size=True)
            assert 1 <= pages_of(pdf) <= 3
            boxes = np.array(re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf), float)
            assert np.abs(boxes - points).max() <= 1, "the paper that was chosen, to whole pixels"
    stopped = page.evaluate(SMUGGLE)
    assert stopped == ["img-src", "script-src-elem"], "its policy stops what a name might smuggle in"
    assert page.evaluate("window.ran") is None
