"""Score the buildings of a project with a model from elsewhere, or of another copy of this project, and make that a run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pu_geo.analysis import assessability
from pu_geo.analysis.estimates import MIN_POSITIVES
from pu_geo.errors import ModelError, PuGeoError, TrainingError, printable
from pu_geo.features.bank import Maker
from pu_geo.features.layers import LayerBanks, bands_of
from pu_geo.features.rcf import RcfBank
from pu_geo.files import atomic_write, remove_path, reserve, single, to_change
from pu_geo.methods import catalog
from pu_geo.methods.catalog import TrainingRequest
from pu_geo.methods.fitting import place_unused
from pu_geo.records import Chips, Facts, Ints, RunFacts, Singles, View
from pu_geo.runs.inputs_job import BEGAN_WITH, RunInputs, read_inputs, read_to_train
from pu_geo.runs.layer_match_job import scaled_otherwise
from pu_geo.runs.model_card_job import chips_learned, sha256_of_array, sha256_of_labels
from pu_geo.runs.restored_model_job import RestoredModel, lacking, restore
from pu_geo.runs.train_job import finish, stored_before
from pu_geo.scenes.features_job import footprint_masks, maker_in, needs_masks, settle, transform, with_statistics
from pu_geo.store import contents, feature_sets, federations, freshness, labels, runs, store
from pu_geo.store.contents import chip_facts, optical_chips
from pu_geo.store.federations import TookPart
from pu_geo.store.job import Job
from pu_geo.store.layout import RCF, Layout, read_array, write_json
from pu_geo.training import model_files
from pu_geo.training.model_files import Model
from pu_geo.training.run import best_device, name_of
from pu_geo.wording import plural

CHIPS_COMPARED, MAX_NUMBER = 500, 10**9
_NO_ROUNDS = (
    "Its file does not say in how many rounds of its federation each class took part: a class may have been trained "
    "hardly at all."
)


def apply_model(job: Job, *, path: str) -> Facts:
    """Store a run whose scores come from a model. The model is in the run's folder from then on, too.

    One that was trained in another copy of this project, on the chips and labels that this one had then, gives the run that
    a training here would have given, but for evidence from place and of clicks held out, and what is flagged by it; labels
    are never taken. Of any other model nothing counts as learned from this project.

    Args:
        path: of a model file, or of a folder that has a model, see `model_files.read`.

    Returns:
        {"run_id", "n_positive", "n_unlabeled", "seconds"}

    Raises:
        ModelError: if the file cannot be used, or was made for other chips than this project has.
        ProjectError: if there are no chips yet.
        JobCancelled: if the user cancelled.
    """
    began, stored = time.monotonic(), stored_before(job)
    if stored:
        return stored
    job.report(0.01, "checking the model")
    found, layout = model_files.read(Path(path)), job.layout
    card, there = found.card, found.card["learned_from"]
    with store.one_connection():
        inputs = read_inputs(layout, feature_set=RCF)
        facts = chip_facts(layout, inputs.chip_set)
        other_scaling = scaled_otherwise(card, facts, found.name)
        restored = restore(found, best_device(), lambda name: maker_in(layout, inputs.chip_set, name))
        is_federated = is_of_federation_here(layout, found)
        trained_on = None if is_federated else _of_copy(job, restored)
        if is_federated:
            # labels that were given since had no part in it
            pu = store.call(layout, labels.pu_set, at=int(there["at_event"]), ids=inputs.pu.building_ids)
            inputs = replace(inputs, pu=pu if inputs.is_hidden is None else pu.without(inputs.is_hidden))
        inputs = trained_on or replace(inputs, is_accepted=None).without(
            feature_sets.lacks_all(_views_learned(restored), facts)
        )
    restored, chips = on_chips(restored, read_array(layout.chips(inputs.chip_set)), facts, found.name)
    arrays = _answers(job, restored, chips, found.name, facts)
    method, of_training = catalog.card(card["method"]), card.get("threshold")
    is_start = int((inputs.pu.is_positive & ~inputs.pu.is_excluded).sum()) >= MIN_POSITIVES
    is_start |= not isinstance(of_training, int | float) or not 0 <= of_training <= 1
    threshold = inputs.first_threshold(np.asarray(arrays["scores"])) if is_start else float(str(of_training))
    if trained_on:
        device = printable(card.get("device"), 100)
        words = [
            f"{method.title} was trained on the chips and answers of this project, as they were then ({device}); its "
            "model scored the buildings here."
        ]
    else:
        words = _origin_words(restored, inputs, optical_chips(layout, inputs.chip_set), chips, is_federated)
        words += _other_here(job, restored, chips, inputs)
    run = replace(
        inputs.facts(card["method"], card["preset"], method.score_type, threshold),
        settings=asdict(restored.settings),
        device=name_of(best_device()),
        types=restored.types,
        types_from=printable(named, 100) if restored.types and isinstance(named := there.get("types_from"), str) else None,
        is_ordinal=restored.is_ordinal,
        views=_views_learned(restored),
        federation=_federation(found),
        from_model=None if trained_on or is_federated else _from_model(found),
        warnings=(*words, *other_scaling),
        place=place_unused(method, restored.settings, "a model alone scores buildings one by one"),
    )
    if not is_start:
        run = replace(run, start_k=None)
    if trained_on:
        run = replace(run, seed=int(card["seed"]))
    elif restored.bank is not None:
        name, maker = _features(restored)
        run = replace(run, feature_set=name, feature_maker=maker)
    if is_federated:
        run = replace(run, n_positive=int(there["n_positive"]), n_unlabeled=int(there["n_unlabeled"]))
    return finish(job, inputs, began, run, arrays, lambda facts: _write_files(job, facts, found))


def _of_copy(job: Job, restored: RestoredModel) -> RunInputs | None:
    """Return what a model was trained on in another copy of this project: its chips, and its labels as they stood; else
    None.
    """
    card, there = restored.card, restored.card["learned_from"]
    seed, types_from = card.get("seed", -1), there.get("types_from")
    counts = {name: there.get(name) for name in ("at_event", "at_decision", "n_held_out")}
    are_numbers = all(type(one) is int and 0 <= one < MAX_NUMBER for one in (seed, *counts.values()))
    if not are_numbers or not isinstance(types_from, str | None):
        return None
    folder, chip_set = job.folder / "checkpoints", freshness.require(job.layout)
    write_json(folder / BEGAN_WITH, {"chip_set": chip_set, **counts, "feature_set": restored.features[0]})
    try:
        settings = {**card["settings"], "weights_file": "", "compiled": "no"}
        request = TrainingRequest(
            card["method"],
            card["preset"],
            seed=seed,
            overrides=settings,
            types_from=types_from,
            hold_out=counts["n_held_out"],
        )
        inputs, data = read_to_train(job.layout, folder, request)
    except PuGeoError:  # other labels, types or features than those that it learned from
        return None
    finally:
        remove_path(folder)
    if there.get("sha256_labels") != sha256_of_labels(inputs.pu, data):
        return None
    return inputs if there.get("sha256_chips") == sha256_of_array(chips_learned(job.layout, chip_set, data)) else None


def is_of_federation_here(layout: Layout, found: Model) -> bool:
    """Return whether a model is the one that a federation left in this project: it learned from answers of this project.

    Each member's has that member's statistics, classes and counts of labels, so that a partner's is another one.
    """
    card = found.card
    stated = card["learned_from"].get("federation")
    name = stated.get("id") if isinstance(stated, dict) else None
    if not isinstance(name, str) or name not in federations.ids(layout):
        return False
    folder = layout.federation(name)
    is_same = hashlib.sha256(federations.agreement_bytes(folder)).hexdigest() == stated.get("agreement")
    classes, held = stated.get("classes_here"), federations.memberships(folder)
    if not is_same or not isinstance(classes, list) or not classes or not all(one in held for one in classes):
        return False
    try:
        own = model_files.read(folder / federations.MODEL).card
    except ModelError:  # none there, or a damaged one
        return False
    return all(own[part] == card[part] for part in ("sha256", "learned_from"))


def on_chips(
    restored: RestoredModel, chips: Chips, facts: Facts, name: str
) -> tuple[RestoredModel, Chips]:  # fmt: skip
    """Return a model for chips, and the bands of them that it takes; layers are found by their names.

    Args:
        chips: uint8 [N, C, H, W] of a chip set, with all bands.
        facts: of the chip set.
        name: of the model's file.

    Raises:
        ModelError: if the chips lack a layer or other bands, or have another size; says what is needed and what is here.
    """
    if restored.chip_views:
        bands = bands_in(restored, contents.views_of(facts), name)
        require_fit(restored, (restored.chip_shape[0], *chips.shape[2:]), name)
        first, n = int(bands[0]), len(bands)
        is_block = np.array_equal(bands, np.arange(first, first + n))  # which stays a memory map
        return restored, chips[:, first : first + n] if is_block else chips[:, bands]
    if isinstance(restored.bank, LayerBanks):  # a layer that is lacking is named before the size
        bank = maker_on(restored.bank, chips, facts, name)
        require_fit(restored, (restored.chip_shape[0], *chips.shape[2:]), name)
        return replace(restored, bank=bank), chips
    is_whole = restored.bank is None and restored.chip_shape == chips.shape[1:]
    some = chips if is_whole else contents.optical(chips, facts)
    require_fit(restored, some.shape[1:], name)
    return replace(restored, bank=restored.bank and maker_on(restored.bank, some, facts, name)), some


def maker_on(maker: Maker, chips: Chips, facts: Facts, name: str) -> Maker:
    """Return what makes the features of a model, or of a run, for other chips.

    Args:
        chips: uint8 [N, C, H, W] of a chip set, with the bands that the maker takes.
        facts: of the chip set.
        name: of the model's file, or of the run.

    Raises:
        ModelError: if the chips lack a layer.
    """
    if not isinstance(maker, LayerBanks):
        return with_statistics(maker, chips, facts)
    try:
        return maker.on(contents.views_of(facts), name)
    except TrainingError as error:
        raise ModelError(error.problem, error.hint, kind="bands") from error


def bands_in(restored: RestoredModel, here: Sequence[View], name: str) -> Ints:
    """Return where chips have the bands that a model was trained on, int64 [C], in its order: views are found by their
    names.

    Args:
        here: views of the chips, in any order; others may be among them.

    Raises:
        ModelError: if one is not here, or has another date or another number of bands; says which are needed and which are
            here.
    """
    known = {view.name: view for view in here}
    found = np.zeros(restored.chip_shape[0], np.int64)
    for view in restored.chip_views:
        there = known.get(view.name)
        if there is not None and (there.when, there.stop - there.start) == (view.when, view.stop - view.start):
            found[view.start : view.stop] = np.arange(there.start, there.stop)
            continue
        needed, ours = (
            ", ".join(
                f"{one.name} ({', '.join([one.when or 'no date', plural(one.stop - one.start, 'band')])})" for one in each
            )
            for each in (restored.chip_views, here)
        )
        raise ModelError(
            f"{name} was trained on chips of these views, with their dates and bands: {needed}; the chips of this "
            f"project have {ours}.",
            "Add layers of these names and dates on the Imagery page, or with `pu-geo add-layer`, and cut the chips anew.",
            kind="bands",
        )
    return found


def require_fit(restored: RestoredModel, chip_shape: Sequence[int], name: str) -> None:
    """Refuse chips of other bands or of another size than a model was made for.

    Raises:
        ModelError: says what is needed and what is here.
    """
    wanted, here = restored.chip_shape, tuple(chip_shape)
    if here == wanted:
        return
    words = {3: "post bands alone", 6: "pre and post bands"}
    needed, there = (f"{words.get(n, f'{n} bands')}, {height} x {width} px" for n, height, width in (wanted, here))
    raise ModelError(
        f"{name} was made for chips of {needed}; the chips of this project have {there}.",
        f"Cut chips that fit it on the Imagery page, or with `pu-geo chip P.pugeo --bands {restored.bands} "
        f"--size-px {wanted[1]}`" + ("; that needs a pre-event scene." if here[0] < wanted[0] else "."),
        kind="bands",
    )


def _answers(job: Job, restored: RestoredModel, chips: Chips, name: str, facts: Facts) -> dict[str, Singles | None]:
    """Return "scores" [N] in 0..1, "embeddings" [N, E] of unit length, and "type_scores" [N, c] of damage types, None
    without any.
    """
    model, gone = restored.model, lacking(restored, facts)

    def answers(inputs: NDArray[Any]) -> tuple[Singles, Singles, Any]:
        job.report(0.9, "scoring all buildings")
        types = model.type_scores(inputs, gone) if restored.types else None
        return model.score(inputs, gone), model.embed(inputs, gone), types

    if restored.bank is None:
        scores, embeddings, type_scores = answers(chips)
    else:
        path = job.folder / "features.npy"
        try:
            views = _views(job, restored.bank, restored, chips, path, facts)
            scores, embeddings, type_scores = answers(views)
        finally:
            remove_path(path)
    if not all(np.isfinite(each).all() for each in (scores, embeddings, type_scores) if each is not None):
        raise model_files.refusal(name, "gives some buildings scores that are no finite numbers")
    return {"scores": scores, "embeddings": embeddings, runs.TYPE_SCORES: type_scores}


def _views(job: Job, bank: Maker, restored: RestoredModel, chips: Chips, path: Path, facts: Facts) -> NDArray[np.float16]:
    """Compute the features that the model takes, float16 [V, N, D], in a file."""
    shape = (restored.n_views, len(chips), bank.n_features)
    out = np.lib.format.open_memmap(single(to_change(path)), mode="w+", dtype=np.float16, shape=shape)
    reserve(path)
    words = f"features of {len(chips)} chips in {restored.n_views} views, by the model's own filters"
    masks = footprint_masks(job.layout, str(facts["chip_set"])) if needs_masks(bank) else None
    source = job.layout.chips(str(facts["chip_set"]))
    transform(job, bank, source, chips, out, words, (0.05, 0.9), seed=restored.seed, masks=masks)
    settle(out, bank, facts, assessability.reasons(facts) == "")
    return out


def _features(restored: RestoredModel) -> tuple[str, Facts]:
    """Return name and maker of the features that a model takes, as a run keeps them: plain texts and numbers alone."""
    name, maker = restored.features
    plain = {key: printable(value, 300) if isinstance(value, str) else value for key, value in maker.items()}
    kept = {key: value for key, value in plain.items() if isinstance(value, str | int | float | None)}
    tables = ("views", "chip_views") if isinstance(restored.bank, LayerBanks) else ()  # checked when it was built
    return name, {**kept, **{key: maker[key] for key in tables}}


def _from_model(found: Model) -> Facts:
    there = found.card["learned_from"]
    return {
        "file": found.name,
        "sha256": found.card["sha256"],
        "run_id": printable(found.card.get("run_id")),
        "at_event": _number(there.get("at_event")),
        "n_positive": _number(there.get("n_positive")),
    }


def _write_files(job: Job, facts: RunFacts, found: Model) -> list[Path]:
    """Write the model into the run's folder, as it came."""
    folder, written = job.layout.run(facts.run_id), []
    for name, content in ((model_files.CARD, found.card_bytes), (model_files.WEIGHTS, found.weights)):
        with atomic_write(folder / name) as temporary:
            temporary.write_bytes(content)
        written.append(folder / name)
    return written


def _origin_words(
    restored: RestoredModel, inputs: RunInputs, optical: Chips, chips: Chips, is_federated: bool
) -> list[str]:  # fmt: skip
    """Return, in words, where the scores of a model come from that was not trained in a copy of this project."""
    there, title = restored.card["learned_from"], catalog.card(restored.card["method"]).title
    if is_federated:
        federation = there["federation"]
        held = ", ".join(map(printable, federation["classes_here"]))
        return [
            *_absence_words(there),
            f"{title} trained this model together with other projects, in the federation "
            f"{printable(federation.get('title'))}: the buildings here taught it {held}, and nobody here has checked what "
            "taught it the other classes. Assess the map's accuracy before you use it.",
        ]
    learned = chips if restored.bank is None else optical  # see `chips_learned`
    is_same = there.get("chip_set") == inputs.chip_set and there.get("sha256_chips") == sha256_of_array(learned)
    where = "these same buildings" if is_same else "another set of buildings"
    return [
        *_absence_words(there),
        f"Scored by a model that {title} learned on {where} from {_number(there.get('n_positive'))} damaged buildings; "
        "nothing was learned from the answers in this project. Assess the map's accuracy before you use it.",
    ]


def _other_here(job: Job, restored: RestoredModel, chips: Chips, inputs: RunInputs) -> list[str]:
    """Return, in words, what is other here than where a model learned: pixels, layers, brightness."""
    there, words = restored.card["learned_from"], list[str]()
    grid, federation, of_sites = store.call(job.layout, contents.grid), there.get("federation"), there.get("sites_gsd_m")
    own = [there.get("gsd_m"), *(of_sites if isinstance(of_sites, list) else ())]
    agreed = [federation.get("gsd_m")] if isinstance(federation, Mapping) else []
    for sizes in (own, agreed):  # a member's own file has its own pixels beside those that all agreed on
        if known := [each for each in map(_number, sizes) if each and each > 0]:
            words += [new for new in contents.site_pixel_words(grid, known) if new not in words]
    facts = chip_facts(job.layout, inputs.chip_set)
    lacks = feature_sets.words_of_missing(_views_learned(restored), lacking(restored, facts))
    return [*words, *_brightness_warnings(restored, chips, facts), *filter(None, [lacks])]


def _absence_words(there: Facts) -> list[str]:
    """Return which classes of a federation took part in few of its rounds, by what a card says; nothing of another model."""
    federation = there.get("federation")
    if not isinstance(federation, Mapping):
        return []
    n_rounds, given = federation.get("rounds"), federation.get("took_part")
    try:
        parts = {
            printable(name): TookPart(int(one["n_rounds"]), int(one["last"])) for name, one in dict(given or {}).items()
        }
        return federations.absence_words(parts, parts.values(), int(str(n_rounds))) if parts else [_NO_ROUNDS]
    except (TypeError, ValueError, KeyError):  # a file may come from anybody
        return [_NO_ROUNDS]


def _federation(found: Model) -> Facts | None:
    """Return what a run keeps of the federation that trained its model; None of another model."""
    stated = found.card["learned_from"].get("federation")
    if not isinstance(stated, Mapping):
        return None
    return {"title": printable(stated.get("title") or stated.get("id", "")), "noise": printable(stated.get("noise"))}


def _views_learned(restored: RestoredModel) -> tuple[str, ...]:
    """Return the names of the views that a model takes, in the order of `lacking`; none of a model without named views."""
    views = restored.bank.views if isinstance(restored.bank, LayerBanks) else restored.chip_views
    return tuple(view.name for view in views)


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and abs(value) < MAX_NUMBER else None


def _brightness_warnings(restored: RestoredModel, chips: Chips, facts: Facts) -> list[str]:
    """Compare the means of the bands, in units of uint8, with those that the model was standardized by.

    Args:
        facts: of the chip set; buildings that lack a layer have no part in its mean.
    """
    maker, some = restored.bank, np.arange(0, len(chips), max(1, len(chips) // CHIPS_COMPARED))
    parts: list[tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    if isinstance(maker, LayerBanks):
        lacks = feature_sets.is_missing(maker.facts(), facts)
        for k, (view, bank) in enumerate(zip(maker.views, maker.banks, strict=True)):
            shown = chips[some if lacks is None else some[~lacks[k, some]]][:, bands_of(view.name, maker.chip_views)]
            parts.append((f"The layer {view.name} differs", shown, bank.band_mean.numpy(), bank.band_std.numpy()))
    elif isinstance(maker, RcfBank):
        parts.append(("The images differ", chips[some], maker.band_mean.numpy(), maker.band_std.numpy()))
    elif maker is None:  # else a network that was trained elsewhere: the card does not say what brightness it knows
        own = restored.model.extractor.standardize
        mean, spread = (each.flatten().cpu().numpy() for each in (own.mean, own.scale))
        parts.append(("The images differ", chips[some], mean, spread))
    words = []
    for what, shown, mean, spread in parts:
        here = shown[:, -len(mean) :].mean((0, 2, 3)) if len(shown) else mean
        off = np.abs(here - mean) / spread
        if off[band := int(off.argmax())] > 1:
            words.append(
                f"{what} in brightness from what the model knows: band {band + 1} has a mean of {here[band]:.0f} here, and "
                f"had {mean[band]:.0f} there, with a spread of {spread[band]:.0f}. Its scores may be off."
            )
    return words
