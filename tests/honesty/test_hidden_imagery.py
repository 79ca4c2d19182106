"""What imagery hides of a building is known: variants of Joplin against what was painted over each outline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from honesty import variants
from honesty.variants import DAMAGED, Variant, chipped
from small_parts import mostly_long

MADE: dict[str, Callable[[Path, Path], Variant]] = {
    "unaltered": variants.unaltered,
    "black fill": variants.filled,
    "white fill": partial(variants.filled, color=255),
    "gray fill": partial(variants.filled, color=128),
    "black fill, JPEG": variants.jpeg_filled,
    "white fill, JPEG": partial(variants.jpeg_filled, color=255),
    "black fill before": partial(variants.filled, role="pre"),
    "black fill over valid pixels": variants.overlapped,
    "cloud before": partial(variants.clouded, role="pre"),
    "cloud, 60 %": partial(variants.clouded, thick=0.6),
    "cloud, 75 %": partial(variants.clouded, thick=0.75),
    "cloud, 85 %": partial(variants.clouded, thick=0.85),
    "cloud, 75 %, before": partial(variants.clouded, role="pre", thick=0.75),
    "clouds of 20 m": partial(variants.small_clouded, diameter_m=20, soft_m=8),
    "clouds of 30 m": variants.small_clouded,
    "clouds of 40 m": partial(variants.small_clouded, diameter_m=40, soft_m=12),
    "clouds of 30 m before": partial(variants.small_clouded, role="pre"),
    "nodata through houses": variants.cut_through,
    "haze": variants.hazy,
    "uint16": variants.in_16_bits,
    "2 m before": variants.coarse_before,
    "half before": variants.half_before,
}
MISSED = {"clouds of 20 m": 0.1, "clouds of 40 m": 0.03, "white fill, JPEG": 0.02}
"""Share of hidden houses that may be missed, where any may be."""


@pytest.fixture(autouse=True)
def quick_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pu_geo.tasks.imagery.chip._compute_features", lambda *_: ())


def hidden_of(facts: dict[str, Any], role: str) -> dict[str, float]:
    """Return building id -> share of the outline that is hidden on a date, by all three together."""
    shares = [facts[f"{role}_outline"][key] for key in ("outside", "nodata", "cloud")]
    return dict(zip(facts["building_ids"], map(sum, zip(*shares, strict=True)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_long(MADE, "clouds of 30 m"))
def test_hidden_houses_are_known(name: str, joplin: Path, tmp_path: Path) -> None:
    variant, n_altered = MADE[name](joplin, tmp_path / "scenes"), 0
    _, facts = chipped(variant, tmp_path / "event.pugeo")
    for role in ("pre", "post"):
        said, truth, touched = hidden_of(facts, role), variant.hidden[role], variant.touched[role]
        hidden = [uid for uid in said if variant.damage[uid] in DAMAGED and truth[uid] > 0.5]
        n_found = sum(said[uid] > 0.4 for uid in hidden)
        n_false = sum(touched[uid] < 0.2 and said[uid] > 0.4 for uid in said)
        n_other = sum(share < 0.2 for share in touched.values())
        sys.stdout.write(f"{name}, {role}: hidden {len(hidden)}, found {n_found}, falsely hidden {n_false} of {n_other}\n")
        assert n_found >= len(hidden) * (1 - MISSED.get(name, 0.0))
        assert n_false <= 0.01 * n_other
        n_altered += len(hidden)
    is_altered = name not in ("unaltered", "black fill over valid pixels", "haze", "uint16", "2 m before")
    assert (n_altered >= 9) == is_altered
