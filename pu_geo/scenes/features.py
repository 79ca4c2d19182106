"""The frozen features of a project's newest chips: which sets there are, which one is used, and the job that makes
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pu_geo import jobs, wording
from pu_geo.errors import PuGeoError
from pu_geo.scenes.actions import AddFeatures
from pu_geo.store import contents, feature_sets, store
from pu_geo.store.feature_sets import FeatureSet, InUse
from pu_geo.store.layout import LAYERS, RCF, SHARED, Layout

_RANDOM = "random convolutions of patches of these chips; no weights"
_SHARED = (
    "random convolutions, the same in every project, of patches of the made-up sample event; they hold no imagery of yours"
)
_DATES = {"both": "pre, post and their difference", "diff": "post minus pre", "post": "the post chip alone"}
_POOLS = {"mean": "averaged over the chip", "cls": "class token", "footprint": "averaged over the footprint"}


@dataclass(frozen=True)
class FeatureSets:
    """The sets of the newest chips, "rcf" first; none before there are chips.

    Attributes:
        in_use: the one that is used where none is named.
        note: why that is not the chosen one; "" where it is.
    """

    sets: tuple[FeatureSet, ...] = ()
    in_use: str = RCF
    note: str = ""

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.sets]


def overview(layout: Layout) -> FeatureSets:
    """Return the sets of the newest chips, and which one is used."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        used = InUse(RCF) if chip_set is None else feature_sets.in_use(db, layout, chip_set)
    return FeatureSets() if chip_set is None else FeatureSets(tuple(feature_sets.all_sets(layout, chip_set)), *used)


def note(layout: Layout) -> str:
    """Return why the set in use is not the chosen one; "" where it is, and before there are chips."""
    with store.connect(layout) as db:
        chip_set = contents.latest_chip_set(db)
        return "" if chip_set is None else feature_sets.in_use(db, layout, chip_set).note


def layers_here(layout: Layout) -> tuple[str, ...]:
    """Return what features of layers can be made of in the newest chips: both dates together, then each view by itself.

    Nothing where there are no chips, or they have no layer beside pre and post.
    """
    chip_set = store.call(layout, contents.latest_chip_set)
    views = () if chip_set is None else contents.views_of(contents.chip_facts(layout, chip_set))
    names = [view.name for view in views]
    if set(names) <= {"pre", "post"}:
        return ()
    return tuple(dict.fromkeys((*feature_sets.usual_layers(views), *names)))


def start_layers(layout: Layout, names: Sequence[str], *, cluster: str = "") -> str:
    """Start the job that makes features of layers and uses them from then on; return its id.

    Raises:
        PuGeoError: if no layer is named, or `cluster` is none.
    """
    if not names:
        raise PuGeoError("No layer was named.", "Choose one or more.")
    return jobs.start(layout, AddFeatures(LAYERS, layers=names, use=True, cluster=cluster))


def start_maker(layout: Layout, maker: str, *, backbone: str = "", cluster: str = "") -> str:
    """Start the job that makes features by a maker and uses them from then on; return its id. Post alone where chips lack
    pre; one view of a network that somebody brings, which takes a seventeenth of the time.

    Raises:
        PuGeoError: if the maker lacks weights; JobError for a cluster that is none.
    """
    chip_set = store.call(layout, contents.chosen_chip_set)
    has_pre = "pre" in [view.name for view in contents.views_of(contents.chip_facts(layout, chip_set))]
    dates: Literal["both", "post"] = "both" if has_pre else "post"
    n_views = 1 if backbone else AddFeatures.n_views
    return jobs.start(layout, AddFeatures(maker, backbone=backbone, dates=dates, n_views=n_views, use=True, cluster=cluster))


def choose(layout: Layout, name: str) -> None:
    """Store which set is used from now on where none is named. Raises ProjectError if the newest chips do not have it."""
    with store.connect(layout) as db:
        feature_sets.choose(db, layout, contents.chosen_chip_set(db), name)


def require(layout: Layout, name: str) -> None:
    """Refuse a set that the newest chips do not have, "" is the one in use. Raises ProjectError."""
    if name:
        feature_sets.find(layout, store.call(layout, contents.chosen_chip_set), name)


def as_row(one: FeatureSet, in_use: str) -> dict[str, Any]:
    """Return a set as a row of plain values, as `pu-geo features --json` prints it."""
    return {
        "name": one.name, "is_in_use": one.name == in_use, "n_features": one.n_features, "n_views": one.n_views,
        "n_chips": one.n_chips, "created_at": one.created_at, "seconds": one.seconds, "maker": dict(one.maker),
        "words": words_of(one.name, one.maker),
    }  # fmt: skip


def title_of(name: str, maker: Mapping[str, Any]) -> str:
    """Return what features are in a few words, for lists on a screen; `words_of` has file, sha256 and settings.

    >>> title_of("rcf", {"kind": "rcf"}), title_of("ssl-12ab", {"kind": "self-supervised"})
    ('Random convolutions (no pretrained weights)', 'Self-supervised, trained on these chips')
    """
    if name == RCF:
        return "Random convolutions (no pretrained weights)"
    if maker.get("kind") == SHARED:
        return "Shared filters (the same in every project, no imagery)"
    if layers := feature_sets.views_of(maker):
        return f"Layers: {wording.listed([view.name for view in layers])} (no pretrained weights)"
    if maker.get("kind") == "self-supervised":
        return "Self-supervised, trained on these chips"
    file, licence = maker.get("weights_file"), maker.get("licence") or "not stated"
    return f"Network with the weights {file} (license of the weights: {licence})" if file else name


def holds_patches(maker: Mapping[str, Any]) -> bool:
    """Return whether the filters of a maker are patches of the project's own chips.

    >>> holds_patches({"kind": "rcf"}), holds_patches({"kind": "shared"})
    (True, False)
    """
    return maker.get("kind") == RCF or bool(feature_sets.views_of(maker))


def words_of(name: str, maker: Mapping[str, Any]) -> str:
    """Return what features are in one line for people, with file, sha256 and license of the weights.

    >>> words_of("rcf", {"kind": "rcf"})
    'rcf: random convolutions of patches of these chips; no weights'
    """
    if others := maker.get("averaged"):
        ends = "left out: clicks held out stand lower by it", "averaged with it"
        rest = [f"{words_of(one['feature_set'], one['feature_maker'])} ({ends[one['is_used']]})" for one in others]
        return " | ".join([words_of(name, {**maker, "averaged": ()}), *rest])
    if name == RCF:
        return f"rcf: {_RANDOM}"
    if maker.get("kind") == SHARED:
        what = "the post chip alone" if maker.get("dates") == "post" else "pre and post together"
        return f"{name}: {_SHARED}; {what}; sha256 of the filters {maker.get('weights_sha256')}"
    if layers := feature_sets.views_of(maker):
        return f"{name}: layers {wording.listed([view.name for view in layers])}; {_RANDOM}"
    details = [_DATES.get(str(maker.get("dates")), ""), _POOLS.get(str(maker.get("pool")), "")]
    if maker.get("layer"):
        usual = f", {maker['layer_is']}; --layer names another" if maker.get("layer_is") else ""
        details.append(f"layer {maker['layer']}{usual}")
    if maker.get("size_px"):
        details.append(f"chips at {maker['size_px']} px")
    if file := maker.get("weights_file"):
        licence = maker.get("licence") or "not stated; ask who made them"
        details += [f"weights {file}, license of the weights: {licence}", f"sha256 {maker.get('weights_sha256')}"]
        if maker.get("stored_as", "float32") != "float32":
            details.append(f"stored in {maker['stored_as']}, converted to float32")
    elif maker.get("kind") == "self-supervised":
        details.append("trained on these chips, without labels and weights of others")
    return f"{name}: {'; '.join(filter(None, details))}"
