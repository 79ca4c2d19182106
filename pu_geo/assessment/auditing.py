"""What the audit of a run's map says: number damaged, precision and recall, thresholds, and chances of damage.

The map that is judged is the exported one. Precision is of what is flagged: buildings that nobody answered. What people
confirmed is counted apart; it is on the map all the same, so it counts in recall.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.analysis.audit import calibration
from pu_geo.analysis.audit import design as audit
from pu_geo.analysis.audit.calibration import Calibration
from pu_geo.analysis.audit.design import AtThreshold, Choice
from pu_geo.analysis.audit.design import Estimate as Estimate
from pu_geo.analysis.estimates import PLANNED_SHARE
from pu_geo.answers import queueing, random_checks
from pu_geo.answers.random_checks import Check
from pu_geo.assessment import random_audits
from pu_geo.assessment.random_audits import Answered
from pu_geo.errors import PuGeoError
from pu_geo.records import Facts, Floats
from pu_geo.scenes.preparation import chip_facts
from pu_geo.store import analysts, contents, labels, population, run_names, runs, store
from pu_geo.store.labels import Moment
from pu_geo.store.layout import Layout

N_THRESHOLDS = 60
SIZES = (30, 60, 120, 240)
"""Random checks of which a screen shows what they buy, beside those that are chosen."""
FIRST = 60
"""Random checks of an audit where nobody says how many: ten minutes."""
CONFIDENCE = 0.95
SECONDS_A_CHECK = 10
"""How long a random check takes in plans of an audit: a plan's number."""
NOT_KNOWN = "not known before an accuracy assessment"
"""How many are damaged, and their share, as every screen, report and export has it until random checks say."""
IN_ALL = "How many there are in all is"
BAND = 0.9
_OF_SAMPLE = ("n_drawn", "n_answered", "n_counted", "n_damaged", "state", "words")


@dataclass(frozen=True)
class AuditView:
    """An audit as it is now.

    Attributes:
        done: its sample as far as it was answered.
        n: assessable buildings of the map.
        total: number damaged by this audit; `how_many` is what to show of it.
        rows: precision and recall from the lowest threshold to the highest.
        calibration: None, and the reason in `no_calibration`, where there are too few answers.
        agreement: of two readers on the audit's buildings; None where nobody read them twice.
    """

    check: Check
    done: Answered
    n: int
    total: Estimate
    rows: tuple[AtThreshold, ...]
    calibration: Calibration | None
    no_calibration: str
    agreement: analysts.Agreement | None


def view(layout: Layout, run_id: str) -> AuditView | None:
    """Judge a run by its newest audit; None where there was none."""
    check = random_audits.newest_audit(layout, run_id)
    if check is None:
        return None
    with store.connect(layout) as db:
        newest = (labels.moment(db), contents.geometry_v(db), contents.latest_chip_set(db))
    return _view(layout, run_id, check.id, check.sample.n_drawn, check.is_open, newest)


@lru_cache(maxsize=8)
def _view(
    layout: Layout, run_id: str, check_id: str, n_drawn: int, is_open: bool, newest: tuple[Moment, str, str | None]
) -> AuditView:
    """Judge anew where the sample, the labels, the footprints or the chips changed."""
    check = random_checks.load(layout, check_id)
    done, scores = _judged(layout, run_id, check)
    total = audit.estimate_total(done.sample, done.answers, confidence=CONFIDENCE)
    fitted, reason = None, ""
    try:
        fitted = calibration.calibrate(_raw_scores(layout, run_id), done.sample, done.answers, seed=0)
    except PuGeoError as error:
        reason = error.problem
    if fitted is not None and done.is_outside.any():
        fitted = _left_by_the_search(fitted, _raw_scores(layout, run_id), done.answers, total)
    of_sample = scores[check.sample.rows]
    spread = np.quantile(of_sample, 1 - np.geomspace(0.0005, 1, N_THRESHOLDS)) if len(of_sample) else np.array([1.0])
    thresholds = np.unique(spread.round(4))
    with store.connect(layout) as db:
        ids = runs.building_ids_of(layout, run_id)
        agreed = analysts.agreement(db, {ids[row] for row in check.sample.rows[:n_drawn]})
    return AuditView(
        check=check,
        done=done,
        n=int((done.answers != audit.NOT_ASSESSABLE).sum()),
        total=total,
        rows=tuple(audit.at_thresholds(done.sample, done.answers, scores, thresholds, confidence=CONFIDENCE)),
        calibration=fitted,
        no_calibration=reason,
        agreement=agreed if agreed.n else None,
    )


def _left_by_the_search(fitted: Calibration, scores: Floats, answers: NDArray[np.int8], total: Estimate) -> Calibration:
    """Lower chances of damage by what a search found since the audit: of those still open, fewer are damaged."""
    if total.value is None or total.low is None or total.high is None:
        return fitted
    n_found = int((answers == audit.DAMAGED).sum())
    left = (total.low - n_found, total.value - n_found, total.high - n_found)
    return calibration.moved(fitted, scores[answers == audit.OPEN], left)


# How many are damaged


@dataclass(frozen=True)
class HowMany:
    """How many buildings of a project are damaged: the one answer that every screen, report and export gives.

    Attributes:
        confirmed: buildings that people call damaged, of all footprints.
        n: buildings that the answer is about: those that are assessed, without `n_not_covered`.
        n_not_covered: of `n_not_assessed`, those without an answer that no check could draw, as they were added since.
        n_not_assessed: all others: hidden, answered as not assessable, not covered, or not assessed by the audited run. The
            map of that run counts the same.
        basis: "all" (every building that is assessed was answered), "audit", "queue" (the random checks of the search), or
            "none".
        total: damaged in all, confirmed ones included; without a value where there is not enough to estimate.
        n_checks, n_damaged: random checks that count, and how many found damage.
        check_id: of the audit.
        run_id, run_name: the audited run, where the number is estimated by its audit; None and "" otherwise.
        audit_state: of the newest audit, see `random_audits.Answered`; empty without one.
        words: all of it in a sentence or two.
    """

    confirmed: int
    n: int
    n_not_covered: int
    n_not_assessed: int
    basis: Literal["all", "audit", "queue", "none"]
    total: Estimate
    n_checks: int
    n_damaged: int
    check_id: str | None
    run_id: str | None
    audit_state: str
    words: str
    run_name: str = ""

    def as_mapping(self) -> Facts:
        """Return plain values for exports: {"N", "n", "x", "confirmed", "estimate", "low", "high", "not_covered",
        "not_assessed", "method", "run_id", "words", "audit_state"}; the estimate and its bounds are None where there is not
        enough to estimate."""
        low, value, high = (
            None if one is None else round(one) for one in (self.total.low, self.total.value, self.total.high)
        )
        method = {
            "all": "count: every building that could be judged was answered; the others are not in it"
            if self.n_not_assessed
            else "count: every building was answered",
            "audit": "accuracy assessment, stratified random, Horvitz-Thompson, 95 % interval",
            "queue": "random picks of the search, stratified, Horvitz-Thompson, 95 % interval",
            "none": "not enough to estimate",
        }[self.basis]
        has_checks = self.basis in ("audit", "queue")
        return {
            "N": self.n,
            "n": self.n_checks if has_checks else None,
            "x": self.n_damaged if has_checks else None,
            "confirmed": self.confirmed,
            "estimate": value,
            "low": low,
            "high": high,
            "not_covered": self.n_not_covered,
            "not_assessed": self.n_not_assessed,
            "method": method,
            "run_id": self.run_id,
            "words": self.words,
            "audit_state": self.audit_state or None,
        }

    def words_beside(self, run_id: str) -> str:
        """Return the words for a page that shows a run: with the audited run, where that is another one."""
        if self.run_id in (None, run_id):
            return self.words
        return f"{self.words} By the accuracy assessment of {self.run_name}, another run than this one."


def how_many(layout: Layout) -> HowMany:
    """Estimate how many buildings are damaged, by the newest audit that is enough, else by the random checks of the search.

    Without enough random checks there is no number beside the confirmed ones: clicks are no even draw of the damage, so what
    they speak for may be a quarter of it or twice as much.
    """
    with store.connect(layout) as db:
        newest, footprints, chip_set = labels.moment(db), contents.geometry_v(db), contents.latest_chip_set(db)
    audits = tuple((facts["id"], facts["n_drawn"], facts["is_open"]) for facts in random_audits.audits_of(layout))
    of_search = queueing.checks_of_search(layout, chip_set) if chip_set else None
    found = _how_many(layout, newest, footprints, chip_set, audits, of_search.n_drawn if of_search else 0)
    return replace(found, run_name=run_names.name(layout, found.run_id)) if found.run_id else found


@lru_cache(maxsize=4)
def _how_many(
    layout: Layout, newest: Moment, footprints: str, chip_set: str | None, audits: tuple[tuple[str, int, bool], ...],
    n_of_search: int,
) -> HowMany:  # fmt: skip
    """Estimate anew where labels, footprints, chips or samples changed."""
    with store.connect(layout) as db:
        ids = contents.building_ids(db)
        known = labels.current_labels(db)
    newest_audit: Answered | None = None
    of_audit: Estimate | None = None
    for check_id, _, _ in reversed(audits):
        check = random_checks.load(layout, check_id)
        done = random_audits.answered(layout, check)
        newest_audit = newest_audit or done
        if not len(done.sample.rows):
            continue
        total = audit.estimate_total(done.sample, done.answers, confidence=CONFIDENCE)
        of_audit = of_audit or total
        if total.is_enough:
            return _described("audit", layout, check.chip_set, done, total, newest_audit, ids, known, check)
    if chip_set is None:
        nothing = Estimate(None, None, None, "not enough: no chips were cut yet. Cut chips on the Imagery page.")
        return _described("none", layout, None, None, of_audit or nothing, newest_audit, ids, known, None)
    drawn = queueing.checks_of_search(layout, chip_set)
    answers = random_audits.answers_of(layout, chip_set)
    if drawn is None:
        is_known = answers != audit.OPEN
        drawn = audit.design(np.zeros(len(answers)), is_known, n=0, seed=0, cuts=())
    done = random_audits.answered_in_search(layout, chip_set, drawn, answers)
    total = audit.estimate_total(done.sample, answers, confidence=CONFIDENCE)
    if not total.is_enough and of_audit is not None:
        total = of_audit  # why there is no number: the audit's reason, not the search's
    return _described("queue" if total.is_enough else "none", layout, chip_set, done, total, newest_audit, ids, known, None)


def _described(
    basis: Literal["audit", "queue", "none"], layout: Layout, chip_set: str | None, done: Answered | None, total: Estimate,
    newest_audit: Answered | None, ids: Sequence[str], known: Mapping[str, str], check: Check | None,
) -> HowMany:  # fmt: skip
    """Add the footprints that the sample's chip set does not know, and put it into words."""
    covered: Sequence[str] = chip_facts(layout, chip_set)["building_ids"] if chip_set else ()
    answers = done.answers if done else np.zeros(0, np.int8)
    others = [known.get(building) for building in set(ids).difference(covered)]
    n = int((answers != audit.NOT_ASSESSABLE).sum()) + others.count("positive") + others.count("not_damaged")
    n_not_assessed = len(ids) - n
    n_not_covered, confirmed = others.count(None), list(map(known.get, ids)).count("positive")
    if total.value is not None and total.low is not None and total.high is not None:
        more = others.count("positive")
        total = Estimate(total.value + more, total.low + more, total.high + more, total.words)
    is_all = done is not None and not (answers == audit.OPEN).any() and not n_not_covered
    n_checks = done.n_counted if done and basis != "none" else 0
    by: Literal["all", "audit", "queue", "none"] = "all" if is_all else basis
    words = [_headline(by, total, confirmed, n, n_not_assessed, n_checks, has_audit=newest_audit is not None)]
    if n_not_assessed and by in ("audit", "queue"):
        others_are = "1 more is" if n_not_assessed == 1 else f"{n_not_assessed:,} more are"
        words.append(f"{others_are} not assessed and not in this number.")
    if newest_audit:
        words.append(newest_audit.frame if newest_audit.state == "finished" else newest_audit.words)
    if n_not_covered and by in ("audit", "queue"):
        words.append(f"{n_not_covered:,} of these came later: no check could draw them.")
    return HowMany(
        confirmed,
        n,
        n_not_covered,
        n_not_assessed,
        by,
        total,
        n_checks,
        done.n_damaged if done and n_checks else 0,
        check.id if check else None,
        check.run_id if check and by == "audit" else None,
        newest_audit.state if newest_audit else "",
        " ".join(filter(None, words)),
    )


def _headline(
    basis: str, total: Estimate, confirmed: int, n: int, n_not_assessed: int, n_checks: int, *, has_audit: bool
) -> str:
    if basis == "all" and n_not_assessed:
        which = "1 was" if n_not_assessed == 1 else f"{n_not_assessed:,} were"
        return (
            f"{confirmed:,} of {n:,} buildings are damaged; every building that could be judged was answered; "
            f"{which} not assessed."
        )
    if basis == "all":
        return f"{confirmed:,} of {n:,} buildings are damaged; every one was answered."
    if total.value is None or total.low is None or total.high is None:
        unknown = f"{wording.plural(confirmed, 'building is', 'buildings are')} confirmed damaged. {IN_ALL}"
        if has_audit:
            return f"{unknown} not known yet: not enough to estimate, {total.words.removeprefix('not enough: ')}"
        return f"{unknown} {NOT_KNOWN}. An accuracy assessment estimates it."
    checks = "random picks of the search" if basis == "queue" else "checks drawn at random"
    return (
        f"About {total.value:,.0f} of {n:,} buildings are damaged, between {total.low:,.0f} and {total.high:,.0f} (95 % "
        f"interval): {confirmed:,} confirmed, the rest estimated from {n_checks:,} {checks}."
    )


def without_headline(words: str) -> str:
    """Return the words of an estimate without the number, or that there is none, for a place where a headline has that
    already.

    >>> without_headline("About 3 of 9 buildings are damaged, between 2 and 4 (95 % interval): 1 confirmed, the rest.")
    '1 confirmed, the rest.'
    >>> without_headline(f"1 building is confirmed damaged. {IN_ALL} {NOT_KNOWN}. Checks estimate it.")
    '1 building is confirmed damaged. Checks estimate it.'
    """
    about = r"^About [\d,]+ of [\d,]+ buildings are damaged, between [\d,]+ and [\d,]+ \(95 % interval\): "
    return re.sub(rf"{about}|{re.escape(IN_ALL)} (not known yet: |{re.escape(NOT_KNOWN)}\. )", "", words)


# One threshold


def at(layout: Layout, run_id: str, threshold: float) -> AtThreshold | None:
    """Estimate precision and recall at one threshold; None without an audit."""
    check = random_audits.newest_audit(layout, run_id)
    return None if check is None else at_by(layout, run_id, check, [threshold])[0]


def at_by(layout: Layout, run_id: str, check: Check, thresholds: Sequence[float]) -> list[AtThreshold]:
    """Estimate precision and recall of a run by any audit of the same chips, also one that another run's scores drew."""
    done, scores = _judged(layout, run_id, check)
    return audit.at_thresholds(done.sample, done.answers, scores, thresholds, confidence=CONFIDENCE)


def choose(found: AuditView, *, precision: float | None = None, recall: float | None = None) -> Choice:
    """Choose a threshold for a wanted precision or recall."""
    return audit.threshold_for(found.rows, precision=precision, recall=recall)


def facts(layout: Layout, run_id: str, threshold: float) -> Facts | None:
    """Return an audit in plain values, for exports and the report; None without an audit.

    Returns:
        {"check_id", "n", "n_drawn", "n_answered", "n_counted", "n_damaged", "state", "words", "total", "at_threshold",
        "curve", "agreement", "calibration", "bands"}, and of several sites "sites", see `by_site`; the figures come from
        the first "n_counted" checks of the random order, see `random_audits.Answered` for these and the state. Bands are the
        thresholds of 90 % precision and recall, by the estimates: lower bounds of recall from few checks would put nearly
        every building into the second band. None where most buildings would be in it.
    """
    found = view(layout, run_id)
    if found is None:
        return None
    scores = _raw_scores(layout, run_id).round(4)[found.done.answers != audit.NOT_ASSESSABLE]
    bands = {
        "high_precision": choose(found, precision=BAND).estimated, "high_recall": choose(found, recall=BAND).estimated,
    }  # fmt: skip
    curve, sites = found.calibration, by_site(layout, run_id, threshold)
    return {
        "check_id": found.check.id,
        "n": found.n,
        **{name: getattr(found.done, name) for name in _OF_SAMPLE},
        "total": asdict(found.total),
        "at_threshold": asdict(at_by(layout, run_id, found.check, [threshold])[0]),
        "curve": [asdict(row) for row in found.rows],
        "agreement": None if found.agreement is None else asdict(found.agreement),
        "calibration": None if curve is None else {key: values.tolist() for key, values in curve.state().items()},
        "bands": {name: None if limit is None or (scores >= limit).mean() > 0.5 else limit for name, limit in bands.items()},
        **({"sites": sites} if sites else {}),
    }


def by_site(layout: Layout, run_id: str, threshold: float) -> list[Facts]:
    """Return what the newest audit of a run says of each of several sites, by the checks in it alone.

    Returns:
        [{"site", "total", "at_threshold", "words"}], in the order of the sites: the number damaged, and precision and recall
        at the threshold of the event; where it does not fit shows here. A figure has no value where a site has too few
        checks for it. Nothing without an audit, or where there is one site.
    """
    if (check := random_audits.newest_audit(layout, run_id)) is None:
        return []
    sites = store.call(layout, population.sites, chip_facts(layout, check.chip_set)["building_ids"])
    if not sites.names:
        return []
    (done, scores), found = _judged(layout, run_id, check), list[Facts]()
    for site, name in enumerate(sites.names):
        is_out = sites.of != site
        sample, answers = done.sample.without(is_out), np.where(is_out, np.int8(audit.NOT_ASSESSABLE), done.answers)
        total = audit.estimate_total(sample, answers, confidence=CONFIDENCE)
        (at,) = audit.at_thresholds(sample, answers, scores, [threshold], confidence=CONFIDENCE)
        figures = {"damaged": total, "precision": at.precision, "recall": at.recall}
        known = [
            f"{figure} {one.value:,.0f} ({one.low:,.0f} to {one.high:,.0f})" if one is total
            else f"{figure} {wording.interval_of(vars(one))}"
            for figure, one in figures.items() if one.is_enough
        ]  # fmt: skip
        lacking = wording.listed([figure for figure, one in figures.items() if not one.is_enough])
        words = f"{name}: {'; '.join([*known, *([f'no estimate of {lacking}'] if lacking else ()), total.words])}"
        found.append({"site": name, "total": asdict(total), "at_threshold": asdict(at), "words": words})
    return found


@dataclass(frozen=True)
class Plan:
    """What so many random checks of a run's map would buy.

    Attributes:
        n: checks; 0 where every building is answered.
        fewest, most: between which they may be: fewer give no estimate, and no more buildings have no answer.
        words: what it supposes.
    """

    n: int
    fewest: int
    most: int
    words: str


def plan(layout: Layout, run_id: str) -> Plan:
    """Plan an audit of `FIRST` checks: more of the same order can be added once its interval is seen."""
    facts, (share, is_estimated) = store.call(layout, runs.find, run_id), _planned(layout)
    most = int((random_audits.answers_of(layout, facts.chip_set, facts.run_id) == audit.OPEN).sum())
    fewest = random_audits.fewest_of(most)
    if not most:
        return Plan(0, 0, 0, "Every building is answered; there is nothing to estimate.")
    why = (
        f"if 1 in {round(1 / PLANNED_SHARE)} were damaged / half were; how many are is {NOT_KNOWN}. Rarer damage takes more."
    )
    if is_estimated:
        why = f"the accuracy assessment estimates it: {share:.1%} damaged of what is not answered."
    return Plan(min(FIRST, most), fewest, most, f"Planned as {why} The least is {wording.plural(fewest, 'check')}.")


def offers(layout: Layout, run_id: str, threshold: float, n: int) -> list[tuple[str, ...]]:
    """Return what n checks and other numbers would buy, in words: checks, time, and by how much the number damaged, and
    precision and recall in points, would be known. Each is estimated as if the checks found what `plan` supposes.
    """
    facts, raw, found = store.call(layout, runs.find, run_id), _raw_scores(layout, run_id).round(4), list[tuple[str, ...]]()
    scores = np.asarray(runs.scores_alone(layout, facts.run_id), np.float64)  # by which the audit is drawn
    answers = random_audits.answers_of(layout, facts.chip_set, facts.run_id)
    (share, is_estimated), is_known = _planned(layout), answers != audit.OPEN
    guesses = [_guess(scores, max(each, 1 / len(scores))) for each in ([share] if is_estimated else [share, 0.5])]
    most = (~is_known).sum() // 3  # beyond it hardly any flagged building is left to be precise about
    for size in sorted({n, *(size for size in SIZES if size <= most)}):
        drawn, known = audit.design(scores, is_known, n=size, seed=0), list[list[str]]()
        asked = drawn.rows[:size][np.argsort(-scores[drawn.rows[:size]])]
        for guess in guesses:
            shown = answers.copy()
            shown[asked] = np.diff(np.floor(np.cumsum(guess[asked]) + 0.5), prepend=0)
            (at,) = audit.at_thresholds(drawn, shown, raw, [threshold], confidence=CONFIDENCE)
            total = audit.estimate_total(drawn, shown, confidence=CONFIDENCE)
            known.append([_half(total, 1), *(_half(share, 100) for share in (at.precision, at.recall))])
        words = (" / ".join(dict.fromkeys(both)) for both in zip(*known, strict=True))
        found.append((f"{size:,}", wording.duration(size * SECONDS_A_CHECK), *words))
    return found


def _half(found: Estimate, scale: int) -> str:
    """Return by how much a figure is known: half of its interval."""
    return "cannot be told" if found.low is None or found.high is None else f"±{scale * (found.high - found.low) / 2:,.0f}"


def _minutes(n: int) -> str:
    return f"about {wording.plural(max(round(n * SECONDS_A_CHECK / 60), 1), 'minute')} at {SECONDS_A_CHECK} seconds each"


def more_words(found: AuditView, n: int) -> str:
    """Return what n more checks of an audit would buy: its interval narrows with the root of their number, to nothing once
    all are checked.
    """
    done, low, high = found.done, found.total.low, found.total.high
    if low is None or high is None:
        return f"{n:,} more take {_minutes(n)}. So far {found.total.words}"
    total, now, then = len(done.sample.rows), done.n_counted, done.n_drawn + n
    half = (high - low) / 2
    narrowed = half * (now / then * max(total - then, 0) / max(total - now, 1)) ** 0.5
    return f"{n:,} more should narrow the interval from ±{half:,.0f} to about ±{narrowed:,.0f}, in {_minutes(n)}."


def _planned(layout: Layout) -> tuple[float, bool]:
    """Return the damaged share that an audit is planned for, 0..1, and whether random checks estimated it."""
    found = how_many(layout)
    n_open = found.n - found.confirmed
    if found.basis not in ("audit", "queue") or found.total.value is None or n_open <= 0:
        return PLANNED_SHARE, False
    return min(max((found.total.value - found.confirmed) / n_open, 1 / n_open), 1.0), True


def _guess(scores: Floats, share: float) -> Floats:
    """Guess chances of damage: a curve over the rank that falls from the top and has the wanted mean, float64 [N].

    Ours: as many as `share` are expected, three quarters of them within twice that share from the top.
    """
    place = (np.argsort(np.argsort(-scores, kind="stable"), kind="stable") + 0.5) / len(scores)
    top = min(2 * share, 1.0)
    inside = 0.75 * share / top
    return np.clip(np.where(place <= top, inside, 0.25 * share / max(1 - top, share)), 0.0, 1.0)


def _raw_scores(layout: Layout, run_id: str) -> Floats:
    return np.asarray(runs.array(layout, run_id, "scores"), np.float64)


def _judged(layout: Layout, run_id: str, check: Check) -> tuple[Answered, Floats]:
    """Return the answers that count, and the scores as they are written."""
    return random_audits.answered(layout, check), _raw_scores(layout, run_id).round(4)
