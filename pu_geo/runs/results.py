"""The finished runs of a project as a table: what each is called, how it was made, and how it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pu_geo import wording
from pu_geo.analysis.pu_criterion import FEWEST_HELD_OUT, wilson
from pu_geo.assessment import auditing, random_audits
from pu_geo.methods import catalog
from pu_geo.records import RunFacts
from pu_geo.store import chosen, run_names
from pu_geo.store.layout import Layout

NOT_JUDGED, NOT_AUDITED = "none held out", "none"


@dataclass(frozen=True)
class RunRow:
    """One run of the table.

    Attributes:
        n_damaged: damaged labels that it learned from; None where it learned in another project.
        judged: recall on held-out clicks with its 95 % interval, in words; or why there is none.
        audited: precision and recall of its newest audit at its threshold, in words; or that there is none.
        is_shown: whether screens, live map and exports show it.
    """

    run_id: str
    name: str
    method: str
    made_at: str
    took: str
    n_damaged: int | None
    judged: str
    audited: str
    is_shown: bool


def table(layout: Layout, found: Sequence[RunFacts]) -> list[RunRow]:
    """Return a row for each run, in their order."""
    names, shown = run_names.names(layout), chosen.chosen_run(layout)
    audited = {facts["run_id"] for facts in random_audits.audits_of(layout)}
    return [
        RunRow(
            run.run_id, names[run.run_id], catalog.title(run.method), wording.day_and_time(run.created_at),
            wording.duration(run.seconds), None if run.from_model else run.n_positive, judged_words(run),
            _audit_words(layout, run.run_id) if run.run_id in audited else NOT_AUDITED,
            shown is not None and shown.run_id == run.run_id,
        )
        for run in found
    ]  # fmt: skip


def judged_words(run: RunFacts) -> str:
    """Return how many held-out clicks a run finds at its own threshold, with the 95 % interval."""
    known = run.judgement or {}
    n, recall = int(str(known.get("n_held_out") or 0)), known.get("recall")
    if not n or recall is None:
        return NOT_JUDGED
    if n < FEWEST_HELD_OUT:
        return f"not enough: {n} of {FEWEST_HELD_OUT} clicks"
    share = float(str(recall))
    called = "" if known.get("n_called") is None else f", {int(str(known['n_called'])):,} flagged"
    return f"{wording.interval(share, *wilson(round(share * n), n))} of {n}{called}"


def _audit_words(layout: Layout, run_id: str) -> str:
    at = auditing.at(layout, run_id, chosen.threshold(layout, run_id).value)
    if at is None:
        return NOT_AUDITED
    known = {"precision": at.precision, "recall": at.recall}
    parts = [f"{name} {wording.interval_of(vars(figure))}" for name, figure in known.items() if figure.value is not None]
    return ", ".join(parts) or at.recall.words
