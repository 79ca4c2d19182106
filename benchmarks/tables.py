"""Bring the tables of docs/tables.md up to the outcomes that `pu-geo benchmark ... --keep FILE` and the benchmarks left in outcomes/.

Run it as `python -m benchmarks.tables`. The words around the tables are written in docs/tables.md itself, as are the tables of `many_buildings` and
`million`. The figures in `pu_geo/methods/measured.py` are from the same files; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from benchmarks import (
    discovery,
    fedaws_fmnist,
    fedaws_joplin,
    gpu,
    herocon_fmnist,
    herocon_joplin,
    herocon_views,
    ranking,
    shared_features,
)  # fmt: skip
from benchmarks.kept import OUTCOMES
from pu_geo.runs.benchmark_job import Outcome, as_markdown, read_kept
from pu_geo.runs.tables_job import TABLES, Table, project_table

PAGE = OUTCOMES.parents[1] / "docs" / "tables.md"
_JOPLIN = project_table(
    "joplin", field="damage", positive=("destroyed", "major-damage"), exclude=("un-classified",), clicks=(10, 30)
)


def outcomes_of(file: str) -> list[Outcome]:
    """Return what was kept under a name, oldest first."""
    return read_kept(OUTCOMES / file)


def _of_methods(file: str, table: Table) -> list[str]:
    """Return the table of a command `pu-geo benchmark`."""
    lines = as_markdown(table, outcomes_of(file), "", published=False).splitlines()
    return ["".join(f"{line}\n" for line in lines if line.startswith("|"))]


MADE: Mapping[str, Callable[[], list[str]]] = {
    "Joplin tornado, 2011, both scenes": partial(_of_methods, "joplin.jsonl", _JOPLIN),
    "Joplin: NcPU as its authors released it": partial(_of_methods, "joplin_released.jsonl", _JOPLIN),
    "Joplin: preset standard": partial(_of_methods, "joplin_standard.jsonl", _JOPLIN),
    "Hurricane Harvey chips, region A": partial(_of_methods, "harvey.jsonl", TABLES["harvey"]),
    "Harvey: NcPU as its authors released it": partial(_of_methods, "harvey_released.jsonl", TABLES["harvey"]),
    "Fashion-MNIST, small network": partial(_of_methods, "fmnist.jsonl", TABLES["fmnist"]),
    "Fashion-MNIST: uPU and nnPU with the papers' loss": partial(_of_methods, "fmnist_sigmoid.jsonl", TABLES["fmnist"]),
    "Hidden kinds: NCL's groups against k-means": discovery.tables,
    "HeroCon's views, made up": herocon_views.tables,
    "HeroCon's losses on noisy views of Fashion-MNIST": herocon_fmnist.tables,
    "HeroCon: grades as a scale, Joplin": herocon_joplin.tables,
    "FedAwS: ten clients with one class each, Fashion-MNIST": fedaws_fmnist.tables,
    "FedAwS: an agency for each grade, Joplin": fedaws_joplin.tables,
    "Is the default ever behind the linear ranker?": ranking.tables,
    "What filters without imagery cost": shared_features.tables,
    "On a GPU": gpu.tables,
}
"""Heading -> the tables under it, in their order."""


def refreshed(page: str) -> str:
    """Return docs/tables.md with the tables that outcomes make; where there is none yet, it comes at the end of its section."""

    def parts() -> Iterator[str]:
        for part in re.split("(?m)^(?=## )", page):
            make = MADE.get(part.partition("\n")[0].removeprefix("## "))
            new = make() if make else []
            old = re.findall(r"(?m)(?:^\|.*\n)+", part) if new else []
            if old and len(old) != len(new):
                raise SystemExit(f"{part[:60]!r} has {len(old)} tables, and there are {len(new)} of outcomes.")
            for before, after in zip(old, new, strict=bool(old)):
                part = part.replace(before, after)
            yield part if old else part + "".join(f"{each}\n" for each in new)

    return "".join(parts())


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
