"""What the Train page recommends, and what methods are called in a sentence."""

from __future__ import annotations

import pytest

from pu_geo.methods import catalog
from pu_geo.records import RunFacts
from pu_geo.services.train import training

RUN = RunFacts(
    "ranker-1", "ranker", "instant", 0, {}, "set", 30, 30, 900, "2026-01-01T00:00:00+00:00", 0.1, "cpu", "linear", 0.5, 0.04
)


def test_the_default_is_a_method_and_the_first_card_of_the_open_group() -> None:
    first_of_all = next(iter(training.cards_by_group().values()))[0]
    assert first_of_all.name == training.DEFAULT_METHOD == "propagation"


def test_the_recommendation_names_the_default_before_there_is_any_run() -> None:
    words = training.recommendation()
    assert words.startswith("Train the propagated ranking: it was ahead of the instant ranker")
    assert "%" not in words  # clicks alone cannot say how much is damaged


@pytest.mark.parametrize(
    ("method", "name"),
    [("propagation", "propagated ranking"), ("ncpu", "NcPU"), ("pucl", "PUCL + PUPL"), ("nnpu", "nnPU"), ("gone", "gone")],
)
def test_only_titles_that_are_plain_words_begin_small_in_a_sentence(method: str, name: str) -> None:
    assert method == "gone" or method in catalog.METHODS
    assert training.name_within(method) == name
