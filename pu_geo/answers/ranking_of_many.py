"""Features of buildings, prepared for live rankings: a drawn sample is ranked at once, all others in the background. No
torch in this process.

A sample that a seed fixes is ranked while the analyst waits, with all that was answered and the highest of the last ranking
of all; of buildings that are no more than that these are all. A thread scores the others block by block; until then a
building keeps its score of the last ranking of all. It ends each round over all buildings before it takes the newest labels
for the next one: however fast somebody labels, rankings of all come. The first round brings each block into the space, and
keeps that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
import scipy
from numpy.typing import NDArray

from pu_geo.analysis.neighbor_graph import BLOCK, Check, NeighborGraph, blocks, distinct, nothing
from pu_geo.analysis.neighbors import highest
from pu_geo.analysis.ranking_evidence import RankingEvidence
from pu_geo.analysis.two_readings import (
    MOST_MEASURED,
    Chips,
    Floats,
    Ints,
    Marks,
    Reading,
    Space,
    drawn_anchors,
    embedded,
    middle_of,
    plain_and_roots,
    roots_of,
    scores_of,
)  # fmt: skip
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.store.labels import Moment

N_HIGHEST = 5_000  # of the last ranking of all that are ranked with the sample: the next damaged ones are likely among them
_event = attrgetter("event")
_MOST_KEPT = 4  # rankings: a browser may ask for the scores of the one before
Fit = Callable[[Chips, Marks, Callable[[Ints], Floats]], Reading]


class _StoppedError(Exception):
    """Ends the work of a preparation that was given up."""


@dataclass
class RankingOfMany:
    """What is ranked by the labels of one moment, as far as it was scored.

    Attributes:
        scores: float32 [N] in 0..1, of earlier labels where `is_new` is False; NaN where there is none yet.
        is_new: bool [N], which buildings were scored by the labels of that moment.
        is_complete: set once the background has scored all.
        evidence: where clicks stand that were held out; None where they were too few.
        problem: what ended the background's work on it; "" where nothing did, and once it works again.
    """

    at: Moment
    reading: Reading
    middle: float
    scores: NDArray[np.float32]
    is_new: NDArray[np.bool_]
    evidence: RankingEvidence | None = None
    is_complete: threading.Event = field(default_factory=threading.Event)
    problem: str = ""


class ManyBuildings:
    """Features of buildings, prepared for rankings by their labels. Safe to call from several threads.

    Args:
        views: float [V, N, D], a memory map.
        is_used: bool [N], the buildings that the space is measured from and anchors are drawn from.
        n_sample: how many are drawn to be ranked at once; all where there are no more.
        most_views: how many views of all clicked buildings together are learned from, at most; one of each is.
        fit: learns from chips, marks and whitened views, see `two_readings.read_clicks`.
    """

    def __init__(
        self, views: NDArray[np.floating], is_used: NDArray[np.bool_], n_sample: int, most_views: int, fit: Fit
    ) -> None:
        self.views, self._most_views, self._fit, self._settings = views, most_views, fit, PropagationSettings()
        n, used = views.shape[1], np.flatnonzero(is_used)
        measured = used[:: max(1, len(used) // MOST_MEASURED)]
        self._space = Space.of(*plain_and_roots(self.views, measured), self._settings.whitening)
        self._dim = min(self._settings.embedding_dim, views.shape[2])
        anchors = drawn_anchors(is_used, self._settings.n_anchors, seed=0)
        embeddings = embedded(self._space.white(plain_and_roots(self.views, anchors)[1]), self._dim)
        first = distinct(embeddings)
        anchors = anchors[first]
        self._graph = NeighborGraph.of(np.ascontiguousarray(embeddings[first]), self._settings.n_neighbors)
        self._rows = np.union1d(np.argsort(places_of(n), kind="stable")[:n_sample], anchors)  # that are ranked at once
        self._place = np.full(n, -1, np.int64)  # of each building among these
        self._place[self._rows] = np.arange(len(self._rows))
        self._chips = replace(self._chips_at(self._rows), links=self._graph.links(), at=self._place[anchors])
        self._white_views: dict[
            int, NDArray[np.float32]
        ] = {}  # row -> its whitened views, float32 [V, D], of clicked buildings
        self._white = np.empty((n, views.shape[2]), np.float32)
        self._ties: list[scipy.sparse.csr_array] = []  # of each prepared block
        self._rankings: dict[Moment, RankingOfMany] = {}
        self._last: RankingOfMany | None = None  # of all
        self._ranking, self._state = threading.Lock(), threading.Lock()
        self._may_go_on, self._is_stopped = threading.Event(), False
        self._may_go_on.set()
        self._thread: threading.Thread | None = None

    def known(self, at: Moment) -> RankingOfMany | None:
        """Return a ranking that was asked for not long ago; the background goes on where it had ended."""
        with self._state:
            found = self._rankings.get(at)
            if found is not None and not found.is_complete.is_set():
                self._go_on()
            return found

    def known_or_newer(self, at: Moment) -> RankingOfMany | None:
        """Return the same, or the newest where that has all scores: the background does not go back to the labels before."""
        found = self.known(at)
        with self._state:
            newest = self._newest()
        return newest if found is not None and newest is not None and newest.is_complete.is_set() else found

    def _newest(self) -> RankingOfMany | None:
        """Return the ranking by the newest labels that was asked for, whatever was asked for last. The caller holds the
        state.
        """
        at = max(reversed(self._rankings), key=_event, default=None)
        return None if at is None else self._rankings[at]

    def rank(self, at: Moment, marks: Marks, also: Ints) -> RankingOfMany:
        """Learn from the labels of a moment and score the sample at once; the background goes on with all others.

        Args:
            marks: rows that are learned from.
            also: rows that are to have a score at once beside the sample, int64.
        """
        with self._ranking:
            if (found := self.known(at)) is not None:
                return found
            self._may_go_on.clear()
            try:
                found = self._ranked(at, marks, also)
            finally:
                self._may_go_on.set()
            with self._state:
                if len(self._rankings) == _MOST_KEPT:
                    del self._rankings[min(self._rankings, key=_event)]  # never the new one, which is asked for
                self._rankings[at] = found
                if not found.is_complete.is_set():
                    self._go_on()
        return found

    def _go_on(self) -> None:
        """Start the background's thread where it does not run. The caller holds the state."""
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(target=self._score_all, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the background's work for good."""
        with self._state:
            self._is_stopped = True
            self._rankings.clear()

    def _ranked(self, at: Moment, marks: Marks, also: Ints) -> RankingOfMany:
        self._add(np.concatenate([marks.positive, marks.unlabeled, marks.not_damaged]))
        own = Marks(*(self._place[rows] for rows in (
            marks.clicked, marks.queued, marks.unlabeled, marks.not_damaged, marks.accepted,
        )), votes=marks.votes)  # fmt: skip
        reading = self._fit(self._chips, own, lambda places: self._views_of(self._rows[places]))
        raw = reading.scores(self._chips, self._settings.propagation)
        middle = middle_of(raw[own.unlabeled if len(own.unlabeled) else own.not_damaged], reading.share)
        n, last = self.views.shape[1], self._last
        scores = np.full(n, np.nan, np.float32) if last is None else last.scores.copy()
        is_new = self._place >= 0
        scores[self._rows] = scores_of(raw, middle)
        rest = also if last is None else np.union1d(also, highest(last.scores, N_HIGHEST))
        rest = rest[~is_new[rest]]
        evidence = reading.evidence(self._chips, self._settings.propagation)
        found = RankingOfMany(at, reading, middle, scores, is_new, evidence)
        for part in blocks(len(rest)):
            self._score(found, rest[part], self._chips_at(rest[part]))
        if is_new.all():
            found.is_complete.set()
        return found

    def _score(self, found: RankingOfMany, rows: Ints | slice, chips: Chips) -> None:
        found.scores[rows] = scores_of(found.reading.scores(chips, self._settings.propagation), found.middle)
        found.is_new[rows] = True

    def _add(self, rows: Ints) -> None:
        """Rank rows at once from now on: what is learned from stays nearly the same from ranking to ranking."""
        new = rows[self._place[rows] < 0]
        if len(new):
            more, former = self._chips_at(new), self._chips
            ties = scipy.sparse.vstack([former.ties, more.ties], format="csr")
            standard, white = np.concatenate([former.standard, more.standard]), np.concatenate([former.white, more.white])
            self._chips = replace(former, standard=standard, white=white, ties=ties)
            self._place[new] = len(self._rows) + np.arange(len(new))
            self._rows = np.concatenate([self._rows, new])

    def _views_of(self, rows: Ints) -> Floats:
        """Whiten views of some buildings, float32 [V', P, D]; of very many fewer views."""
        most = min(max(1, self._most_views // max(len(rows), 1)), len(self.views))
        for row in rows.tolist():
            if len(self._white_views.get(row, ())) < most:
                self._white_views[row] = self._space.white(roots_of(np.asarray(self.views[:most, row], np.float32)))
        return np.stack([self._white_views[row][:most] for row in rows.tolist()], axis=1)

    def _chips_at(self, rows: Ints | slice, check: Check = nothing) -> Chips:
        """Bring rows into the space and tie them to the anchors."""
        plain, roots = plain_and_roots(self.views, rows)
        white = self._space.white(roots)
        return Chips(self._space.standard(plain), white, self._graph.ties(embedded(white, self._dim), check))

    def _pause(self) -> None:
        """Wait while a ranking of the sample goes on, which needs the processor."""
        self._may_go_on.wait()
        if self._is_stopped:
            raise _StoppedError

    def _score_all(self) -> None:
        """Score all buildings by the newest labels, and again by newer ones, until the newest that were asked for are done.

        A request by older labels that came late is not the newest; nor are older labels worth a round once newer ones had
        theirs.
        """
        n, wanted = self.views.shape[1], None
        try:
            while True:
                with self._state:
                    wanted = self._newest()
                    if wanted is None or wanted.is_complete.is_set():
                        self._thread = None
                        return
                for start in range(0, n, BLOCK):
                    part = slice(start, min(start + BLOCK, n))
                    self._pause()
                    self._score(wanted, part, self._prepared(part))
                self._last, wanted.problem = wanted, ""
                wanted.is_complete.set()
        except BaseException as error:  # whoever asks next starts another thread
            with self._state:
                self._thread = None
            if not isinstance(error, _StoppedError):
                if wanted is not None:
                    wanted.problem = f"{type(error).__name__}: {error}".rstrip(": ")
                raise

    def _prepared(self, part: slice) -> Chips:
        """Return the chips of a block, brought into the space when it is met for the first time."""
        number = part.start // BLOCK
        if number < len(self._ties):
            plain = np.asarray(self.views[0, part], np.float32)
            return Chips(self._space.standard(plain), self._white[part], self._ties[number])
        found = self._chips_at(part, self._pause)
        self._white[part] = found.white
        self._ties.append(found.ties)
        return found


def places_of(n: int) -> NDArray[np.float64]:
    """Return the place of each of n buildings in the order in which they are drawn, float64 [n] in 0..1; always the same."""
    return np.random.default_rng(0).random(n)
