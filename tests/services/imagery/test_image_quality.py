"""What the map is told of the imagery: shifts in the order of its buildings, and who could not be aligned."""

from __future__ import annotations

import numpy as np
import pytest
from small_parts import add_chips

from pu_geo.project import alignment, contents, store
from pu_geo.project.alignment import Alignment
from pu_geo.project.layout import Layout
from pu_geo.services.imagery import image_quality

N = 20
IDS = [f"b{i}" for i in range(N)]


def align(layout: Layout, *, failed: int = 7, outside: int = 8) -> None:
    quality = np.full(N, 0.9)
    quality[[failed, outside]] = 0
    dx, dy, none = np.linspace(0, 1.9, N), np.full(N, -2.5), np.zeros(N, dtype=bool)
    found = Alignment(IDS, dx, dy, quality, np.arange(N) != outside, none, np.array([1.0, -2.5]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


def test_shifts_travel_as_centimetres_and_hundredths(project: Layout) -> None:
    align(project)
    sent = image_quality.shifts_for_browser(project)
    assert len(sent) == 5 * N
    cm, quality = np.frombuffer(sent[: 4 * N], "<i2").reshape(N, 2), np.frombuffer(sent[4 * N :], np.uint8)
    assert cm[3].tolist() == [30, -250]
    assert cm[8].tolist() == [image_quality.NOT_MEASURED] * 2  # one date does not show it
    assert (quality[3], quality[7], quality[8]) == (90, 0, 0)


def test_who_could_not_be_aligned_is_a_candidate_before_and_after_cutting_chips(project: Layout) -> None:
    align(project)
    before = image_quality.image_quality(project)
    assert (before.reasons, before.candidates) == ({}, {"b7": "misaligned"})
    add_chips(project, IDS, cloud_share=[0.9, 0.3] + [0.0] * (N - 2))
    after = image_quality.image_quality(project)
    assert after.reasons == {"b0": "cloud"}
    assert after.candidates == {"b0": "cloud", "b1": "cloud", "b7": "misaligned"}
    align(project, failed=2)
    again = image_quality.image_quality(project)
    assert before.shifts
    assert after.shifts != again.shifts, "another alignment has another name"
    assert again.candidates == {"b0": "cloud", "b1": "cloud", "b2": "misaligned"}


def test_one_building_is_told_of_in_full(project: Layout) -> None:
    add_chips(project, IDS, cloud_share=[0.9] + [0.0] * (N - 1))
    assert image_quality.imagery_of(project, "b0") == {
        "reason": "cloud", "candidate": "cloud", "post_hidden_share": 0.9,
    }  # fmt: skip
    align(project)
    moved, failed, outside = (image_quality.imagery_of(project, name) for name in ("b3", "b7", "b8"))
    assert (moved["shift_dx_m"], moved["shift_dy_m"], moved["shift_quality"]) == (pytest.approx(0.3), -2.5, 0.9)
    assert (failed["shift_quality"], failed["candidate"]) == (0, "misaligned")
    assert "shift_quality" not in outside
