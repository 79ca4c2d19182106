"""Write the hashed lock file of this platform: `make lock`. For installing a release; `constraints.txt` is for working on
PU-Geo.

Asks pip which wheels it would install here for the app with its extras, and notes name, version and sha256 of each. Wheels
alone: a source distribution would run code of its own while it is installed.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "backbones,scale"
HEAD = """\
# What a release of PU-Geo is installed from on {where}: versions and sha256 of every wheel. Written by `make lock`.
#   pip install --require-hashes -r {name}
#   pip install --no-deps pu_geo-*.whl
"""


def lock_name() -> str:
    """Return the lock file's name on this platform, such as lock-linux-x86_64-cp311.txt."""
    return f"lock-{sys.platform}-{platform.machine()}-cp{sys.version_info.major}{sys.version_info.minor}.txt"


def wheels() -> list[tuple[str, str, str]]:
    """Return (name, version, lowercase hex sha256) of each wheel that pip would install, by name."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--only-binary",
            ":all:",
        ]
        subprocess.run([*pip, "--report", str(report), "-c", str(ROOT / "constraints.txt"), f"{ROOT}[{EXTRAS}]"], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    rows = [(one["metadata"], one["download_info"]) for one in found]
    return sorted(
        (facts["name"].lower(), facts["version"], source["archive_info"]["hashes"]["sha256"])
        for facts, source in rows
        if "archive_info" in source  # not PU-Geo itself
    )


if __name__ == "__main__":
    lines = [f"{name}=={version} --hash=sha256:{digest}" for name, version, digest in wheels()]
    where = f"{platform.system()} {platform.machine()} with Python {sys.version_info.major}.{sys.version_info.minor}"
    head = HEAD.format(where=where, name=lock_name())
    (ROOT / lock_name()).write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
