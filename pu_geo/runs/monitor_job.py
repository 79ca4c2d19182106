"""Evaluate a training under way: held-out clicks, shares, embeddings, alarms, and a contact sheet of top and bottom
chips.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import collapse
from pu_geo.analysis.estimates import first_threshold
from pu_geo.files import atomic_write
from pu_geo.records import Bools, Chips, Facts, Ints, Singles
from pu_geo.runs.inputs_job import RunInputs, unlabeled_to_judge
from pu_geo.store import events
from pu_geo.store.contents import optical_chips
from pu_geo.store.job import Job
from pu_geo.training.callbacks import chosen, drawn
from pu_geo.training.data import PUData
from pu_geo.training.network import TrainedModel

CONTACT_SHEETS = "looks"  # folder of the contact sheets, in the folder of a job
N_SHOWN, N_EMBEDDED = 12, 512
ALARMS_FROM = 0.25  # share of a stage before which nothing is an alarm: no model knows anything at first
CHIP_PX = 64  # side of a chip in the picture; larger ones are made smaller
_GAP, _TITLE_PX = 2, 18
_INK = (60, 60, 60)


class TrainingMonitor:
    """What a run does when it is evaluated, see `Run.evaluate`.

    Args:
        job: gets the contact sheets.
        inputs: what was clicked, and which clicks are held out.
        data: what the method learns from.
        start_k: see `RunInputs.start_k`.
        score_type: of the method.
    """

    def __init__(
        self, job: Job, inputs: RunInputs, data: PUData, *, start_k: int, score_type: str
    ) -> None:  # fmt: skip
        self._folder, self._score_type = job.folder / CONTACT_SHEETS, score_type
        self._chips = optical_chips(job.layout, inputs.chip_set)
        self._inputs, self._n_held_out, self._is_missing = data.inputs, len(inputs.held_out), data.is_missing
        judged = unlabeled_to_judge(job.layout, inputs)
        learned = np.flatnonzero(inputs.is_unlabeled)
        either = np.union1d(judged, learned)
        rows = drawn(either)
        self._is_sampled = len(either) > len(rows)
        self._is_learned, self._is_judged = np.isin(rows, learned), np.isin(rows, judged)
        self._k = round(start_k * int(self._is_learned.sum()) / max(len(learned), 1))
        self._unlabeled = rows[self._is_judged]
        self._rows = np.concatenate([inputs.held_out, rows])

    def __call__(self, model: TrainedModel, report: Facts) -> Facts:
        """Evaluate a model after an epoch.

        Returns:
            {"look": name of the contact sheet, "spread"}, and where these are known "share_called", "recall", "criterion",
            "criterion_low", "criterion_high", "n_held_out"; "alarms" where there are any, a list of mappings. Of more than
            4,000 unlabeled these are estimates from 4,000, and the bounds of the criterion tell how good that is.
        """
        scores = model.score(chosen(self._inputs, self._rows), self._gone(self._rows))
        if not np.isfinite(scores).all():
            return {}
        held_out, others = scores[: self._n_held_out], scores[self._n_held_out :]
        unlabeled = others[self._is_judged]
        some = self._unlabeled[:: max(1, -(-len(self._unlabeled) // N_EMBEDDED))]  # one in so many is embedded
        embeddings = model.embed(chosen(self._inputs, some), self._gone(some))
        indicators = collapse.signs(
            held_out, unlabeled, embeddings, score_type=self._score_type,
            threshold=first_threshold(others[self._is_learned], self._k), is_sampled=self._is_sampled,
        )  # fmt: skip
        found = _values(indicators)
        if int(str(report["epoch"])) >= ALARMS_FROM * int(str(report["epochs"])):
            alarms = [alarm.as_mapping() for alarm in collapse.alarms(indicators)]
            found |= {"alarms": alarms} if alarms else {}
        if find_spec("cv2") is None:  # a machine that only trains may lack OpenCV
            return found
        return {"look": self._sheet(unlabeled, report), **found}

    def _gone(self, rows: Ints) -> Bools | None:
        """Return the missing views of some chips, bool [V, M]."""
        return None if self._is_missing is None else self._is_missing[:, rows]

    def _sheet(self, scores: Singles, report: Facts) -> str:
        """Write the chips of the highest and of the lowest scores, int64 [U], as a picture; return its name."""
        n = max(1, min(N_SHOWN, len(scores) // 2))
        order = np.argsort(-scores, kind="stable")
        picture = contact_sheet(*(self._read(self._unlabeled[rows]) for rows in (order[:n], order[::-1][:n])))
        stage, epoch = str(report["stage"]).replace(" ", "-"), int(str(report["epoch"]))
        name = f"{stage}-{epoch:04d}.png"
        with atomic_write(self._folder / name) as temporary:
            temporary.write_bytes(png_of(picture))
        return name

    def _read(self, rows: Ints) -> Chips:
        """Read a few chips, uint8 [M, C, H, W]."""
        return np.stack([np.asarray(self._chips[row]) for row in rows])


def _values(indicators: collapse.CollapseIndicators) -> dict[str, object]:
    """Return the indicators as plain numbers, without what is not known."""
    judged = indicators.judgement
    values: dict[str, float | None] = {"share_called": indicators.share_called, "spread": indicators.spread}
    if judged is not None:
        values |= {"n_held_out": judged.n_held_out, "recall": judged.recall, "criterion": judged.criterion}
        values |= {"criterion_low": judged.low, "criterion_high": judged.high}
    return {name: round(value, 5) for name, value in values.items() if value is not None}


def curve_of(job: Job) -> list[Facts]:
    """Return every epoch's report of a job, see `events.curve`."""
    reports = events.curve(events.read(job.folder))
    return [{name: value for name, value in event.items() if name not in ("at", "event")} for event in reports]


def contact_sheet(top: Chips, bottom: Chips) -> NDArray[np.uint8]:
    """Lay chips side by side under a title: the first ones in one row, the others below it, a pre chip above its post chip.

    Args:
        top, bottom: uint8 [M, 3 or 6, size, size], M from 0 on; of 6 bands the first 3 are pre.

    Returns:
        RGB, uint8 [H, W, 3]; white between chips.
    """
    import cv2

    rows = {title: _row(chips) for title, chips in (("highest scores", top), ("lowest scores", bottom)) if len(chips)}
    width = max((row.shape[1] for row in rows.values()), default=1)
    parts = [np.full((1, width, 3), 255, np.uint8)]
    for title, row in rows.items():
        strip = np.full((_TITLE_PX, width, 3), 255, np.uint8)
        cv2.putText(strip, title, (1, _TITLE_PX - 5), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
        parts += [strip, np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255)]
    return np.concatenate(parts)


def png_of(picture: NDArray[np.uint8]) -> bytes:
    """Encode RGB, uint8 [H, W, 3], as PNG. Raises ValueError if that is not possible."""
    import cv2

    done, data = cv2.imencode(".png", picture[..., ::-1])
    if not done:
        raise ValueError(f"A picture of shape {picture.shape} could not be encoded as PNG.")
    return bytes(data.tobytes())


def _row(chips: Chips) -> NDArray[np.uint8]:
    """Lay chips [M, 3 or 6, size, size] out as one row of cells, uint8 [H, W, 3]."""
    import cv2

    m, bands, size, _ = chips.shape
    dates = chips.reshape(m, bands // 3, 3, size, size).transpose(0, 1, 3, 4, 2).reshape(m, bands // 3 * size, size, 3)
    side = min(size, CHIP_PX)
    shown = [
        cv2.resize(np.ascontiguousarray(each), (side, bands // 3 * side), interpolation=cv2.INTER_AREA) for each in dates
    ]
    padded = [np.pad(each, ((0, 0), (0, _GAP), (0, 0)), constant_values=255) for each in shown]
    return np.concatenate(padded, axis=1)[:, :-_GAP].astype(np.uint8)
