"""What a run says in each scene, and where that is doubtful."""

from __future__ import annotations

import numpy as np

from pu_geo.analysis.scenes import doubts, scene_rows

N = 40
FACTS = {"bands": "post", "nodata_share": [0.0] * N, "post_scene": ["post-1"] * 20 + ["post-2"] * 20}
NONE = np.full(N, "", "<U24")


def scores(*of_second: float) -> np.ndarray:
    """Half of the first scene scores high; the second scores as given, over and over."""
    return np.array(([0.9, 0.2] * 10) + list(of_second) * (20 // len(of_second)), np.float32)


def labels(**at: str) -> list[str | None]:
    return [at.get(f"b{row}") for row in range(N)]


def test_a_scene_without_a_click_and_without_a_flag_is_doubtful() -> None:
    first, second = scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", b2="positive"))
    assert (first.n, first.n_damaged, first.n_flagged, first.doubt) == (20, 2, 8, "")
    assert first.flag_rate == 8 / 18
    assert (second.n, second.n_damaged, second.n_flagged, second.flag_rate) == (20, 0, 0, 0.0)
    assert "post-2" in second.doubt
    assert "0 of 20 are flagged (44 % in scenes with answers)" in second.doubt.replace("44%", "44 %")


def test_answers_there_take_the_doubt_away() -> None:
    some = dict.fromkeys(["b20", "b21", "b22", "b23", "b24"], "not_damaged")
    assert doubts(scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", **some))) == []
    assert doubts(scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", b30="positive"))) == []


def test_scores_that_stand_apart_are_doubtful_though_many_are_flagged() -> None:
    (words,) = doubts(scene_rows(FACTS, scores(0.95, 0.99), 0.5, NONE, labels(b0="positive")))
    assert "above nearly all" in words


def test_a_scene_that_is_not_assessed_says_what_to_do() -> None:
    why = np.where(np.arange(N) < 20, "", "scene_without_answers").astype("<U24")
    _, second = scene_rows(FACTS, scores(0.9, 0.2), 0.5, why, labels(b0="positive"))
    assert (second.n_assessed, second.n_flagged, second.flag_rate) == (0, 0, None)
    assert second.doubt.startswith("20 buildings of scene post-2 are not assessed")


def test_rare_damage_promises_nothing_in_a_small_scene() -> None:
    rare = np.full(N, 0.1, np.float32)
    rare[:2] = 0.9
    assert doubts(scene_rows(FACTS, rare, 0.5, NONE, labels(b0="positive"))) == []


def test_old_chip_sets_have_no_rows() -> None:
    assert scene_rows({"nodata_share": [0.0] * N}, scores(0.1), 0.5, NONE, labels()) == []
