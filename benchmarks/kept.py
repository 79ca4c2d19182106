"""Outcomes of benchmarks, a line of JSON each in outcomes/, and the tables of docs/tables.md that are made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import stats

OUTCOMES = Path(__file__).resolve().parent / "outcomes"
N_DRAWS = 10_000  # of a bootstrap
T = TypeVar("T")


@dataclass(frozen=True)
class Kept(Generic[T]):
    """The outcomes of one benchmark.

    Attributes:
        name: of the file.
        kind: dataclass of an outcome.
        key: names of its fields that say what need not be done again, with spaces between.
    """

    name: str
    kind: type[T]
    key: str

    def read(self) -> list[T]:
        """Read all, oldest first; a last line that a kill cut off is taken out of the file."""
        path = OUTCOMES / f"{self.name}.jsonl"
        whole, _, cut_off = (path.read_text(encoding="utf-8") if path.exists() else "").rpartition("\n")
        if cut_off:
            path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        return [self.kind(**json.loads(line)) for line in whole.splitlines()]

    def once(self, key: tuple[object, ...], work: Callable[[], Iterable[T]]) -> None:
        """Do what is not there yet, and add it in one write, so that two commands may fill one file."""
        names = self.key.split()
        if any(tuple(getattr(each, name) for name in names) == key for each in self.read()):
            return
        lines = [f"{json.dumps(asdict(each))}\n" for each in work()]  # type: ignore[call-overload]
        with (OUTCOMES / f"{self.name}.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        print("".join(lines), end="", flush=True)


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95 % interval (Student's t)."""
    mean, n = float(np.mean(differences)), len(differences)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(differences, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return mean, mean - half, mean + half


def bootstrap(values: Any) -> tuple[float, float]:
    """Return the 95 % interval of the mean over draws by 10,000 draws of them."""
    some = np.random.default_rng(0).choice(values, (N_DRAWS, len(values)))
    low, high = np.quantile(some.mean(1), (0.025, 0.975))
    return float(low), float(high)


def ahead(differences: Sequence[float], digits: int = 3) -> str:
    """Write the mean of paired differences and its interval."""
    mean, low, high = (f"{value:+.{digits}f}" for value in interval(differences))
    return f"{mean} ({low} to {high})"


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Write mean and standard deviation."""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else mean


def row(*cells: object) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def table(head: str, rows: Iterable[str]) -> str:
    """Write a table; its head as names with " | " between."""
    return f"| {head} |\n|{'---|' * (head.count(' | ') + 1)}\n{''.join(rows)}"
