"""Why the imagery keeps a building from being assessed, and in which scenes a run is doubtful."""

import numpy as np
import pytest

from pu_geo.analysis import assessability
from pu_geo.analysis.scenes import doubts, scene_rows


def facts(nodata: float, outside: float = 0.0, cloud: float = 0.0) -> dict[str, list[float]]:
    return {"nodata_share": [nodata], "outside_share": [outside], "cloud_share": [cloud]}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (facts(0.0), ""),
        (facts(0.4), ""),  # more than two fifths must be hidden
        (facts(0.41), "nodata"),
        (facts(0.9, outside=0.8), "outside_image"),
        (facts(0.9, outside=0.3), "nodata"),  # 0.3 outside, 0.6 inside without data
        (facts(0.0, cloud=0.41), "cloud"),
        (facts(0.0, cloud=0.4), ""),
        (facts(0.2, cloud=0.31), "cloud"),  # neither alone, both together
        (facts(0.31, outside=0.31, cloud=0.2), "outside_image"),
        (facts(0.4, outside=0.5), ""),  # shares of one window, rounded: outside is a part of nodata
    ],
)
def test_the_reason_is_what_hides_most_of_a_window_that_is_mostly_hidden(given: dict, reason: str) -> None:
    assert assessability.reasons(given).tolist() == [reason]


def test_what_could_not_be_aligned_is_a_candidate_and_never_a_reason() -> None:
    given = {"nodata_share": [0.0, 0.0, 0.3], "cloud_share": [0.0, 0.25, 0.0]}
    is_misaligned = np.array([True, True, False])
    assert assessability.candidates(given, is_misaligned).tolist() == ["misaligned", "cloud", "nodata"]
    assert assessability.candidates(given).tolist() == ["", "cloud", "nodata"]
    assert assessability.reasons(given).tolist() == ["", "", ""]


def test_they_are_counted_and_named_by_building_and_a_persons_answer_counts_more() -> None:
    why = np.array(["", "cloud", "nodata", "cloud"])
    assert assessability.counts(why) == {"cloud": 2, "nodata": 1}
    assert assessability.by_building(["a", "b", "c", "d"], why) == {"b": "cloud", "c": "nodata", "d": "cloud"}
    assert assessability.counts(assessability.reasons({"nodata_share": []})) == {}
    # A chip set from before clouds were looked for knows missing data alone.
    assert assessability.reasons({"nodata_share": [0.9, 0.1]}).tolist() == ["nodata", ""]
    said = {"b": "positive", "c": "not_assessable", "d": "not_damaged", "e": "not_assessable"}
    why = np.array(["cloud", "cloud", "", "", "nodata", ""])
    assert assessability.is_hidden(list("abcdef"), said, why).tolist() == [True, False, True, False, True, False]


NOTHING = {"outside": [0.0] * 4, "nodata": [0.0] * 4, "cloud": [0.0] * 4}


def outlined(**roles: dict[str, list[float]]) -> dict[str, object]:
    """Facts of four buildings, whose windows are all hidden while their outlines are not, unless told otherwise."""
    outlines = {f"{role}_outline": NOTHING | one for role, one in roles.items()}
    return {"bands": "pre+post", "nodata_share": [0.9] * 4, **outlines}


def test_the_outline_counts_and_not_the_window_and_that_of_pre_where_the_run_needs_pre() -> None:
    found = outlined(post={"cloud": [0.0, 0.41, 0.2, 0.0], "nodata": [0.0, 0.0, 0.21, 0.0]}, pre={})
    assert assessability.reasons(found).tolist() == ["", "cloud", "nodata", ""]
    share = assessability.hidden_share(found, "post")
    assert share.round(2).tolist() == [0.0, 0.41, 0.41, 0.0]
    found = outlined(post={"outside": [0.0, 0.0, 0.0, 0.9]}, pre={"nodata": [0.0, 1.0, 0.0, 1.0], "cloud": [0, 0, 0.5, 0]})
    assert assessability.reasons(found).tolist() == ["", "no_pre_image", "no_pre_image", "outside_image"]
    assert assessability.reasons({**found, "bands": "post"}).tolist() == ["", "", "", "outside_image"]
    assert assessability.hidden_after(found).tolist() == ["", "", "", "outside_image"]  # the others can be answered
    old = {"bands": "pre+post", "nodata_share": [0.0] * 3, "pre_nodata_share": [1.0, 0.0, 1.0]}  # without outlines
    assert assessability.reasons(old).tolist() == ["no_pre_image", "", "no_pre_image"]


def grouped(sensor: list[int], look: list[int]) -> dict[str, object]:
    return {"bands": "post", "nodata_share": [0.0] * len(look), "sensor_group": sensor, "look_group": look}


def silent(facts: dict[str, object], damaged: list[int], not_damaged: list[int], flagged: list[int]) -> tuple[int, ...]:
    n = len(facts["look_group"])  # type: ignore[arg-type]
    masks = [np.isin(np.arange(n), rows) for rows in (damaged, not_damaged, flagged)]
    return assessability.groups_without_answers(facts, *masks)


def test_another_sensor_without_answers_has_no_evidence_whatever_is_flagged() -> None:
    two = grouped([0] * 10 + [1] * 10, [0] * 10 + [1] * 10)
    assert silent(two, [0], [], [1, 2, 12, 13, 14]) == (1,)
    assert silent(two, [0, 11], [], [1, 2]) == ()  # one damaged building there is evidence
    assert silent(two, [0], [11, 12, 13, 14], [1]) == (1,)
    assert silent(two, [0], [11, 12, 13, 14, 15], [1]) == ()  # or five that are not damaged
    assert silent(two, [], [], [1, 12]) == ()  # without any damaged building there is nothing to carry over
    assert assessability.reasons(two, (1,)).tolist() == [""] * 10 + ["scene_without_answers"] * 10


def test_the_same_sensor_that_looks_different_has_none_where_hardly_anything_is_flagged() -> None:
    two = grouped([0] * 20, [0] * 10 + [1] * 10)
    assert silent(two, [0], [], [1, 2, 3, 4, 5]) == (1,)  # 5 of 9 there, none here: thin haze
    assert silent(two, [0], [], [1, 2, 3, 4, 5, 11, 12]) == ()  # 2 of 10 is more than a quarter of 5 of 9
    assert silent(grouped([0] * 20, [0] * 20), [0], [], [1, 2, 3, 4, 5]) == ()


N = 40
FACTS = {"bands": "post", "nodata_share": [0.0] * N, "post_scene": ["post-1"] * 20 + ["post-2"] * 20}
NONE = np.full(N, "", "<U24")


def scores(*of_second: float) -> np.ndarray:
    """Half of the first scene scores high; the second scores as given, over and over."""
    return np.array(([0.9, 0.2] * 10) + list(of_second) * (20 // len(of_second)), np.float32)


def labels(**at: str) -> list[str | None]:
    return [at.get(f"b{row}") for row in range(N)]


def test_a_scene_without_a_click_and_without_a_flag_is_doubtful_until_there_are_answers() -> None:
    first, second = scene_rows(FACTS, scores(0.1, 0.2), 0.5, NONE, labels(b0="positive", b2="positive"))
    assert (first.n, first.n_damaged, first.n_flagged, first.doubt) == (20, 2, 8, "")
    assert first.flag_rate == 8 / 18
    assert (second.n, second.n_damaged, second.n_flagged, second.flag_rate) == (20, 0, 0, 0.0)
    assert "0 of the 20 without an answer are flagged" in second.doubt
    assert scene_rows({"nodata_share": [0.0] * N}, scores(0.1), 0.5, NONE, labels()) == [], "an old chip set"
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
    assert "or in an accuracy assessment" in second.doubt


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
