"""33,000 buildings labeled at once against one by one: `python -m benchmarks.labels_at_once`.

Both are stored in projects of 40,000 buildings in the same run, by the way that a browser's operations take (`store_operations`). One by
one is every label in a message and a transaction of its own, as clicks are; of it 1,000 are measured. Prints seconds on the clock and of
the processor, and the ratio for a label.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.many_buildings import ANALYSTS, LASSO, message_of, send
from benchmarks.timing import best_times
from pu_geo.project.layout import Layout
from pu_geo.services.annotate import labeling
from tests.browser.real_app import made_up_project

N, CLICKS = 40_000, 1_000


def main() -> None:
    """Measure both, undo, redo and a second answer, and print a line each."""
    with tempfile.TemporaryDirectory(prefix="labels-at-once-") as place:
        os.environ["PU_GEO_HOME"] = str(Path(place) / "home")
        ids = [f"b{i:06d}" for i in range(N)]
        layout = made_up_project(Path(place) / "event.pugeo", ids)
        clicks = [message_of([one], session=f"click-{one}") for one in ids[-CLICKS:]]
        alone = _measured("one by one", CLICKS, lambda: [send(layout, message) for message in clicks])
        message = message_of(ids[:LASSO], session="lasso")
        at_once = _measured("at once", LASSO, lambda: send(layout, message))
        print(json.dumps({"one by one / at once, a label": [round(a / b, 1) for a, b in zip(alone, at_once, strict=True)]}))
        _measured("sent again", LASSO, lambda: labeling.store_operations(layout, message))
        _measured("undo of them", LASSO, lambda: _step(layout, "undo"))
        _measured("redo of them", LASSO, lambda: _step(layout, "redo"))
        again = partial(labeling.label_all, layout, ids[:LASSO], "not_damaged", analyst=ANALYSTS[0], screen="explore")
        _measured("answered again", LASSO, again)
        print(json.dumps({"load": os.getloadavg()}))


def _step(layout: Layout, kind: str) -> None:
    message = {"session": kind, "analyst": ANALYSTS[0], "ops": [{"n": 1, "op": f"{kind}-1", kind: True, "screen": "map"}]}
    found = labeling.store_operations(layout, message)
    assert found is not None
    assert found["refused"] is None, found["refused"]


def _measured(name: str, n: int, work: Callable[[], object]) -> tuple[float, float]:
    """Print how long something took; return its times for each of n labels."""
    clock, processor = best_times(1, work)
    print(json.dumps({"step": name, "labels": n, "s": round(clock, 3), "cpu_s": round(processor, 3)}), flush=True)
    return clock / n, processor / n


if __name__ == "__main__":
    main()
