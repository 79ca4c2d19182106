"""States on disk: the newest whole one is read, damage is noticed, a full disk loses nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pu_geo.training.checkpoints import Checkpoints


def state(value: float) -> dict[str, object]:
    return {"weights": {"w": torch.full((3,), value)}, "count": 4, "rates": [0.1, value], "name": "x"}


def kept(folder: Path, *values: float) -> Checkpoints:
    checkpoints = Checkpoints(folder, 0.0)
    for epoch, value in enumerate(values, 1):
        checkpoints.offer("training", epoch, state(value), is_last=False)
    return checkpoints


def value_of(checkpoints: Checkpoints) -> tuple[int, float] | None:
    found = checkpoints.newest("training")
    return None if found is None else (found[0], float(found[1]["weights"]["w"][0]))


def test_the_newest_state_comes_back(tmp_path: Path) -> None:
    assert value_of(kept(tmp_path)) is None
    checkpoints = kept(tmp_path / "new", 1.0, 2.0)
    assert value_of(checkpoints) == (2, 2.0)
    found = checkpoints.newest("training")
    assert found[1]["rates"] == [0.1, 2.0]
    assert checkpoints.newest("pretraining") is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-20], "digest": lambda content: bytes(32) + content[32:], "empty": lambda _: b"",
    "bit": lambda content: content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
}  # fmt: skip


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
def test_a_damaged_state_gives_way_to_the_one_before(tmp_path: Path, damage: str) -> None:
    checkpoints, newest = kept(tmp_path, 1.0, 2.0), tmp_path / "training-newest.pt"
    newest.write_bytes(DAMAGES[damage](newest.read_bytes())) if damage in DAMAGES else newest.unlink()
    assert value_of(checkpoints) == (1, 1.0)


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = kept(tmp_path, 1.0)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        checkpoints.offer("training", 2, state(2.0), is_last=True)
    assert value_of(checkpoints) == (1, 1.0)


def test_states_that_come_fast_are_not_all_written_but_the_last_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 3600.0)
    for epoch in range(1, 4):
        checkpoints.offer("training", epoch, state(epoch), is_last=epoch == 3)
        assert (value_of(checkpoints) is None) == (epoch < 3)
    assert value_of(checkpoints) == (3, 3.0)


@pytest.mark.parametrize(("seconds", "n_written"), [(4.9, 0), (5.1, 3)])
def test_a_long_first_epoch_is_kept_and_what_came_before_the_stage_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, n_written: int
) -> None:
    clock, written = [1000.0], []
    monkeypatch.setattr("pu_geo.training.checkpoints.time.monotonic", lambda: clock[0])
    checkpoints = Checkpoints(tmp_path)
    monkeypatch.setattr(checkpoints, "_write", lambda stage, content: written.append(content["epoch"]))
    clock[0] += 60  # what a training reads and estimates before
    assert checkpoints.begin("training") is None
    for epoch in (1, 2, 3):
        clock[0] += seconds if n_written else seconds / 3
        checkpoints.offer("training", epoch, state(epoch), is_last=False)
    assert written == list(range(1, n_written + 1))
