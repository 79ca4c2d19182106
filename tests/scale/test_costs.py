"""The table of costs: sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pu_geo.features.bank import N_VIEWS
from pu_geo.features.rcf import RcfSettings
from pu_geo.scale import costs
from pu_geo.scale.costs import Table, Work

FACTS: dict[str, Any] = {
    "measured_at": "2026-01-01", "machine": {"processor": "x", "cores": 2, "memory_gb": 8, "torch": "2", "python": "3"},
    "footprints": [500, 1000, 2000], "held_out": 4000, "efficiency_of_2": 0.8, "known_piece_s": 1.0,
    "steps": {
        "chip": {
            "alone_s": {"start": 4.0, "footprints": 0.01}, "driver_s": {"start": 5.0, "footprints": 0.001},
            "workers_s": {"workers": 6.0, "footprints": 0.016}, "kept_bytes": {"footprints": 1000.0},
            "memory_mb": {"start": 500.0, "footprints": 0.1, "cluster": 50.0}, "worker_mb": 900.0, "fitted_to": 2000,
        },
        "rank": {
            "alone_s": {"start": 3.0, "footprints": 0.002}, "driver_s": {}, "workers_s": {}, "kept_bytes": {"footprints": 10.0},
            "memory_mb": {"start": 400.0}, "worker_mb": 0.0, "fitted_to": 2000,
        },
    },
}  # fmt: skip
WORK = Work(1000, 8.0)


def test_a_step_in_one_process_is_its_sum() -> None:
    cost = Table(FACTS).cost("chip", costs.units(WORK, "chip"))
    assert cost == costs.Cost(14.0, 0.0, 14.0, 1_000_000, 0.0, pytest.approx(600), 0.0)
    assert (Table(FACTS).has("chip"), Table(FACTS).has("swim"), Table(FACTS).fitted_to("chip")) == (True, False, 2000)
    ranked = Table(FACTS).cost("rank", costs.units(WORK, "rank"))
    assert Table(FACTS).cost("rank", costs.units(WORK, "rank"), 8) == ranked, "a step that takes no cluster"


@pytest.mark.parametrize(("workers", "shared"), [(1, 16), (2, 16 / 2 / 0.8), (4, 16 / 4 / 0.8)])
def test_workers_share_what_they_compute_and_nothing_else(workers: int, shared: float) -> None:
    """Each worker starts once; they start together, so the clock has one start and the processors have all of them."""
    table, units = Table(FACTS), costs.units(WORK, "chip")
    cost, fast = table.cost("chip", units, workers), table.cost("chip", units, workers, speed=2.0)
    assert cost.seconds == pytest.approx(5 + 1 + 6 + shared)
    assert cost.processor_s == pytest.approx(5 + 1 + 6 * workers + 16)
    assert (cost.shard_bytes, cost.memory_mb, cost.worker_mb) == (cost.kept_bytes, 650, 900)
    assert (fast.seconds, fast.processor_s) == pytest.approx((cost.seconds / 2, cost.processor_s / 2))
    assert (fast.kept_bytes, fast.memory_mb) == (cost.kept_bytes, cost.memory_mb)


def test_units_count_views_banks_and_epochs() -> None:
    work = Work(1000, 8.0, size_px=100, n_views=5, n_banks=2)
    found = costs.units(work, "features", epochs=3)
    assert found["view_megapixels"] == pytest.approx(1000 * 0.01 * 5 * 2)
    assert (found["view_footprints"], found["augmented_footprints"]) == (10_000, 8000)
    assert (found["epoch_footprints"], found["epoch_megapixels"]) == (3000, pytest.approx(30))
    assert costs.units(work, "chip")["view_footprints"] == 17_000
    assert costs.units(Work(1000, 8.0, chip_views=1), "chip")["augmented_footprints"] == 0
    assert (N_VIEWS, RcfSettings().n_chips) == (costs.CHIP_VIEWS, costs.MOST_SAMPLED)
    sampled = [costs.units(Work(n, 8.0, size_px=100), "chip")["sampled_megapixels"] for n in (1000, 1_000_000)]
    assert sampled == pytest.approx([10, 20])
    assert set(found) | {"workers", "cluster"} == set(costs.UNITS)
