"""`benchmarks.herocon_joplin`: ways of a draw learn from the same answers, as the app makes types of grades, and are judged by all others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks import herocon_joplin as simulation
from benchmarks.herocon_joplin import ANSWERS, GRADES, Draw, Found, Town

N = 120


@pytest.fixture(scope="module")
def town() -> Town:
    """Damage of which each grade shows in a column of its own."""
    rng = np.random.default_rng(0)
    grade = np.arange(N) % len(GRADES)
    views = 6 + rng.normal(size=(2, N, 8))
    for step in range(1, len(GRADES)):
        views[:, grade >= step, step] += 4
    return Town(views.astype(np.float16), grade, rng.uniform(0, 1000, (N, 2)))


def test_grades_become_the_columns_that_the_app_makes(town: Town) -> None:
    draw = Draw(town, simulation.drawn(town, "10 of each grade", 0), 0)
    data = draw.graded()
    assert data.type_labels is not None
    assert data.is_ordinal
    assert data.type_names == ("at least Minor", "at least Major", "at least Destroyed")
    assert np.array_equal(data.type_labels[draw.is_answered] == 1, town.truth[draw.is_answered])
    assert (data.type_labels[~draw.is_answered] == -1).all()
    assert (data.is_positive.sum(), (data.classes == 0).sum()) == (30, 10)


def test_the_table_has_the_mean_of_paired_differences(tmp_path: Path) -> None:
    rows = [
        Found(simulation.ALL, next(iter(ANSWERS)), seed, way, 80, (60, 40, 20), (0.9, 0.9, value))
        for seed, way, value in (
            (0, simulation.HERO, 0.6), (0, simulation.DEFAULT, 0.9), (1, simulation.HERO, 0.9), (1, simulation.DEFAULT, 0.9),
        )
    ]  # fmt: skip
    kept = tmp_path / "kept.jsonl"
    kept.write_text("".join(json.dumps(asdict(each)) + "\n" for each in rows))
    assert simulation.read_kept(kept) == rows
    text = simulation.section(kept)
    # differences of the macro AP: -.1 and 0; t(.975, 1) = 12.7, so half an interval is 12.7 * .0707 / sqrt(2) = .635
    assert "| default, once a grade | 80 | 0.900 | 0.900 | 0.900 | 0.900 | -0.050 (-0.685 to +0.585) |" in text
    assert simulation.section(tmp_path / "none.jsonl") == ""
