"""The live ranking of very many buildings: a drawn sample at once, all others in the background. No torch in this process.

Learned is from the same buildings, in the same space and on the same graph as where all are ranked at once, see `ranking`; so the
scores are the same but for rounding. What differs is when they are there. A sample that a seed fixes is ranked while the analyst waits,
with all that was answered and the highest of the last ranking of all. A thread scores the others block by block; until then a building
keeps its score of the last ranking of all. It ends each round over all buildings before it takes the newest labels for the next one:
however fast somebody labels, rankings of all come. The first round brings each block into the space, and keeps that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from pu_geo.analysis.neighbor_graph import BLOCK, Check, NeighborGraph, blocks, distinct
from pu_geo.analysis.neighbors import highest
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
    roots_of,
    scores_of,
)  # fmt: skip
from pu_geo.methods.cards.propagation import PropagationSettings
from pu_geo.project.labels import Moment

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
        problem: what ended the background's work on it; "" where nothing did, and once it works again.
    """

    at: Moment
    reading: Reading
    middle: float
    scores: NDArray[np.float32]
    is_new: NDArray[np.bool_]
    is_complete: threading.Event = field(default_factory=threading.Event)
    problem: str = ""


class ManyBuildings:
    """Features of very many buildings, prepared for rankings by their labels. Safe to call from several threads.

    Args:
        views: float [V, N, D], a memory map.
        is_used: bool [N], the buildings that the space is measured from and anchors are drawn from.
        n_sample: how many are drawn to be ranked at once.
        fit: learns from chips, marks and whitened views, see `two_readings.read_clicks`.
    """

    def __init__(self, views: NDArray[np.floating], is_used: NDArray[np.bool_], n_sample: int, fit: Fit) -> None:
        self.views, self._fit, self._settings = views, fit, PropagationSettings()
        n, used = views.shape[1], np.flatnonzero(is_used)
        measured = used[:: max(1, len(used) // MOST_MEASURED)]
        self.space = Space.of(*self._plain_and_roots(measured), self._settings.whitening)
        self._dim = min(self._settings.embedding_dim, views.shape[2])
        anchors = drawn_anchors(is_used, self._settings.n_anchors, seed=0)
        rows = embedded(self.space.white(self._plain_and_roots(anchors)[1]), self._dim)
        first = distinct(rows)
        self._anchors = anchors[first]
        self._graph = NeighborGraph.of(np.ascontiguousarray(rows[first]), self._settings.n_neighbors)
        self._links = self._graph.links()
        sample = np.sort(np.argsort(places_of(n), kind="stable")[:n_sample])
        self._base = np.union1d(sample, self._anchors)
        self._at = np.searchsorted(self._base, self._anchors)
        self._of_base = self._chips_at(self._base)
        self._answered: dict[int, int] = {}  # row -> its place in the three below, of what is learned from beside the base
        self._of_answered = self._chips_at(self._base[:0])
        self._white = np.empty((n, views.shape[2]), np.float32)
        self._ties: list[csr_array] = []  # of each prepared block
        self._rankings: dict[Moment, RankingOfMany] = {}
        self._last: RankingOfMany | None = None  # of all
        self._ranking, self._state = threading.Lock(), threading.Lock()
        self._may_go_on, self._is_stopped = threading.Event(), False
        self._may_go_on.set()
        self._thread: threading.Thread | None = None

    @property
    def n_numbers(self) -> int:
        """Return how many numbers of features are held, in those of one view."""
        return int(self._white.size)

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
        """Return the ranking by the newest labels that was asked for, whatever was asked for last. The caller holds the state."""
        at = max(reversed(self._rankings), key=_event, default=None)
        return None if at is None else self._rankings[at]

    def rank(self, at: Moment, marks: Marks, views_of: Callable[[Ints], Floats], also: Ints) -> RankingOfMany:
        """Learn from the labels of a moment and score the sample at once; the background goes on with all others.

        Args:
            marks: rows that are learned from.
            views_of: see `read_clicks`, of rows of the whole.
            also: rows that are to have a score at once beside the sample, int64.
        """
        with self._ranking:
            if (found := self.known(at)) is not None:
                return found
            self._may_go_on.clear()
            try:
                found = self._ranked(at, marks, views_of, also)
            finally:
                self._may_go_on.set()
            with self._state:
                if len(self._rankings) == _MOST_KEPT:
                    del self._rankings[min(self._rankings, key=_event)]  # never the new one, which is asked for
                self._rankings[at] = found
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

    def _ranked(self, at: Moment, marks: Marks, views_of: Callable[[Ints], Floats], also: Ints) -> RankingOfMany:
        learned = np.unique(np.concatenate([self._anchors, marks.positive, marks.unlabeled, marks.not_damaged]))
        chips = self._learned_from(learned)
        anchors_at = np.searchsorted(learned, self._anchors)
        own = Marks(*(np.searchsorted(learned, rows) for rows in (
            marks.clicked, marks.queued, marks.unlabeled, marks.not_damaged, marks.accepted,
        )))  # fmt: skip
        reading = self._fit(Chips(*chips, self._links, anchors_at), own, lambda rows: views_of(learned[rows]))
        raw = self._raw(reading, *chips)
        unlabeled = own.unlabeled if len(own.unlabeled) else own.not_damaged
        middle = middle_of(raw[unlabeled], reading.share)
        n, last = self.views.shape[1], self._last
        scores = np.full(n, np.nan, np.float32) if last is None else last.scores.copy()
        is_new = np.zeros(n, np.bool_)
        scores[self._base] = scores_of(self._raw(reading, *self._of_base), middle)
        scores[learned] = scores_of(raw, middle)
        is_new[self._base] = is_new[learned] = True
        rest = also if last is None else np.union1d(also, highest(last.scores, N_HIGHEST))
        rest = rest[~is_new[rest]]
        for part in blocks(len(rest)):
            scores[rest[part]] = scores_of(self._raw(reading, *self._chips_at(rest[part])), middle)
        is_new[rest] = True
        return RankingOfMany(at, reading, middle, scores, is_new)

    def _raw(self, reading: Reading, standard: Floats, white: Floats, ties: csr_array) -> Floats:
        return reading.scores(Chips(standard, white, ties), self._settings.propagation)

    def _learned_from(self, rows: Ints) -> tuple[Floats, Floats, csr_array]:
        """Return chips of rows of the whole; those outside the base are kept, as each ranking learns from nearly the same ones."""
        place = np.searchsorted(self._base, rows).clip(max=len(self._base) - 1)
        is_in_base = self._base[place] == rows
        new = np.array([row for row in rows[~is_in_base].tolist() if row not in self._answered], np.int64)
        if len(new):
            standard, white, ties = self._chips_at(new)
            former = self._of_answered
            joined = (
                np.concatenate([former[0], standard]), np.concatenate([former[1], white]), vstack([former[2], ties], format="csr"),
            )  # fmt: skip
            places = {row: len(self._answered) + i for i, row in enumerate(new.tolist())}
            self._of_answered = joined  # once nothing can fail, so that each place has its row
            self._answered |= places
        at = np.array([self._answered[row] for row in rows[~is_in_base].tolist()], np.int64)
        order = np.empty(len(rows), np.int64)
        order[is_in_base], order[~is_in_base] = np.arange(is_in_base.sum()), is_in_base.sum() + np.arange(len(at))
        base, more = self._of_base, self._of_answered
        standard, white = (
            np.concatenate([each[place[is_in_base]], other[at]])[order]
            for each, other in ((base[0], more[0]), (base[1], more[1]))
        )
        return standard, white, vstack([base[2][place[is_in_base]], more[2][at]], format="csr")[order]

    def _plain_and_roots(self, rows: Ints | slice) -> tuple[Floats, Floats]:
        """Read features of rows of the whole: as they were cut, and the mean square roots of all views, float32 [B, D] each."""
        plain = np.asarray(self.views[0, rows], np.float32)
        roots = np.mean([roots_of(np.asarray(view[rows], np.float32)) for view in self.views], axis=0)
        return plain, np.asarray(roots, np.float32)

    def _chips_at(self, rows: Ints | slice, check: Check = lambda: None) -> tuple[Floats, Floats, csr_array]:
        """Bring rows into the space and tie them to the anchors: standard, white and ties, see `Chips`."""
        plain, roots = self._plain_and_roots(rows)
        white = self.space.white(roots)
        return self.space.standard(plain), white, self._graph.ties(embedded(white, self._dim), check)

    def _pause(self) -> None:
        """Wait while a ranking of the sample goes on, which needs the processor."""
        self._may_go_on.wait()
        if self._is_stopped:
            raise _StoppedError

    def _score_all(self) -> None:
        """Score all buildings by the newest labels, and again by newer ones, until the newest that were asked for are done.

        A request by older labels that came late is not the newest; nor are older labels worth a round once newer ones had theirs.
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
                    chips = self._prepared(part)
                    wanted.scores[part] = scores_of(self._raw(wanted.reading, *chips), wanted.middle)
                    wanted.is_new[part] = True
                self._last, wanted.problem = wanted, ""
                wanted.is_complete.set()
        except BaseException as error:  # whoever asks next starts another thread
            with self._state:
                self._thread = None
            if not isinstance(error, _StoppedError):
                if wanted is not None:
                    wanted.problem = f"{type(error).__name__}: {error}".rstrip(": ")
                raise

    def _prepared(self, part: slice) -> tuple[Floats, Floats, csr_array]:
        """Return the chips of a block, brought into the space when it is met for the first time."""
        number = part.start // BLOCK
        if number < len(self._ties):
            plain = np.asarray(self.views[0, part], np.float32)
            return self.space.standard(plain), self._white[part], self._ties[number]
        standard, self._white[part], ties = self._chips_at(part, self._pause)
        self._ties.append(ties)
        return standard, self._white[part], ties


def places_of(n: int) -> NDArray[np.float64]:
    """Return the place of each of n buildings in the order in which they are drawn, float64 [n] in 0..1; always the same."""
    return np.random.default_rng(0).random(n)
