"""Figures that cards and docs show are those that were kept."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import tables
from pu_geo.methods import catalog, measured


@pytest.mark.ci
@pytest.mark.slow
def test_page_of_tables_is_what_the_outcomes_give() -> None:
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page()


def test_outcomes_have_each_seed_of_a_row_once() -> None:
    for section in tables.SECTIONS:
        outcomes = tables.outcomes_of(section.file)
        assert outcomes
        assert {each.setting for each in outcomes} <= {setting.name for setting in section.table.settings}
        rows = [(each.setting, each.method, each.preset, each.seed) for each in outcomes]
        assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("method", [measured.RANKER, *catalog.METHODS])
def test_figures_of_a_card_are_means_of_the_outcomes(method: str) -> None:
    if method == "supervised":
        assert method not in measured.MEASURED, "Joplin has no such row"
        return
    for (file, setting, _), figures in zip(measured.EVENTS, measured.MEASURED[method], strict=True):
        own = [each for each in tables.outcomes_of(file) if (each.method, each.setting) == (method, setting)]
        assert figures == (round(float(np.mean([e.auc for e in own])), 2), round(float(np.mean([e.ap for e in own])), 2))


def test_words_name_every_event_and_the_ranker() -> None:
    for line, (_, _, name) in zip(measured.in_lines("ncpu"), measured.EVENTS, strict=True):
        assert re.fullmatch(rf"{re.escape(name)}: \d\.\d\d / \d\.\d\d \(\d\.\d\d / \d\.\d\d\)", line)
    assert measured.in_lines("nope") == []
