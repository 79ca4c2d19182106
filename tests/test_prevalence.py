"""Draws of `benchmarks.prevalence` keep their promises, and its tables follow from the outcomes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks import prevalence, prevalence_sets, prevalence_table
from benchmarks.prevalence_sets import CHOSEN, CLICKS, REPORTED, SETS, EventSet, Source
from benchmarks.prevalence_table import Outcome
from benchmarks.prevalence_variants import VARIANTS
from pu_geo.errors import DatasetError, PuGeoError, TrainingError

SEEDS = (0, 1, 2)
LOW, HIGH, OTHER = "Harvey W at 1 %", "Harvey W at 50 %", "Joplin 0+1"


def source(n: int = 4000, damaged: float = 0.5, n_places: int = 800, size_px: int = 8) -> Source:
    rng = np.random.default_rng(0)
    chips = rng.integers(0, 255, (n, 3, size_px, size_px)).astype(np.uint8)
    return Source(chips, np.arange(n) < damaged * n, rng.integers(0, n_places, n))


def event_set(**changes: object) -> EventSet:
    usual = EventSet("made up", CHOSEN, "", lambda _: source(), share=0.05, undamaged_places=0.75)
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_place_gives_both_damaged_and_undamaged_chips(seed: int) -> None:
    chips = source()
    event = event_set(share=0.5, undamaged_places=0.5).draw(chips, seed)
    places = chips.place[event.rows]
    assert not np.intersect1d(places[event.is_damaged], places[~event.is_damaged]).size
    assert len(np.unique(event.rows)) == len(event.rows)
    both = np.intersect1d(chips.place[chips.is_damaged], chips.place[~chips.is_damaged])
    assert len(both) > 500, "otherwise there was nothing to keep apart"


@pytest.mark.parametrize("share", [0.005, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("n_clicks", CLICKS)
def test_share_asked_for_is_met_among_the_unlabeled(share: float, n_clicks: int) -> None:
    for seed in SEEDS:
        event = event_set(share=share).draw(source(), seed)
        rows, is_positive = event.clicked(n_clicks)
        open_truth = event.is_damaged[rows][~is_positive]
        assert is_positive.sum() == n_clicks
        assert event.is_damaged[rows][is_positive].all()
        assert open_truth.mean() == pytest.approx(share, abs=1 / len(open_truth))


def test_undamaged_are_left_out_where_the_damaged_are_too_few_or_so_many_are_asked_for() -> None:
    whole = event_set(undamaged_places=None)
    few = dataclasses.replace(whole, share=0.5).draw(source(damaged=0.02), 0)  # 80 damaged: 50 besides the clicks
    asked = dataclasses.replace(whole, share=0.2, most_undamaged=400).draw(source(), 0)
    assert [(each.is_damaged.sum(), (~each.is_damaged).sum()) for each in (few, asked)] == [(80, 50), (130, 400)]
    with pytest.raises(DatasetError, match="30 chips are damaged"):
        whole.draw(source(n=60), 0)


def test_ten_clicks_leave_out_the_other_clicked_chips_where_the_share_is_set() -> None:
    event = event_set().draw(source(), 0)
    few, many = event.clicked(10), event.clicked(30)
    assert np.setdiff1d(many[0], few[0]).tolist() == sorted(event.clicks[10:].tolist())
    assert few[0][few[1]].tolist() == sorted(event.clicks[:10].tolist())


def test_ten_clicks_leave_the_other_damaged_chips_unlabeled_where_it_is_not() -> None:
    chips = source()
    event = event_set(share=None, undamaged_places=None).draw(chips, 0)
    rows, is_positive = event.clicked(10)
    assert len(rows) == len(chips.is_damaged)
    assert (event.is_damaged[rows] & ~is_positive).sum() == chips.is_damaged.sum() - 10


def test_draws_depend_on_seed_and_set_alone() -> None:
    one, chips = event_set(), source()
    first = one.draw(chips, 0).rows
    assert np.array_equal(one.draw(chips, 0).rows, first)
    assert not np.array_equal(one.draw(chips, 1).rows[:50], first[:50])
    assert not np.array_equal(dataclasses.replace(one, name="other").draw(chips, 0).rows[:50], first[:50])


def test_what_is_chosen_on_and_what_is_reported_on_share_no_set() -> None:
    for kind, chosen, reported in (("Harvey", "Harvey W", "Harvey E"), ("FMNIST", ("FMNIST 4", "FMNIST 6"), "FMNIST")):
        own = [one for name, one in SETS.items() if name.startswith(kind)]
        assert {one.half for one in own if one.name.startswith(chosen)} == {CHOSEN}
        assert {one.half for one in own if not one.name.startswith(chosen)} == {REPORTED}
        assert any(one.name.startswith(reported) for one in own)
    assert [SETS[f"Joplin {scene}"].half for scene in ("0", "1", "0+1")] == [CHOSEN, REPORTED, REPORTED]


@pytest.mark.slow
def test_joplin_is_cut_as_the_app_does(joplin: Path) -> None:
    chips = [prevalence_sets.joplin(joplin.parent, scenes=scenes) for scenes in ((0,), (1,), (0, 1))]
    assert [len(each.chips) for each in chips] == [178, 190, 368]
    assert chips[2].is_damaged.sum() == chips[0].is_damaged.sum() + chips[1].is_damaged.sum() == 225
    assert chips[2].chips.shape[1:] == (6, 64, 64)


def outcome(name: str, clicks: int, seed: int, method: str, ap: float, auc: float = 0.9, made: str = "a") -> Outcome:
    return Outcome(name, clicks, seed, method, made, 1000, 10, ap, auc, 0.012 if method == "ranker" else None, 0.1)


def made_up() -> list[Outcome]:
    """Gains of "ours" in AP: .1, .2, .3 and .4 where little is damaged, -.05 and -.07 where much is; in AUC +.06 on Joplin."""
    rows = []
    for name, clicks, seed, ranker, gain in (
        (LOW, 10, 0, 0.5, 0.1), (LOW, 10, 1, 0.4, 0.2), (LOW, 30, 0, 0.3, 0.3), (LOW, 30, 1, 0.2, 0.4),
        (HIGH, 30, 0, 0.9, -0.05), (HIGH, 30, 1, 0.9, -0.07),
    ):  # fmt: skip
        rows += [outcome(name, clicks, seed, "ranker", ranker), outcome(name, clicks, seed, "ours", ranker + gain)]
    for seed, auc in enumerate((0.80, 0.84)):
        rows += [outcome(OTHER, 10, seed, "ranker", 0.9, auc), outcome(OTHER, 10, seed, "ours", 0.9, auc + 0.05 + seed / 50)]
    return rows


def test_table_gives_means_over_seeds() -> None:
    text = prevalence_table.section(made_up())
    assert f"| {LOW} | chosen on | 10 | 2 | 1,000 | 1.0% | 0.450 / 0.900 | 0.600 / 0.900 |" in text
    assert f"| {OTHER} | reported on | 10 | 2 | 1,000 | 1.0% | 0.900 / 0.820 | 0.900 / 0.880 |" in text
    assert "Harvey E" not in text


def test_table_gives_gains_by_half_and_the_least_of_them() -> None:
    lines = prevalence_table.section(made_up()).splitlines()
    # Clicks of one seed averaged: .2 and .3. Wilcoxon: p = 2 / 2^2; t = .25 / .05 = 5 with 1 degree of freedom
    expected = f"ours | 2 | +0.250 | 0.500 | 0.126 | -0.060 ({HIGH}, 30 clicks) |"
    assert [line for line in lines if line.startswith("| chosen on |")] == [
        f"| chosen on | all | {expected}", f"| chosen on | Harvey alone | {expected}"
    ]  # fmt: skip
    assert not [line for line in lines if line.startswith("| reported on |")]
    assert f"| {OTHER} | reported on | 10 | ours | 2 | 0.880 | +0.060 | 0.500 | +0.000 |" in lines


def test_table_compares_the_same_draws_alone() -> None:
    alone = outcome(LOW, 10, 2, "ours", 0.0)  # the ranker did not do this one
    lines = prevalence_table.section([*made_up(), alone]).splitlines()
    assert any(line.startswith("| chosen on | all | ours | 2 | +0.250 |") for line in lines)
    assert any("0.400 / 0.900 (3 seeds)" in line for line in lines)


def test_table_takes_the_newest_settings_of_a_method() -> None:
    newer = [outcome(LOW, 10, seed, "ours", 0.7, made="b") for seed in (0, 1)]
    text = prevalence_table.section([*made_up(), *newer])
    assert "| chosen on | all | ours | 2 | +0.250 |" in text
    assert "0.450 / 0.900 | 0.700 / 0.900 |" in text


def test_equal_scores_have_no_p_and_no_outcomes_have_no_section() -> None:
    rows = [outcome(LOW, 10, seed, method, 0.5) for seed in (0, 1) for method in ("ranker", "ours")]
    assert "| chosen on | all | ours | 2 | +0.000 |  |  | +0.000" in prevalence_table.section(rows)
    assert prevalence_table.section([]) == ""


def test_line_that_a_kill_cut_off_is_taken_out(tmp_path: Path) -> None:
    kept, first, second = tmp_path / "kept.jsonl", *made_up()[:2]
    prevalence_table.keep(first, kept)
    with kept.open("a") as file:
        file.write('{"event_set": "Harv')
    assert prevalence_table.read_kept(kept) == [first]
    prevalence_table.keep(second, kept)
    assert prevalence_table.read_kept(kept) == [first, second]


def test_command_does_what_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = event_set(read=lambda _: source(200, n_places=90, size_px=16), share=0.2, undamaged_places=None, n_seeds=2)
    monkeypatch.setitem(SETS, small.name, small)
    monkeypatch.setattr(prevalence.torch, "set_num_threads", lambda _: None)
    kept = tmp_path / "kept.jsonl"

    def do(methods: str, seeds: int) -> list[Outcome]:
        common = ["--sets", "made", "--kept", str(kept)]
        prevalence.main([str(tmp_path), *common, "--methods", methods, "--seeds", str(seeds)])
        return prevalence_table.read_kept(kept)

    first = do("ranker", 1)
    assert [(each.clicks, each.n_unlabeled, each.n_damaged) for each in first] == [(10, 125, 25), (30, 125, 25)]
    assert all(each.estimate is not None for each in first)
    more = do("ranker,linear", 1)
    assert more[:2] == first
    assert [each.method for each in more[2:]] == ["linear", "linear"]
    assert do("ranker,linear", 1) == more
    assert len(do("ranker", 9)) == 6, "the set has two seeds"


def test_sets_and_methods_that_there_are_not_are_refused(tmp_path: Path) -> None:
    assert prevalence.chosen_sets("joplin 0") == ["Joplin 0"]
    assert prevalence.chosen_sets("joplin, sample")[:2] == ["Joplin 0", "Joplin 1"]
    assert prevalence.chosen_sets("") == list(SETS)
    with pytest.raises(PuGeoError, match="no set 'mars'"):
        prevalence.chosen_sets("mars")
    with pytest.raises(TrainingError, match="no method 'mars'"):
        prevalence.run(tmp_path, [LOW], ["mars"], 1, tmp_path / "kept.jsonl")


def test_sets_without_files_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prevalence.run(tmp_path, [LOW, OTHER], ["ranker"], 1, tmp_path / "kept.jsonl")
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{LOW}: left out, there is no harvey_chips/region_A.zip")
    assert not (tmp_path / "kept.jsonl").exists()


def test_every_variant_is_another_ranking() -> None:
    draw = np.random.default_rng(0)
    truth = np.arange(300) < 60
    centre = draw.normal(size=(300, 12)) * np.geomspace(3, 0.3, 12)
    centre[truth] += np.geomspace(1.5, 0.3, 12)
    views = np.abs(centre @ np.linalg.qr(draw.normal(size=(12, 12)))[0] + 15 + draw.normal(size=(3, 300, 12)) * 0.1)
    is_positive = np.arange(300) % 3 == 0
    is_positive &= np.arange(300) < 45
    views = views.astype(np.float16)
    found = {method: prevalence.scored(method, views, is_positive, 0)[0] for method in ("propagation", *VARIANTS)}
    for method in VARIANTS:
        assert np.abs(found[method] - found["propagation"]).max() > 1e-3, method
    again, _ = prevalence.scored("propagation", views, is_positive, 0)
    np.testing.assert_array_equal(again, found["propagation"])  # a variant leaves nothing behind
    assert len({prevalence.made_with(method) for method in ("propagation, without whitening", "propagation")}) == 2
