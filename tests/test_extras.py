"""Every extra fits beside the app in one environment."""

import subprocess
import sys

import pytest
from small_parts import need_extra

MODULES = {"backbones": ["timm"], "scale": ["dask.array", "distributed"], "federated": ["flwr.client", "flwr.server"]}


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_is_there_in_the_versions_asked_for_and_fits_beside_the_app(extra: str) -> None:
    """Imported in one interpreter with the library; the command line works with the versions that came with it."""
    need_extra(extra)
    code = f"import pu_geo, pu_geo.ui.routes, torch, {', '.join(MODULES[extra])}; from pu_geo.cli import main; main()"
    command = [sys.executable, "-W", "ignore", "-c", code, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Map damaged buildings" in done.stdout
