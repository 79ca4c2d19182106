"""Why the imagery keeps a building from being assessed."""

from __future__ import annotations

import numpy as np
import pytest

from pu_geo.analysis import assessability


def facts(nodata: float, outside: float = 0.0, cloud: float = 0.0) -> dict[str, list[float]]:
    return {"nodata_share": [nodata], "outside_share": [outside], "cloud_share": [cloud]}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (facts(0.0), ""),
        (facts(0.5), ""),  # more than half must be hidden
        (facts(0.51), "nodata"),
        (facts(0.9, outside=0.8), "outside_image"),
        (facts(0.9, outside=0.3), "nodata"),  # 0.3 outside, 0.6 inside without data
        (facts(0.0, cloud=0.51), "cloud"),
        (facts(0.0, cloud=0.5), ""),
        (facts(0.2, cloud=0.31), "cloud"),  # neither alone, both together
        (facts(0.31, outside=0.31, cloud=0.2), "outside_image"),
        (facts(0.4, outside=0.5), ""),  # shares of one window, rounded: outside is a part of nodata
    ],
)
def test_the_reason_is_what_hides_most_of_a_window_that_is_mostly_hidden(given: dict, reason: str) -> None:
    assert assessability.reasons(given).tolist() == [reason]


def test_a_chip_set_from_before_clouds_were_looked_for_knows_missing_data_alone() -> None:
    assert assessability.reasons({"nodata_share": [0.9, 0.1]}).tolist() == ["nodata", ""]


def test_a_set_of_no_buildings_has_no_reasons() -> None:
    assert assessability.reasons({"nodata_share": []}).tolist() == []
    assert assessability.counts(assessability.reasons({"nodata_share": []})) == {}


def test_what_could_not_be_aligned_is_a_candidate_and_never_a_reason() -> None:
    given = {"nodata_share": [0.0, 0.0, 0.3], "cloud_share": [0.0, 0.25, 0.0]}
    is_misaligned = np.array([True, True, False])
    assert assessability.candidates(given, is_misaligned).tolist() == ["misaligned", "cloud", "nodata"]
    assert assessability.candidates(given).tolist() == ["", "cloud", "nodata"]
    assert assessability.reasons(given).tolist() == ["", "", ""]


def test_every_reason_is_the_likeliest_one_too() -> None:
    rng = np.random.default_rng(0)
    nodata = rng.random(200)
    given = {
        "nodata_share": nodata,
        "outside_share": nodata * rng.random(200),
        "cloud_share": (1 - nodata) * rng.random(200),
    }
    why, likely = assessability.reasons(given), assessability.candidates(given, rng.random(200) < 0.5)
    assert (why != "").sum() > 50
    assert (why[why != ""] == likely[why != ""]).all()


def test_they_are_counted_and_named_by_building() -> None:
    why = np.array(["", "cloud", "nodata", "cloud"])
    assert assessability.counts(why) == {"cloud": 2, "nodata": 1}
    assert assessability.by_building(["a", "b", "c", "d"], why) == {"b": "cloud", "c": "nodata", "d": "cloud"}


def test_a_persons_answer_counts_more_than_what_the_imagery_hides() -> None:
    said = {"b": "positive", "c": "not_assessable", "d": "not_damaged", "e": "not_assessable"}
    why = np.array(["cloud", "cloud", "", "", "nodata", ""])
    assert assessability.is_hidden(list("abcdef"), said, why).tolist() == [True, False, True, False, True, False]
