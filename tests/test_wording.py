"""Numbers, shares, times and days as people read them: the examples in the docstrings, and the ends of a share."""

import doctest

import numpy as np
import pytest

from pu_geo import wording


def test_examples_hold():
    assert doctest.testmod(wording) == doctest.TestResults(failed=0, attempted=13)
    assert wording.when("spring 2011") == "spring 2011"  # no moment


@pytest.mark.parametrize("share", [*np.random.default_rng(0).uniform(0, 1, 20).tolist(), 1e-5, 1 - 1e-5])
def test_a_share_is_written_as_none_or_all_only_if_it_is(share):
    assert wording.percent(share) not in ("0 %", "0.0 %", "100 %", "100.0 %")


@pytest.mark.parametrize("low", np.linspace(0, 0.999, 40).tolist())
def test_an_interval_never_shrinks_to_a_point(low):
    low_text, high_text = wording.interval(1.0, low, 1.0).split("(")[1].rstrip(")").split("–")
    assert int(low_text) < int(high_text)
