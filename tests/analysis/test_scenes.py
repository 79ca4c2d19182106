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
    assert "0 of 20 are flagged" in second.doubt
    assert scene_rows({"nodata_share": [0.0] * N}, scores(0.1), 0.5, NONE, labels()) == [], "an old chip set"


def test_answers_there_take_the_doubt_away() -> None:
    some = dict.fromkeys([f"b{i}" for i in range(20, 30)], "not_damaged")
    assert doubts(scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", **some))) == []
    few = dict.fromkeys([f"b{i}" for i in range(20, 25)], "not_damaged")  # assessed, and doubtful all the same
    assert len(doubts(scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", **few)))) == 1
    assert doubts(scene_rows(FACTS, scores(0.1, 0.9), 0.5, NONE, labels(b0="positive", b31="positive"))) == []


def test_other_scores_and_another_sensor_are_doubtful_though_many_are_flagged() -> None:
    (words,) = doubts(scene_rows(FACTS, scores(0.95, 0.99), 0.5, NONE, labels(b0="positive")))
    assert "above nearly all" in words
    other = {**FACTS, "sensor_group": [0] * 20 + [1] * 20}  # nobody marked damage, as with a model from elsewhere
    (words,) = doubts(scene_rows(other, scores(0.1, 0.9), 0.5, NONE, labels()))
    assert "by its sensor" in words


def test_a_scene_that_is_not_assessed_says_what_to_do() -> None:
    why = np.where(np.arange(N) < 20, "", "scene_without_answers").astype("<U24")
    _, second = scene_rows(FACTS, scores(0.9, 0.2), 0.5, why, labels(b0="positive"))
    assert (second.n_assessed, second.n_flagged, second.flag_rate) == (0, 0, None)
    assert "Mark a damaged building there, or 5 that are not damaged" in second.doubt
    # Answers that the run did not learn from are not asked for again.
    _, second = scene_rows(FACTS, scores(0.9, 0.2), 0.5, why, labels(b0="positive", b25="positive"))
    assert "or in an audit" in second.doubt


def test_scores_at_the_threshold_are_flagged_as_the_export_does() -> None:
    """0.83935 in float32 lies below .8394 once it is written with 4 decimals."""
    ties = np.full(N, np.float32(0.83935))
    first, _ = scene_rows(FACTS, ties, 0.8394, NONE, labels(b0="positive"))
    assert first.n_flagged == 0


def test_damage_that_was_marked_and_scores_below_the_threshold_is_a_doubt() -> None:
    """One damaged answer in a hazy scene ended the doubt, though it scored .25 at a threshold of .48 and nothing was flagged."""
    both = labels(b0="positive", b30="positive")
    (words,) = doubts(scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, both))
    assert "1 of 1 buildings marked damaged there score below the threshold" in words
    # Whoever asks for the top 22 leaves most confirmed buildings below the threshold, in every scene alike.
    assert doubts(scene_rows(FACTS, scores(0.2, 0.2), 0.95, NONE, both)) == []
    rare = np.where(np.arange(N) < 2, 0.9, 0.1).astype(np.float32)  # promises nothing in a small scene
    assert doubts(scene_rows(FACTS, rare, 0.5, NONE, labels(b0="positive"))) == []
