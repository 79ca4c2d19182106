"""All that waits for a GPU, in one command that ends in time and can be called again.

    python -m benchmarks.gpu --minutes 8 [--parts a,b] [--data FOLDER] --out FOLDER [--dry]

    a  losses and training steps against float64 on the CPU, resuming, waits within a step, memory that runs out
    b  steps of NcPU and PUCL a second, against two supervised steps and a forward pass of the same network
    c  Fashion-MNIST I and II, ever longer          d  two events from their chips, beside presets quick
    e  a network that the chips taught without a label, and all quick methods on its features
    f  a training as a background job: cancelled, and resumed to its end

Needs torch, torchvision, numpy, scipy, scikit-learn, safetensors, OpenCV, psutil and filelock. `benchmarks/gpu_data.py` packs the folder
of data. Finished cases are lines of OUT/rows.jsonl and not done again; one that failed is. `--dry` does all on the CPU, small. Rows worth
keeping are added to outcomes/gpu.jsonl, and `python -m benchmarks.tables` brings them into docs/tables.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.kept import row, table
from pu_geo.errors import JobCancelled, PuGeoError
from pu_geo.training.callbacks import memory_mb
from pu_geo.training.run import Run, best_device, name_of

KEPT = Path(__file__).resolve().parent / "outcomes" / "gpu.jsonl"  # rows of a GPU that was lent, for docs/tables.md
PARTS = ("a", "b", "c", "d", "e", "f")
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where cases work: a device until a time, with a folder of data and one of their own; small where it is dry."""

    device: torch.device
    data: Path | None
    folder: Path
    until: float
    is_dry: bool

    @property
    def left_s(self) -> float:
        return self.until - time.monotonic()

    def run(self, seed: int = 0, **more: Any) -> Run:
        """A training that is cancelled when the time is up."""
        return Run(self.device, seed, is_cancelled=lambda: self.left_s < 0, **more)


@dataclass(frozen=True)
class Case:
    """One thing to be done; it is not begun with less than `least_s` left. What it is not right about, it raises as a `Wrong`."""

    part: str
    name: str
    least_s: float
    work: Callable[[Place], Figures]


class Wrong(Exception):
    """A figure is not within its bound."""

    def __init__(self, words: str, figures: Figures) -> None:
        super().__init__(words)
        self.figures = figures


@dataclass(frozen=True)
class Row:
    """What a case came to. seconds: on the clock; memory_mb: the most that tensors took on CUDA, else what the process holds."""

    part: str
    case: str
    is_ok: bool
    device: str
    torch: str
    seconds: float
    memory_mb: int
    is_dry: bool
    problem: str = ""
    figures: Figures = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        return self.part, self.case, self.device, self.torch


def read(path: Path) -> list[Row]:
    """Read rows; a line that a kill cut off is passed over."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(Row(**json.loads(line)))
    return found


def tables() -> list[str]:
    """Return the table of docs/tables.md, of the newest row of each case that was kept; none without."""
    kept = {each.key: each for each in read(KEPT) if not each.is_dry}
    rows = []
    for each in kept.values():
        figures = ", ".join(f"{name} {value}" for name, value in each.figures.items())
        device = f"{each.device}, torch {each.torch}"
        rows.append(row(device, each.part, each.case, each.problem or "yes", figures, each.seconds, f"{each.memory_mb:,}"))
    return [table("device | part | case | is it right? | figures | s | MB", rows)] if rows else []


def do(case: Case, place: Place) -> Row | None:
    """Do a case; None if the time was up before it had ended."""
    is_cuda = place.device.type == "cuda"
    began, problem, figures = time.monotonic(), "", {}
    try:
        if is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        figures = case.work(place)
        if is_cuda:
            torch.cuda.synchronize()
    except JobCancelled:
        return None
    except Wrong as error:
        problem, figures = str(error), error.figures
    except PuGeoError as error:
        problem = f"{error.problem} {error.hint}"
    except Exception as error:  # the next case may work
        problem = f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - began, 2)
    made = (name_of(place.device), torch.__version__, seconds, memory_mb(place.device), place.is_dry)
    return Row(case.part, case.name, not problem, *made, problem, figures)


def cases(parts: Sequence[str], is_dry: bool) -> Iterator[Case]:
    """Yield the cases of some parts, in order of what they are worth."""
    from benchmarks import gpu_checks, gpu_trainings

    yield from (case for case in [*gpu_checks.cases(is_dry), *gpu_trainings.cases(is_dry)] if case.part in parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is not done yet; return 1 if something is wrong, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry", action="store_true", help="on the CPU, small, with made-up chips where there is no data")
    options = parser.parse_args(arguments)
    device = torch.device("cpu") if options.dry else best_device()
    if device.type != "cuda" and not options.dry:
        parser.error("there is no CUDA device here; --dry does all of it on the CPU, small")
    options.out.mkdir(parents=True, exist_ok=True)
    until, path = time.monotonic() + 60 * options.minutes, options.out / "rows.jsonl"
    of_here, known, n_wrong = (name_of(device), torch.__version__), read(path), 0
    done, tried = {row.key for row in known if row.is_ok}, {row.key for row in known}
    left = [case for case in cases(options.parts.split(","), options.dry) if (case.part, case.name, *of_here) not in done]
    for case in sorted(left, key=lambda case: (case.part, case.name, *of_here) in tried):  # what failed before comes last
        with tempfile.TemporaryDirectory() as folder:
            place = Place(device, options.data, Path(folder), until, options.dry)
            row = do(case, place) if place.left_s > case.least_s else None
        if row is None:
            print(f"{case.part} {case.name}: not done, {max(0.0, until - time.monotonic()):.0f} s are left", flush=True)
            continue
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * (file.tell() > 0) + json.dumps(asdict(row)))  # first the end of a line that a kill cut off
        n_wrong += not row.is_ok
        print(f"{row.part} {row.case}: {row.problem or 'ok'} {json.dumps(row.figures)}, {row.seconds} s", flush=True)
    return int(n_wrong > 0)


if __name__ == "__main__":
    from benchmarks.gpu import main as main_of_module  # the one whose `Wrong` its parts raise

    sys.exit(main_of_module())
