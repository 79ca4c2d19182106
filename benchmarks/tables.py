"""Write docs/tables.md from the outcomes that `pu-geo benchmark ... --keep FILE` left in benchmarks/outcomes.

Run it as `python -m benchmarks.tables`. What `many_buildings` and `million` print is written up by hand, in outcomes too. The figures in
`pu_geo/methods/measured.py` are from the same files; a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    bakeoff,
    discovery,
    estimators,
    fedaws_fmnist,
    fedaws_joplin,
    fedaws_norms,
    gpu,
    herocon_fmnist,
    herocon_joplin,
    herocon_views,
    ranking_table,
    shared_features,
)
from pu_geo.tasks.train.benchmark import Outcome, as_markdown, read_kept
from pu_geo.tasks.train.tables import TABLES, Table, project_table

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "tables.md"
TWO_CORES = "2026-11-21; x86-64, 2 cores (shared with other work, so processor time is given), torch 2.15, no GPU."
_TRUTH = "--field damage --positive destroyed --positive major-damage --exclude un-classified"
JOPLIN = project_table(
    "joplin", field="damage", positive=("destroyed", "major-damage"), exclude=("un-classified",), clicks=(10, 30)
)


@dataclass(frozen=True)
class Section:
    """One table of the page.

    Attributes:
        file: name of its outcomes.
        words: what stands under its heading.
    """

    file: str
    table: Table
    heading: str
    command: str
    words: str
    made: str = TWO_CORES
    published: bool = False


INTRODUCTION = """# Tables

What `pu-geo benchmark` gave, written by `python -m benchmarks.tables` from `benchmarks/outcomes/`. Mean ± standard deviation over
seeds; a seed draws other positives and unlabeled. AUC and AP are what counts here, because PU-Geo ranks; OA and F1 are at a method's
own threshold of 0.5 (the ranker's: at the estimated share), which nobody should use without an audit. Every preset was chosen
while looking at Joplin and Harvey, so these are development figures (and one draw of FMNIST-II led to a rule for PUCL's pseudo
labels). Every method on frozen features is given the same 17 views of a test chip, because the app scores by them; the ranker and
`linear` read the first view alone, the chip as it was cut, there as here. CPU s is processor
time of training and scoring; the first method of a draw also makes its features. `supervised` is trained on every
true class.
"""
SECTIONS = (
    Section(
        "joplin.jsonl", JOPLIN, "Joplin tornado, 2011, both scenes", f"pu-geo benchmark project --data joplin.pugeo {_TRUTH}",
        "The buildings as an analyst meets them: 10 or 30 damaged ones clicked at random, all others ranked and tested on. 64 px\n"
        "chips of both dates; 15 un-classified buildings are left out. No supervised row: it would be told the answers.",
    ),
    Section(
        "joplin_released.jsonl", JOPLIN, "Joplin: NcPU as its authors released it",
        f"pu-geo benchmark project --data joplin.pugeo {_TRUTH} --methods ncpu --set variant=released",
        "The default is variant `paper`: the difference is smaller than the spread, here and on Harvey.",
    ),
    Section(
        "joplin_standard.jsonl", JOPLIN, "Joplin: preset standard",
        f"pu-geo benchmark project --data joplin.pugeo {_TRUTH} --methods ncpu --preset standard --clicks 30 --seeds 1",
        "ResNet-18 from the chips, after self-supervised training on all of them: one draw, on which `quick` has AUC .932.",
    ),
    Section(
        "harvey.jsonl", TABLES["harvey"], "Hurricane Harvey chips, region A",
        "pu-geo benchmark harvey --data region_A.zip --seeds 3",
        "30 % of the places (about 1 km) are set aside for testing, with the same share of damage. At 5 % there are fewer than 300\n"
        "damaged chips to click. Undamaged chips are of another date, which makes the task easier than it looks.",
    ),
    Section(
        "harvey_released.jsonl", TABLES["harvey"], "Harvey: NcPU as its authors released it",
        "pu-geo benchmark harvey --data region_A.zip --seeds 3 --methods ncpu --set variant=released",
        "The default is variant `paper`.",
    ),
    Section(
        "fmnist.jsonl", TABLES["fmnist"], "Fashion-MNIST, small network",
        "pu-geo benchmark fmnist --data fashion_mnist --seeds 3 --preset standard --set backbone=small --set pretrain_epochs=0 "
        "--set max_steps=600",
        "A network of 0.39 M weights from scratch in 600 steps, which is what two cores do in minutes: n_P and the classes are those\n"
        "of PUCL's Table 1, its ResNet-18 (91.8 ± 0.8 and 89.2 ± 0.3 % accuracy; nnPU on ssCL's embeddings 89.5 ± 0.9 and 85.9 ± 0.5)\n"
        "is not. ce, upu, nnpu, both with noisy pairs and supervised, 2026-11-23, with `--set lr=1e-3` as well: their preset's 1e-4 is\n"
        "meant for 3,000 steps. The other methods have the rate of their preset, so this table does not rank methods. One view, for all.",
    ),
    Section(
        "fmnist_sigmoid.jsonl", TABLES["fmnist"], "Fashion-MNIST: uPU and nnPU with the papers' loss",
        "pu-geo benchmark fmnist --data fashion_mnist --seeds 5 --preset standard --methods upu,nnpu --set backbone=small "
        "--set pretrain_epochs=0 --set max_steps=600 --set lr=1e-3 --set surrogate=sigmoid",
        "Kiryo et al. train with the sigmoid, our preset with the logistic loss.",
        "2026-11-23; x86-64, 2 cores (shared with other work, so processor time is given), torch 2.15, no GPU.",
    ),
)  # fmt: skip
NOT_RUN = """## Not run

| row | why |
|---|---|
| FMNIST-I and -II, ResNet-18, PUCL + PUPL, `pu-geo benchmark fmnist --data FILES --methods pucl --preset paper` | no GPU |
| NcPU `paper` and its released variant on Harvey, `--preset paper` | no GPU |
| preset `standard` but for the row above | minutes to hours on two cores, meant for a GPU |
| CIFAR-10, CIFAR-100, STL-10, ABCD, xBD | the files were not at hand; each row is tested on a small made-up copy of their layout |
"""


def outcomes_of(file: str) -> list[Outcome]:
    """Return what was kept under a name, oldest first."""
    return read_kept(HERE / "outcomes" / file)


def page() -> str:
    """Return docs/tables.md."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        text = as_markdown(section.table, outcomes_of(section.file), section.command, section.published, section.made)
        _title, _, rest = text.partition("\n")
        parts.append(f"## {section.heading}\n\n{section.words}\n{rest}")
    others = (
        discovery.section(), herocon_views.section(), herocon_fmnist.section(), herocon_joplin.section(),
        fedaws_fmnist.section(), fedaws_joplin.section(), fedaws_norms.section(), estimators.section(),
        ranking_table.section(), bakeoff.section(), shared_features.section(),
    )  # fmt: skip
    many, million = ((HERE / "outcomes" / name).read_text(encoding="utf-8") for name in ("many_buildings.md", "million.md"))
    costs = (HERE / "outcomes" / "costs.md").read_text(encoding="utf-8")
    return "\n".join([*parts, *filter(None, others), many, costs, million, gpu.section(), NOT_RUN])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
