"""How long trainings took on this machine, what that lets expect, and how it is written."""

import pytest

from pu_geo.store import training_times
from pu_geo.store.training_times import PastTraining

QUICK = "ncpu", "quick"


pytestmark = pytest.mark.usefixtures("home")


def test_nothing_is_expected_before_a_training_ended_here(monkeypatch: pytest.MonkeyPatch) -> None:
    training_times.remember("pucl", "quick", 383, 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(training_times, "machine", lambda: "another one with the same home")
        training_times.remember(*QUICK, 383, 2.0)
    assert training_times.past("ncpu", "quick") == []
    assert training_times.expected_seconds("ncpu", "quick", 383) is None


def test_past_trainings_of_the_nearest_size_bound_the_time() -> None:
    for n_chips, seconds in ((400, 30.0), (440, 36.0), (20_000, 900.0)):
        training_times.remember(*QUICK, n_chips, seconds)
    assert training_times.past("ncpu", "quick")[0] == PastTraining(400, 30.0)
    # 400 chips: 30 s as it was; those of 440 took 36 s, in proportion 36 x 400 / 440 = 32.7 s
    assert training_times.expected_seconds("ncpu", "quick", 400) == pytest.approx((30, 36))
    # 800 chips are nearer to 440 than to 20,000: from 30 s, did it not grow at all, to 36 x 800 / 440 = 65.5 s
    assert training_times.expected_seconds("ncpu", "quick", 800) == pytest.approx((30, 65.4545))


@pytest.mark.parametrize("content", [b"{not json", b"\xff\xfe", b"{}", b'["a", {"machine": 1}]'])
def test_a_spoiled_file_counts_as_none_and_is_written_anew(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    training_times.times_file().write_bytes(content)
    assert training_times.past("ncpu", "quick") == []
    training_times.remember(*QUICK, 383, 2.0)
    assert training_times.past("ncpu", "quick") == [PastTraining(383, 2.0)]
    monkeypatch.setenv("PU_GEO_HOME", str(training_times.times_file()))  # a file, where no folder can be made
    training_times.remember(*QUICK, 383, 2.0)
    assert training_times.past("ncpu", "quick") == []
