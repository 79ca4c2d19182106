"""Random-convolution features of named layers: one bank of filters for each view of a building, side by side.

A view is what pre, post or a layer such as SAR shows; dates that are joined by + share a bank, so that it can find what
changed. Filters and statistics of a view come from the buildings that have it. Augmented views are drawn once a chip, for
all its bands: they stay co-registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from pu_geo.errors import JobCancelled, ShapeError, TrainingError
from pu_geo.features.rcf import BLOCK, RcfBank, problem_of_bank, rcf
from pu_geo.features.views import Chips, Describe, Maker, Making, Report, refuse_choices
from pu_geo.records import FeatureRequest, View, When

KIND = "layers"
JOINS = "+"  # views of one bank
MOST_BANKS, MOST_BANDS = 16, 256
LEAST_TO_EXPECT, MOST_TO_EXPECT = 50, 1000  # chips that expectations of a missing view are learned from
_BLOCK = 4096  # chips that are filled in at a time
_NAME = re.compile(r"[A-Za-z0-9-]{1,40}(\+[A-Za-z0-9-]{1,40}){0,3}")
_OPTICAL = {3: (View("post", "post", 0, 3),), 6: (View("pre", "pre", 0, 3), View("post", "post", 3, 6))}
_HINT = "Choose some of these with --layers, such as pre+post,sar-post; a layer that was added since needs chips cut anew."


@dataclass(frozen=True)
class LayerBanks(Maker):
    """Banks of filters, one a view, ready for chips with a table of views.

    Attributes:
        views: the features' columns, one span a bank; a name such as "pre+post" is of a bank over both.
        chip_views: the views of the chips that the banks read, with the bands where these chips have them.
        banks: in the order of `views`.
    """

    kind = KIND
    block = BLOCK

    views: tuple[View, ...]
    chip_views: tuple[View, ...]
    banks: tuple[RcfBank, ...]

    @property
    def n_features(self) -> int:
        """Features per chip, D."""
        return self.views[-1].stop

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the banks are made of as plain arrays, for a file that cannot run code."""
        return {f"{k}.{name}": array for k, bank in enumerate(self.banks) for name, array in bank.state().items()}

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the features should know: which columns are of which view; there is no network."""
        tables = {name: [asdict(view) for view in getattr(self, name)] for name in ("views", "chip_views")}
        return {**self.banks[0].facts(), "kind": self.kind, **tables}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> LayerBanks:
        """Build the banks from what `state` and `facts` gave; both may come from a stranger's file.

        Raises:
            TrainingError: if they do not belong together, or hold what no maker gives.
        """
        views, chip_views = _table(facts.get("views"), MOST_BANKS), _table(facts.get("chip_views"), MOST_BANKS)
        bands = {view.name: view.stop - view.start for view in chip_views}
        ends = [0, *(view.stop for view in views)]
        parts = [_parts(view.name) for view in views]
        is_sound = (
            all(view.start == end and (view.stop - end) % 2 == 0 for view, end in zip(views, ends, strict=False))
            and len(bands) == len(chip_views)
            and max(view.stop for view in chip_views) <= MOST_BANDS
            and all(set(names) <= bands.keys() and len(set(names)) == len(names) for names in parts)
            and len({view.name for view in views}) == len(views)
        )
        if not is_sound:
            raise _broken("name views that do not fit each other")
        banks = []
        for k, (view, names) in enumerate(zip(views, parts, strict=True)):
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.partition(".")[0] == str(k)}
            if problem := problem_of_bank(own, view.stop - view.start, sum(bands[name] for name in names)):
                raise _broken(f"hold {problem} for {view.name}")
            banks.append(RcfBank.from_state(own))
        if len(arrays) != sum(len(bank.state()) for bank in banks):
            raise _broken("hold more than their filters")
        return cls(views, chip_views, tuple(banks))

    @classmethod
    def fit_request(cls, request: FeatureRequest, chips: Chips, rows: NDArray[np.int64], making: Making) -> LayerBanks:
        """Choose filters for each view that the request names, see `RcfBank.fit`.

        All banks draw from the generator as it came: what one finds does not depend on which others there are, so a set
        without a layer is the set with it less its columns.

        Args:
            rows: int64 [M], chips to choose from; each bank takes those of them that have its view.
            making: without its `views`, 3 bands are post, and 6 are pre and post.

        Raises:
            TrainingError: if a layer is not there, no building has it, or the request has a choice that only networks have.
        """
        refuse_choices(
            request, KIND, ("layers",), "Features of layers", "they are random convolutions, averaged over the chip",
            "Leave that out, or choose a network; networks take the optical bands alone.",
        )  # fmt: skip
        table = tuple(making.views) or _OPTICAL.get(chips.shape[1], ())
        names = tuple(request.layers)
        require_layers(names, table)
        state, banks = making.generator.get_state(), []
        for name in names:
            has_it = ~lacking(name, table, making.is_missing, len(chips))[rows]
            if not has_it.any():
                raise TrainingError(
                    f"No building has data in {name} that filters could be chosen from.",
                    "Leave that layer out, or add files of it that cover the buildings and cut chips again.",
                    kind="layers",
                )
            own = torch.Generator().set_state(state)
            banks.append(RcfBank.fit(chips, own, rows=rows[has_it], bands=bands_of(name, table)))
        ends = np.cumsum([0, *(bank.n_features for bank in banks)]).tolist()
        columns = tuple(
            View(name, when_of(name, table), first, last) for name, first, last in zip(names, ends, ends[1:], strict=False)
        )
        used = {part for name in names for part in _parts(name)}
        return cls(columns, tuple(view for view in table if view.name in used), tuple(banks))

    def on(self, views: Sequence[View], file: str = "") -> LayerBanks:
        """Return these banks for chips whose bands stand elsewhere, such as those of another project.

        Args:
            views: of the chips.
            file: that the banks came in, for the error.

        Raises:
            TrainingError: if a view is not there, or has another number of bands or another date.
        """
        there = {view.name: view for view in views}
        for wanted in self.chip_views:
            n, found = wanted.stop - wanted.start, there.get(wanted.name)
            if found is None or found.stop - found.start != n:
                has = "have no such layer" if found is None else f"have {found.stop - found.start} there"
                raise TrainingError(
                    f"{file or 'The maker of the features'} takes the layer {wanted.name} with {n} bands; these chips "
                    f"{has}. They have: {', '.join(there)}.",
                    f"Add the layer under that name on the Imagery page (`pu-geo add-layer P.pugeo --name {wanted.name} "
                    "FILE`) and cut chips again, or use a model of the layers that are here.",
                    kind="layers",
                )
            if found.when != wanted.when:
                raise TrainingError(
                    f"{file or 'The maker of the features'} takes the layer {wanted.name} with the date "
                    f"{wanted.when or 'none'}; that of "
                    f"these chips has the date {found.when or 'none'}.",
                    "Add the layer of that date under that name and cut chips again, or use a model of the layers that "
                    "are here.",
                    kind="layers",
                )
        return replace(self, chip_views=tuple(there[view.name] for view in self.chip_views))

    def _prepared(self, chips: Chips, device: torch.device, is_cancelled: Callable[[], bool]) -> tuple[Chips, Describe, int]:
        """Prepare for chips; what a bank gives of one that lacks its view means nothing: see `fill_missing`."""
        last = max(view.stop for view in self.chip_views)
        if chips.ndim != 4 or chips.shape[1] < last:
            raise ShapeError(f"chips must be [N, {last} or more, H, W] for these banks; got {chips.shape}.")
        here = [bank.to(device) for bank in self.banks]
        bands = [torch.from_numpy(bands_of(view.name, self.chip_views)).to(device) for view in self.views]

        def describe(images: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
            return torch.cat([rcf(images[:, own], bank) for own, bank in zip(bands, here, strict=True)], dim=1).half()

        return chips, describe, 1


def _require_data(views: Sequence[View], is_missing: NDArray[np.bool_]) -> None:
    for view, lacks in zip(views, is_missing, strict=True):
        if lacks.all():
            raise TrainingError(
                f"No building of these chips has data in {view.name}.",
                "Leave that layer out, or add files of it.",
                kind="layers",
            )


def fill_missing(
    features: NDArray[np.float16], views: Sequence[View], is_missing: NDArray[np.bool_], is_used: NDArray[np.bool_],
    *, report: Report | None = None, is_cancelled: Callable[[], bool] | None = None,
) -> None:  # fmt: skip
    """Give chips that lack a view what their other views lead to expect there, in place.

    So the missing view adds nothing to what the others say, and a method that has learned to rely on it ranks by these. With
    the mean alone in its place such chips were ranked worse than without the view at all (AP .57 instead of .92;
    docs/methods.md).

    Source: ours; ridge regression of the square roots of the features, which the default ranking reads too, in place of
    the mean. Its penalty is chosen by leaving one chip out; where nothing can be expected so, or fewer than
    `LEAST_TO_EXPECT` chips have all views that it takes, the mean of the roots is left.

    Args:
        features: float16 [V, N, D], at least 0, may be a memory map; each augmented view has its own mean.
        views: spans of columns, one a bank.
        is_missing: bool [len(views), N].
        is_used: bool [N]; means and regressions are of these, of all where none of them has the view.
        report: called with {"stage": "filling in", "done", "total"} in views and patterns.

    Raises:
        TrainingError: if no chip has a view; nothing is changed then.
        JobCancelled: if `is_cancelled()`.
    """
    _require_data(views, is_missing)
    work = [
        (k, pattern, rows)
        for k, lacks in enumerate(is_missing)
        if lacks.any()
        for pattern, rows in _patterns(is_missing, lacks)
    ]
    means: dict[int, list[NDArray[np.float64]]] = {}
    for done, (k, pattern, rows) in enumerate(work):
        if report is not None:
            report({"stage": "filling in", "done": done, "total": len(work)})
        view, has_it = views[k], ~is_missing[k]
        known = has_it & is_used if (has_it & is_used).any() else has_it
        others = [one for one, is_gone in zip(views, pattern, strict=True) if not is_gone]
        both = np.flatnonzero(known & ~is_missing[~pattern].any(axis=0))
        slope = None
        some = both[:: max(1, len(both) // MOST_TO_EXPECT)]
        if others and len(both) >= LEAST_TO_EXPECT:
            slope = _expected(_roots(features[0], some, others), _roots(features[0], some, [view]))
        if slope is None and k not in means:
            means[k] = [_mean_root(each, np.flatnonzero(known), view) for each in features]
        own = slice(view.start, view.stop)
        for v, each in enumerate(features):
            if slope is not None:
                at_mean = _roots(each, some, [view]).mean(axis=0)
                mean = _roots(each, some, others).mean(axis=0)
            for start in range(0, len(rows), _BLOCK):
                if is_cancelled is not None and is_cancelled():
                    raise JobCancelled
                part = rows[start : start + _BLOCK]
                roots = means[k][v] if slope is None else at_mean + (_roots(each, part, others) - mean) @ slope
                each[part, own] = np.square(np.maximum(roots, 0)).astype(np.float16)


def _patterns(is_missing: NDArray[np.bool_], lacks: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Return which views are missing, bool [V], and of which chips, int64 [n], for all chips that lack a view, bool [N]."""
    rows = np.flatnonzero(lacks)
    every, of_row = np.unique(is_missing[:, rows], axis=1, return_inverse=True)
    return [(pattern, rows[of_row.reshape(-1) == k]) for k, pattern in enumerate(every.T)]


def without(
    features: NDArray[np.float16],
    views: Sequence[View],
    is_missing: NDArray[np.bool_],
    is_used: NDArray[np.bool_],
    name: str,
) -> NDArray[np.float16]:
    """Return a copy of features less the columns of a view, with what chips lack filled in anew: not from that view.

    Args:
        features, views, is_missing, is_used: as for `fill_missing`; features may be filled in already.
        name: of the view; "" for none, so that both are filled in from the same chips.
    """
    goes = next((view for view in views if view.name == name), View("", "", 0, 0))
    left = np.delete(features, np.s_[goes.start : goes.stop], axis=2)
    spans, kept, end = [], [], 0
    for view, lacks in zip(views, is_missing, strict=True):
        if view.name != name:
            spans.append(replace(view, start=end, stop=(end := end + view.stop - view.start)))
            kept.append(lacks)
    some = [
        k for k, lacks in enumerate(kept) if not lacks.all()
    ]  # of these chips; a view that none of them has stays as it is
    if np.any(kept) and some:
        fill_missing(left, [spans[k] for k in some], np.stack([kept[k] for k in some]), is_used)
    return left


def _roots(
    features: NDArray[np.float16], rows: NDArray[np.int64], views: Sequence[View]
) -> NDArray[np.float32]:  # fmt: skip
    """Return square roots of the columns of some views of some chips, float32 [n, columns]; no other columns are copied."""
    return np.sqrt(np.concatenate([features[:, one.start : one.stop][rows] for one in views], axis=1).astype(np.float32))


def _mean_root(features: NDArray[np.float16], rows: NDArray[np.int64], view: View) -> NDArray[np.float64]:
    """Return the mean of the square roots of a view's columns, float64 [columns]."""
    total = np.zeros(view.stop - view.start)
    for start in range(0, len(rows), _BLOCK):
        total += _roots(features, rows[start : start + _BLOCK], [view]).sum(axis=0, dtype=np.float64)
    return total / len(rows)


def _expected(given: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return the slope of a ridge regression between columns, float32 [A, B]; None where the mean is as good.

    Source: the error with each row left out follows from the leverages (Allen's PRESS).

    Args:
        given, wanted: float32 [M, A], [M, B].
    """
    spread, unit = given.std(axis=0) + 1e-6, wanted.std(axis=0) + 1e-6
    scaled = (given - given.mean(axis=0)) / spread
    target = (wanted - wanted.mean(axis=0)) / unit
    squares, left = np.linalg.eigh(
        (scaled @ scaled.T).astype(np.float64)
    )  # a tenth of the time that the SVD of many columns takes
    squares, left = np.maximum(squares, 0).astype(np.float32), left.astype(np.float32)
    along, best, least = left.T @ target, None, float(np.square(target * len(target) / (len(target) - 1)).mean())
    for penalty in len(given) * np.geomspace(1e-3, 1e4, 15):
        kept = squares / (squares + np.float32(penalty))
        leverage = np.square(left) @ kept + 1 / len(given)
        error = float(np.square((target - left @ (kept[:, None] * along)) / (1 - leverage)[:, None]).mean())
        if error < least:
            least, best = error, np.float32(penalty)
    if best is None:
        return None
    slope = scaled.T @ (left @ (along / (squares + best)[:, None]))
    return np.asarray(slope / spread[:, None] * unit, np.float32)


def require_layers(names: Sequence[str], views: Sequence[View]) -> None:
    """Raise TrainingError where names of banks are none, or not those of views or of views joined by +, each once."""
    there = [view.name for view in views]
    for name in names:
        if odd := [part for part in _parts(name) if part not in there]:
            raise TrainingError(
                f"These chips have no layer {odd[0][:60]!r}; they have {', '.join(there) or 'none'}.", _HINT, kind="layers"
            )
        if len(set(_parts(name))) < len(_parts(name)) or names.count(name) > 1 or not _NAME.fullmatch(name):
            raise TrainingError(
                f"The layers {', '.join(names)[:200]} name something twice, or join more than 4.",
                "Name each once.",
                kind="layers",
            )
    if not 1 <= len(names) <= MOST_BANKS:
        raise TrainingError(f"{len(names)} layers were named; it takes 1 to {MOST_BANKS}.", _HINT, kind="layers")


def bands_of(name: str, views: Sequence[View]) -> NDArray[np.int64]:
    """Return which bands of a chip a bank reads, int64 [C]: those of one view, or of several joined by +."""
    there = {view.name: view for view in views}
    return np.concatenate([np.arange(there[part].start, there[part].stop) for part in _parts(name)])


def lacking(
    name: str, views: Sequence[View], is_missing: NDArray[np.bool_] | None, n: int
) -> NDArray[np.bool_]:  # fmt: skip
    """Return which of n chips lack one of the views that a bank reads, bool [N].

    Args:
        is_missing: bool [V, N], of each of `views`; None where all chips have all.
    """
    if is_missing is None:
        return np.zeros(n, np.bool_)
    return np.asarray(is_missing[[view.name in _parts(name) for view in views]].any(axis=0))


def when_of(name: str, views: Sequence[View]) -> When:
    """Return the date that a bank shows: that of its views, "pre+post" of both, "" of none."""
    there = {view.name: view.when for view in views}
    dates = {date for part in _parts(name) for date in there[part].split(JOINS) if date}
    found: When = "pre+post" if len(dates) > 1 else "pre" if "pre" in dates else "post" if dates else ""
    return found


def _parts(name: str) -> list[str]:
    return name.split(JOINS)


def _table(entries: object, most: int) -> tuple[View, ...]:
    """Read a table of views that may be a stranger's."""
    if not isinstance(entries, list) or not 1 <= len(entries) <= most:
        raise _broken("name no views")
    found = []
    for entry in entries:
        name, when, start, stop = (entry.get(key) if isinstance(entry, dict) else None for key in View.__dataclass_fields__)
        is_sound = isinstance(name, str) and _NAME.fullmatch(name) and when in get_args(When)
        if not (is_sound and type(start) is int and type(stop) is int and 0 <= start < stop <= 2**16):
            raise _broken("name a view that cannot be")
        found.append(View.from_json(entry))
    return tuple(found)


def _broken(problem: str) -> TrainingError:
    return TrainingError(f"The stored filters of layers {problem}.", "Make the features again.", kind="layers")
