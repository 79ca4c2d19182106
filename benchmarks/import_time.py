"""How long `import pu_geo` takes, in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST_S = 0.3
TIMED = "import time; began = time.perf_counter(); import pu_geo; print(time.perf_counter() - began)"


def bench_import(_: Path) -> dict[str, float]:
    """Import the package, the best of five, against what it may take."""
    times = [float(subprocess.check_output([sys.executable, "-c", TIMED], text=True)) for _ in range(5)]
    return {"ours_s": min(times), "allowed_s": MOST_S}
