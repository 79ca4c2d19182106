"""Room for open files: asked for where it is short, refused in words where the system does not give it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such limit")


def in_fresh_process(body: str) -> str:
    """Limits cannot be raised again once lowered: try them in a process of their own."""
    code = "import resource\nfrom pu_geo.geo.raster.guard import allow_files\n" + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": ""}
    )
    return done.stdout.strip()


def test_a_thousand_files_open_where_256_would_be_the_end_and_a_limit_that_suffices_is_left_alone() -> None:
    told = in_fresh_process("""
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        allow_files(3)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        allow_files(1000)
        print(len([open("/dev/null") for _ in range(1000)]))
    """)
    assert told == "1000"


def test_a_limit_of_the_system_is_told_with_what_to_do() -> None:
    told = in_fresh_process("""
        from pu_geo.errors import ImageryError
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
        try:
            allow_files(1000)
        except ImageryError as refusal:
            print(refusal.kind, "1,000" in refusal.problem, "400" in refusal.problem, "ulimit" in refusal.hint)
    """)
    assert told == "files True True True"
