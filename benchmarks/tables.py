"""Write docs/tables.md from the outcomes that `pu-geo benchmark ... --keep FILE` left in benchmarks/outcomes.

Run it as `python -m benchmarks.tables`. The figures in `pu_geo/methods/measured.py` are from the same files; a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pu_geo.tasks.benchmark import Outcome, as_markdown, read_kept
from pu_geo.tasks.project_table import project_table
from pu_geo.tasks.tables import TABLES, Table

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
labels). CPU s is processor time of training and scoring; the first method of a draw also makes its features. `supervised` is told
every class.
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
    return "\n".join([*parts, NOT_RUN])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
