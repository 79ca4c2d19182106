"""A leader that was ended with SIGKILL, and started again, ends to the bit as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from federation_parts import NAME, SHORT, agreed, require_equal, transport_of
from small_parts import REPOSITORY

from pu_geo.federation.rounds import lead, read_state
from pu_geo.project import federations
from pu_geo.project.layout import Layout

pytestmark = [pytest.mark.slow, pytest.mark.long(part="kills")]
N_ROUNDS, KILLED_AFTER = 60, 5
SETTINGS = replace(SHORT, rounds=N_ROUNDS, server_momentum=0.9)
DRIVER = """
import sys
sys.path.insert(0, "tests")
from federation_parts import agreed, transport_of, NAME
from pu_geo.federation.agreement import Agreement
from pu_geo.federation.rounds import lead
from pu_geo.project import federations
from pu_geo.project.layout import Layout
from pathlib import Path
pair = tuple(Layout(Path(each)) for each in sys.argv[1:])
agreement = Agreement.from_json(federations.agreement_bytes(pair[0].federation(NAME)))
lead(agreement, pair[0].federation(NAME), transport_of(agreement, pair))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_leader_that_was_killed_goes_on_from_its_round(agencies: tuple[Layout, Layout]) -> None:
    agreement, folder = agreed(agencies[0], settings=SETTINGS), agencies[0].federation(NAME)
    transport_of(agreement, agencies)  # writes the agreement
    words = [sys.executable, "-c", DRIVER, *(str(each.folder) for each in agencies)]
    driver = subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while len(federations.lines(folder / federations.ROUNDS)) < KILLED_AFTER:
            assert driver.poll() is None, driver.stdout and driver.stdout.read()
            time.sleep(0.01)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    stored = read_state(folder, agreement)
    assert stored is not None
    assert KILLED_AFTER - 1 <= stored[0] < N_ROUNDS
    resumed = lead(agreement, folder, transport_of(agreement, agencies))
    assert [one.number for one in federations.rounds(folder)] == list(range(1, N_ROUNDS + 1))
    (folder / federations.STATE).unlink()
    whole = lead(agreement, folder, transport_of(agreement, agencies))
    require_equal(whole.learner, resumed.learner)
