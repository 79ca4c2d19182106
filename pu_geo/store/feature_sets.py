"""The frozen feature sets of a project: their files beside the chips, and which of them people chose.

The set "rcf" comes with every chip set. Another one is named after its maker and a hash of weights and settings, and has
three files: features, float16 [V, N, D], the arrays of its maker, and its facts, which are written last: it exists once they
do.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pu_geo import wording
from pu_geo.errors import ProjectError, writing
from pu_geo.files import remove_path
from pu_geo.records import FeatureRequest, RunFacts, View
from pu_geo.store import choices, contents
from pu_geo.store.job import Job
from pu_geo.store.layout import LAYERS, RCF, Layout, new_array, read_array, read_arrays, read_json, write_arrays, write_facts

_CHOICE = "feature_set"
_OF_RESULT = ("maker", "weights_sha256", "pool", "layer", "size_px", "dates", "n_views")


@dataclass(frozen=True)
class FeatureSet:
    """What is known of a set.

    Attributes:
        name: "rcf", or such as "backbone-1a2b3c4d".
        maker: facts of its maker: {"kind"}, and for weights from a file "name", "sha256", "licence" and settings.
        n_views, n_chips, n_features: shape of its array, [V, N, D].
    """

    name: str
    maker: Mapping[str, Any]
    n_views: int
    n_chips: int
    n_features: int
    created_at: str = ""
    seconds: float = 0.0

    @property
    def licence(self) -> str:
        return str(self.maker.get("licence") or "")


class InUse(NamedTuple):
    """The set that is used where none is named, and why it is not the chosen one, "" where it is."""

    name: str
    note: str = ""


def name_of(request: FeatureRequest, weights_sha256: str) -> str:
    """Return the name of the set that answers a request: the same weights and settings give the same one.

    Args:
        weights_sha256: of all files that its network is read from; "" without any.
    """
    if request.maker == RCF:
        return RCF
    facts = {**asdict(request), "weights_sha256": weights_sha256}
    of_result = (*_OF_RESULT, "layers") if request.layers else _OF_RESULT
    text = json.dumps({name: facts[name] for name in of_result}, sort_keys=True)
    return f"{facts['maker']}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def usual_layers(views: Sequence[View]) -> tuple[str, ...]:
    """Return the layers that features are made of where nobody names any: both dates together, and each layer by itself.

    Args:
        views: of the chips.

    Example:
        >>> usual_layers((View("pre", "pre", 0, 3), View("post", "post", 3, 6), View("sar-post", "post", 6, 8)))
        ('pre+post', 'sar-post')
    """
    there = [view.name for view in views]
    dates = "+".join(name for name in ("pre", "post") if name in there)
    return tuple(filter(None, (dates, *(name for name in there if name not in ("pre", "post")))))


def views_of(maker: Mapping[str, Any]) -> tuple[View, ...]:
    """Return which columns of a set are of which layer; none where it is not made of layers.

    Args:
        maker: facts of its maker.
    """
    return tuple(View.from_json(one) for one in maker.get("views", ()))


def is_missing(maker: Mapping[str, Any], facts: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Return which buildings lack which of a set's layers, bool [len(views_of(maker)), N]; None where it has no layers.

    A building lacks "pre+post" where it lacks one of the two.

    Args:
        maker: facts of its maker.
        facts: of the chip set.
    """
    views = views_of(maker)
    return _lacks([view.name for view in views], facts) if views else None


def _lacks(names: Sequence[str], facts: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which buildings lack which of some views or sums of views, such as "pre+post", bool [len(names), N]."""
    row, each = {view.name: k for k, view in enumerate(contents.views_of(facts))}, contents.is_missing(facts)
    return np.stack([each[[row[part] for part in name.split("+")]].any(axis=0) for name in names])


def lacking_words(maker: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return how many buildings lack which layer of a set, one sentence; "" where none does.

    Args:
        maker: facts of the set's maker.
        facts: of the chip set.
    """
    return words_of_missing([view.name for view in views_of(maker)], is_missing(maker, facts))


def words_of_missing(names: Sequence[str], found: NDArray[np.bool_] | None) -> str:
    """Return how many buildings lack which view, one sentence; "" where none does.

    Args:
        names: of the V views that are learned from.
        found: which buildings lack which of them, bool [V, N]; None where nothing is known of views.
    """
    if found is None or not found.any():
        return ""
    counts = [f"{int(lacks.sum()):,} in {name}" for name, lacks in zip(names, found, strict=True) if lacks.any()]
    n_none, n_some = int(found.all(axis=0).sum()), int(found.any(axis=0).sum())
    words = f"Of {wording.plural(found.shape[1], 'building')} some have no data in a layer: {wording.listed(counts)}."
    if n_some > n_none:
        words += " Their other layers rank them."
    if n_none:
        lack, are = ("has", "it is") if n_none == 1 else ("have", "they are")
        words += f" {n_none:,} {lack} none of the layers that are learned from: {are} not assessed."
    return words


def lacks_all(names: Sequence[str], facts: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which buildings have none of the views that a run learned from, bool [N]: nothing is known to rank them by.

    Args:
        names: of these views, such as "pre+post"; no building lacks all of none. One that the chips do not have is passed
            over.
        facts: of the chip set.
    """
    there = {view.name for view in contents.views_of(facts)}
    known = [name for name in names if there.issuperset(name.split("+"))]
    if not known:
        return np.zeros(len(facts["building_ids"]), np.bool_)
    found: NDArray[np.bool_] = np.all(_lacks(known, facts), axis=0)
    return found


def without_layers(run: RunFacts, facts: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which buildings have none of the views that a run learned from, bool [N], see `lacks_all`.

    Args:
        facts: of the run's chip set.
    """
    return lacks_all(run.views or [view.name for view in views_of(run.feature_maker)], facts)


def chips_for(maker: str, chips: NDArray[np.uint8], facts: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the bands of chips [N, C, H, W] that a maker of some kind takes: all for layers, pre and post alone for others.

    Args:
        facts: of the chip set.
    """
    return chips if maker == LAYERS else contents.optical(chips, facts)


def is_there(layout: Layout, chip_set: str, name: str) -> bool:
    """Return whether a chip set has a set of features."""
    return layout.features(chip_set, name).is_file() and (name == RCF or layout.feature_facts(chip_set, name).is_file())


def all_sets(layout: Layout, chip_set: str) -> list[FeatureSet]:
    """Return the sets of a chip set, "rcf" first, then the oldest."""
    beginning, ending = f"{chip_set}.", ".features.json"
    files = layout.chip_facts(chip_set).parent.glob(f"{beginning}*{ending}")
    names = [RCF, *(path.name.removeprefix(beginning).removesuffix(ending) for path in files)]
    found = [find(layout, chip_set, name) for name in names if is_there(layout, chip_set, name)]
    return sorted(found, key=lambda one: (one.name != RCF, one.created_at, one.name))


def to_average(sets: Sequence[FeatureSet], first: str) -> list[str]:
    """Return the sets of which rankings are averaged where nobody names any: the first, and all others but those of layers,
    since who lacks a layer has no place in the other ranking.
    """
    plain = [one.name for one in sets if not views_of(one.maker)]
    return sorted(plain, key=first.__ne__) if first in plain else [first]


def without_imagery(sets: Sequence[FeatureSet], used: str) -> FeatureSet | None:
    """Return the one of this name if what makes it holds no imagery, else the newest such set; None where each holds
    some.
    """
    found = [one for one in sets if not one.maker.get("holds_imagery", True)]
    return next((one for one in found if one.name == used), found[-1] if found else None)


def find(layout: Layout, chip_set: str, name: str) -> FeatureSet:
    """Return what is known of a set. Raises ProjectError if the chip set does not have it."""
    n_views, n_chips, n_features = views(layout, chip_set, name).shape
    facts: dict[str, Any] = {"maker": {"kind": RCF}}
    if name != RCF:
        facts = read_json(layout.feature_facts(chip_set, name))
    known = {key: facts[key] for key in ("created_at", "seconds") if key in facts}
    return FeatureSet(name, facts["maker"], n_views, n_chips, n_features, **known)


def views(layout: Layout, chip_set: str, name: str = RCF) -> NDArray[np.float16]:
    """Return the features of a set, float16 [V, N, D], a read-only memory map. Raises ProjectError if they are not there."""
    if not is_there(layout, chip_set, name):
        raise ProjectError(
            f"The chips {chip_set} have no features {name!r}.",
            "Cut chips again." if name == RCF else "`pu-geo features P.pugeo` has the sets that are there.",
            kind="features",
        )
    found: NDArray[np.float16] = read_array(layout.features(chip_set, name))
    return found


def maker_state(layout: Layout, chip_set: str, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays that the maker of a set is built from; none where they were not kept."""
    path = layout.maker(chip_set, name)
    return read_arrays(path) if path.is_file() else {}


@contextmanager
def new_views(layout: Layout, chip_set: str, name: str, shape: tuple[int, int, int]) -> Iterator[NDArray[np.float16]]:
    """Yield an array in a file, float16 [V, N, D], that becomes the features of a set once the block ends well.

    The disk gives its room before anything is computed: where it is full, writing into a mapped file ends the process. A
    look at former features of the set goes.

    Raises:
        ProjectError: if the disk has no room for it.
    """
    with ExitStack() as stack:
        with writing(layout.features(chip_set, name), ProjectError):
            out = stack.enter_context(new_array(layout.features(chip_set, name), np.float16, shape))
        yield out
        for path in look_files(layout, chip_set, name):
            remove_path(path)


def look_files(layout: Layout, chip_set: str, name: str) -> list[Path]:
    """Return the files that show how buildings look by the features of a set, those that are there."""
    parts = (layout.look_groups, layout.look_traits, layout.look_plane, layout.look)
    return [path for part in parts if (path := part(chip_set, name)).is_file()]


def look_next(job: Job, chip_set: str, name: str) -> None:
    """Let the job follow that draws how buildings look by the features of a set, unless that is there."""
    if not job.layout.look_groups(chip_set, name).is_file():
        job.then.append(("look", {"source": "look", "chip_set": chip_set, "feature_set": name}))


def remove_unfinished(layout: Layout, chip_set: str) -> None:
    """Remove what a killed job left of sets of a chip set: hidden `.part` files, and files of sets without facts.

    Call it where no other job makes features of these chips.
    """
    folder = layout.chip_facts(chip_set).parent
    for path in folder.glob(f".{chip_set}.*.part"):
        remove_path(path)
    for ending in (".features.npy", ".maker.npz"):
        for path in folder.glob(f"{chip_set}.*{ending}"):
            if not path.with_name(f"{path.name.removesuffix(ending)}.features.json").is_file():
                remove_path(path)


def write_maker(layout: Layout, chip_set: str, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the arrays of a maker, without pickle."""
    write_arrays(layout.maker(chip_set, name), arrays)


def put(layout: Layout, chip_set: str, found: FeatureSet) -> None:
    """Store the facts of a set whose other files are written; it exists from then on."""
    files = [path for path in (layout.features(chip_set, found.name), layout.maker(chip_set, found.name)) if path.is_file()]
    write_facts(layout.feature_facts(chip_set, found.name), asdict(found), files)


def require_removable(layout: Layout, chip_set: str, name: str) -> None:
    """Refuse a set that cannot be removed. Raises ProjectError if it is not there, or is "rcf"."""
    if name == RCF:
        raise ProjectError(
            "The features 'rcf' belong to the chips: what nobody chose another set for uses them.", "Name another set."
        )
    find(layout, chip_set, name)


def chosen(db: sqlite3.Connection) -> str:
    """Return the set that people chose, "rcf" where nobody did; the newest chips may lack it, see `in_use`."""
    return str(choices.get(db, _CHOICE, RCF))


def choose(db: sqlite3.Connection, layout: Layout, chip_set: str, name: str) -> None:
    """Store that people chose a set. Raises ProjectError if the chip set does not have it."""
    if not is_there(layout, chip_set, name):
        known = ", ".join(one.name for one in all_sets(layout, chip_set)) or "none"
        raise ProjectError(
            f"The newest chips have no features {name!r}; they have: {known}.",
            "Name one of them, or make others with `pu-geo add-features P.pugeo ...`.",
            kind="features",
        )
    choices.put(db, _CHOICE, name)


def in_use(db: sqlite3.Connection, layout: Layout, chip_set: str) -> InUse:
    """Return the set that is used where none is named: the chosen one, or "rcf" where these chips do not have that one."""
    name = chosen(db)
    if name == RCF or is_there(layout, chip_set, name):
        return InUse(name)
    return InUse(
        RCF,
        f"The chosen features {name} were not made for the newest chips, so 'rcf' is used in their place. Make them again "
        "with `pu-geo features`, or choose 'rcf'.",
    )
