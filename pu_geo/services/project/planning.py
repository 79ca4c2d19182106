"""How long a project takes, before anybody starts it: hours, disk and memory of each step, from measured costs.

Reads how large the project is. What costs are and where they were measured is in `scale.costs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pu_geo import wording
from pu_geo.errors import PuGeoError
from pu_geo.methods import catalog
from pu_geo.methods.cards.propagation import MOST_UNLABELED
from pu_geo.methods.catalog import DEFAULT_METHOD
from pu_geo.project import contents, feature_sets, store
from pu_geo.project.layout import LAYERS, RCF, Layout
from pu_geo.scale import costs
from pu_geo.scale.costs import Cost, Table, Work

SIZE_PX = 64  # of a chip, where none is cut yet and nobody names one
MOST_WORKERS, MOST_GPUS = 100_000, 10_000
NOT_ON_GPUS = "not measured on GPUs: the time of processors"
DRAWN = f"at most: no more than {MOST_UNLABELED:,} buildings are learned from, and fewer were measured"
_ON_GPU = ("chip", "features", "train features", "train resnet18")  # steps that use a GPU where there is one


@dataclass(frozen=True)
class Request:
    """What a person asks for.

    Attributes:
        workers: of a cluster, one thread each; 0 for one process on this computer.
        gpus: in the whole cluster.
        buildings, megapixels: in the place of what the project has; None takes that.
        size_px: side of a chip; None takes that of the newest chips, else 64.
        maker: of features beside those that come with chips: "layers", or "rcf" for none; None takes that of the set in use.
        chip_views: of the features that come with chips; None takes those of the newest chips, else 17.
        n_views: of that set.
        method, preset, overrides: of the training.
    """

    workers: int = 0
    gpus: int = 0
    buildings: int | None = None
    megapixels: float | None = None
    size_px: int | None = None
    maker: str | None = None
    chip_views: int | None = None
    n_views: int = costs.CHIP_VIEWS
    method: str = DEFAULT_METHOD
    preset: str = "quick"
    overrides: Mapping[str, str | float] | None = None


@dataclass(frozen=True)
class Step:
    """One step of a plan.

    Attributes:
        name: of its command.
        cost: None if it was never measured.
        note: what to know of that.
        fitted_to: footprints, the most that its cost was fitted to.
        is_at_most: whether it takes no more than that, and maybe less.
    """

    name: str
    cost: Cost | None
    note: str = ""
    fitted_to: int = 0
    is_at_most: bool = False


@dataclass(frozen=True)
class Plan:
    """What a project takes.

    Attributes:
        speed: how many times as fast as the measured machine this one is; None if that was not measured.
    """

    work: Work
    request: Request
    steps: tuple[Step, ...]
    table: Table
    speed: float | None = None

    @property
    def known(self) -> list[tuple[str, Cost]]:
        return [(step.name, step.cost) for step in self.steps if step.cost is not None]

    @property
    def seconds(self) -> float:
        """On the clock, of all steps that were measured, one after the other."""
        return sum(cost.seconds for _, cost in self.known)

    @property
    def kept_bytes(self) -> float:
        return sum(cost.kept_bytes for _, cost in self.known)

    @property
    def peak_bytes(self) -> float:
        """The most that the project takes at once: a step's shards stay until it ends."""
        kept, peak = 0.0, 0.0
        for _, cost in self.known:
            kept += cost.kept_bytes
            peak = max(peak, kept + cost.shard_bytes)
        return peak

    @property
    def memory_mb(self) -> float:
        """Of the computer where jobs run, beside the app."""
        return max(cost.memory_mb for _, cost in self.known)

    @property
    def is_memory_at_most(self) -> bool:
        """Whether the step that takes the most memory may take less."""
        return self.memory_mb > self.sure_memory_mb

    @property
    def sure_memory_mb(self) -> float:
        """The same of those steps whose memory is no upper bound."""
        return max((step.cost.memory_mb for step in self.steps if step.cost and not step.is_at_most), default=0.0)

    @property
    def worker_mb(self) -> float:
        return max(cost.worker_mb for _, cost in self.known)

    @property
    def dominates(self) -> tuple[str, float]:
        """Return the step that takes longest, and its share of the whole, 0..1."""
        name, cost = max(self.known, key=lambda one: one[1].seconds)
        return name, cost.seconds / self.seconds if self.seconds else 0.0


def plan(layout: Layout | None, request: Request, *, speed: float | None = None, table: Table | None = None) -> Plan:
    """Work out what all steps of a project take, from its scenes to a map.

    Args:
        layout: of a project, or None where the request has all numbers.
        speed: see `Plan`.
        table: of costs; the one that comes with PU-Geo if None.

    Raises:
        PuGeoError: if a number is missing or out of bounds.
        TrainingError: if there is no such method, preset or setting.
    """
    _check(request)
    work, maker = _work(layout, request)
    costs_of, by = table or Table.shipped(), speed or 1.0
    settings = catalog.settings_for(request.method, request.preset, request.overrides)
    training, epochs = _training(request.method, settings, work.footprints)
    names = [
        "add-scene",
        "add-footprints",
        "align",
        "chip",
        *([] if maker == RCF else ["features"]),
        "rank",
        "train",
        "export",
    ]
    steps = []
    for name in names:
        step = training if name == "train" else name
        if step is None or not costs_of.has(step) or (name == "features" and maker != LAYERS):
            what = f"{request.method} {request.preset}" if name == "train" else maker
            steps.append(Step(name, None, f"{what}: not measured"))
            continue
        units = costs.units(work, step, epochs=epochs)
        cost = costs_of.cost(step, units, request.workers, speed=by)
        is_drawn = step == "train propagation" and work.footprints > MOST_UNLABELED
        note = NOT_ON_GPUS if request.gpus and step in _ON_GPU else DRAWN if is_drawn else ""
        steps.append(Step(name, cost, note, costs_of.fitted_to(step), is_drawn))
    return Plan(work, request, tuple(steps), costs_of, speed)


def _check(request: Request) -> None:
    for name, value, least, most in (
        ("--workers", request.workers, 0, MOST_WORKERS), ("--gpus", request.gpus, 0, MOST_GPUS),
        ("--buildings", request.buildings, 1, 10**9), ("--megapixels", request.megapixels, 0.001, 10**10),
        ("--size-px", request.size_px, 16, 256), ("--chip-views", request.chip_views, 1, 100), ("--views", request.n_views, 1, 100),
    ):  # fmt: skip
        if value is not None and not least <= value <= most:
            raise PuGeoError(f"{name} is {value:g}; it must be between {least:g} and {most:,}.", f"Correct {name}.")


def _work(layout: Layout | None, request: Request) -> tuple[Work, str]:
    """Return how large a project is, and the maker of its second set of features, "rcf" for none."""
    buildings, megapixels, size_px = request.buildings, request.megapixels, request.size_px
    maker, n_banks, chip_views = request.maker, 1, request.chip_views
    if layout is not None:
        with store.connect(layout) as db:
            buildings = buildings or contents.count_footprints(db)
            scenes = [one for one in contents.all_scenes(db) if one.role != "layer"]
            megapixels = megapixels or sum(one.width * one.height for one in scenes) / 1e6
            n_banks += len(contents.layers(db))
            chip_set = contents.latest_chip_set(db)
            used = feature_sets.in_use(db, layout, chip_set).name if chip_set else RCF
        if chip_set:
            chip_views = chip_views or feature_sets.find(layout, chip_set, RCF).n_views
            size_px = size_px or int(contents.chip_facts(layout, chip_set)["size_px"])
            maker = maker or str(feature_sets.find(layout, chip_set, used).maker.get("kind", RCF))
    for what, number, option in (("scenes", megapixels, "--megapixels M"), ("footprints", buildings, "--buildings N")):
        if not number:
            raise PuGeoError(
                f"There are no {what} to plan for: {'the project has none' if layout else 'no project was named'}.",
                f"Add them, or name how many there will be: {option}.",
            )
    work = Work(
        int(buildings or 0),
        float(megapixels or 0),
        size_px or SIZE_PX,
        chip_views or costs.CHIP_VIEWS,
        request.n_views,
        n_banks,
    )
    return work, maker or RCF


def _training(method: str, settings: Any, n: int) -> tuple[str | None, float]:
    """Return the step of the cost table that a training is, None if it was not measured, and its epochs."""
    if method == DEFAULT_METHOD:
        return "train propagation", 0.0
    if method != "pucl" or settings.pretrain_epochs:
        return None, 0.0
    epochs = min(settings.epochs, max(1.0, settings.max_steps * settings.batch_size / n))
    if settings.backbone == "features":
        return "train features", epochs
    is_measured = settings.backbone == "resnet18" and settings.precision == "bf16" and settings.augmentation == "aerial"
    return ("train resnet18" if is_measured else None), epochs


# As JSON and in words


def as_row(found: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    step, share = found.dominates
    return {
        "work": asdict(found.work), "workers": found.request.workers, "gpus": found.request.gpus,
        "steps": [
            {"step": one.name, **(asdict(one.cost) if one.cost else dict.fromkeys(Cost.__dataclass_fields__)), "note": one.note}
            for one in found.steps
        ],
        "seconds": found.seconds, "hours": round(found.seconds / 3600, 3), "kept_bytes": round(found.kept_bytes),
        "peak_bytes": round(found.peak_bytes), "memory_mb": round(found.memory_mb),
        "is_memory_at_most": found.is_memory_at_most, "worker_mb": round(found.worker_mb),
        "dominates": {"step": step, "share": round(share, 3)}, "speed": found.speed,
        "machine": found.table.facts["machine"], "measured_at": found.table.facts["measured_at"], "notes": notes(found),
    }  # fmt: skip


def words(found: Plan) -> str:
    """Return a plan as a table and sentences."""
    work, request = found.work, found.request
    where = f"{wording.plural(request.workers, 'worker')} of one thread" if request.workers else "one process, one thread"
    head = (
        f"{work.footprints:,} buildings, {work.megapixels:,.0f} megapixels of scenes, chips of {work.size_px} px; {where}."
    )
    lines = [head, f"{'step':16}{'time':>12}{'of it shared':>14}{'disk':>10}{'memory':>10}"]
    for step in found.steps:
        if step.cost is None:
            lines.append(f"{step.name:16}{'?':>12}{'':34}  {step.note}")
            continue
        cost = step.cost
        shared = wording.percent(1 - cost.driver_s / cost.seconds) if cost.workers_s else "no"
        cells = (
            wording.duration(cost.seconds),
            shared,
            wording.size(int(cost.kept_bytes)),
            wording.size(int(cost.memory_mb * 1e6)),
        )
        lines.append(f"{step.name:16}{cells[0]:>12}{cells[1]:>14}{cells[2]:>10}{cells[3]:>10}  {step.note}".rstrip())
    name, share = found.dominates
    lines += [
        f"Together {wording.duration(found.seconds)}; {name} takes {wording.percent(share)} of it.",
        f"Disk: {wording.size(int(found.kept_bytes))} stay, {wording.size(int(found.peak_bytes))} at most, beside the scenes.",
        f"Memory: {'at most ' if found.is_memory_at_most else ''}{wording.size(int(found.memory_mb * 1e6))} for jobs on the app's computer"
        + (f", {wording.size(int(found.sure_memory_mb * 1e6))} without the training" if found.is_memory_at_most else "")
        + (f", {wording.size(int(found.worker_mb * 1e6))} a worker." if found.worker_mb else "."),
        *notes(found),
    ]  # fmt: skip
    return "\n".join(lines)


def notes(found: Plan) -> list[str]:
    """Return what to know of a plan: whose times these are, what is assumed, what was not measured."""
    facts, request = found.table.facts, found.request
    machine = facts["machine"]
    whose = f"Measured on {facts['measured_at']} on one core of {machine['processor']}, torch {machine['torch']}"
    speed = (
        "; for a machine like that (--measure compares yours)."
        if found.speed is None
        else f"; this machine is {found.speed:.2f} times as fast in a piece of it, and all times were divided by that."
    )
    lines = [whose + speed]
    if beyond := [
        step for step in found.steps if step.cost and found.work.footprints > max(step.fitted_to, facts["held_out"])
    ]:
        sizes = wording.listed([f"{n:,}" for n in sorted({step.fitted_to for step in beyond})])
        lines.append(
            f"An extrapolation for {wording.listed([step.name for step in beyond])}: fitted up to {sizes} buildings and checked on "
            f"{facts['held_out']:,}. Beyond that times and memory grow in proportion here, and a step that grows faster takes longer."
        )
    if request.workers > 1:
        lines.append(
            f"Two workers were {wording.percent(facts['efficiency_of_2'])} busy on one computer; that "
            + ("they are on yours, and that disk and network keep up, is" if request.workers == 2 else
               "more of them are, and that disk and network keep up, is")
            + " an assumption."
        )  # fmt: skip
    if request.gpus:
        lines.append("No GPU was measured: times of steps that use one are those of processors.")
    unknown = [step.name for step in found.steps if step.cost is None]
    if unknown:
        lines.append(f"Not measured and not in the sums: {wording.listed(unknown)}.")
    lines.append("Clicks of people, the app, and waiting for a cluster are not in it.")
    return lines
