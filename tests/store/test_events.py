"""The event log: what is appended keeps its kind and time, and the curve of a training is that of its last beginning."""

from pathlib import Path

from pu_geo.store import events


def report(folder: Path, epochs: range, loss: float) -> None:
    for epoch in epochs:
        events.append(folder, "epoch", {"stage": "training", "epoch": epoch, "loss": loss})


def test_a_curve_has_the_last_report_of_each_epoch_since_it_was_begun_anew(tmp_path: Path) -> None:
    report(tmp_path, range(1, 6), 9.0)
    events.append(tmp_path, events.BEGUN_ANEW)
    report(tmp_path, range(1, 3), 1.0)
    events.append(tmp_path, "launched")
    report(tmp_path, range(2, 4), 0.5)
    found = events.curve(events.read(tmp_path))
    assert [(row["epoch"], row["loss"]) for row in found] == [(1, 1.0), (2, 0.5), (3, 0.5)]
    assert events.curve([]) == []


def test_values_replace_neither_kind_nor_time_and_epochs_of_two_stages_are_two(tmp_path: Path) -> None:
    for stage in ("pretraining", "training"):
        events.append(tmp_path, "epoch", {"event": "done", "at": "1970-01-01T00:00:00Z", "stage": stage, "epoch": 1})
    found = events.read(tmp_path)
    assert [(row["event"], str(row["at"]) > "2020") for row in found] == [("epoch", True)] * 2
    assert [row["stage"] for row in events.curve(found)] == ["pretraining", "training"]
