"""Two projects and three members as jobs, over TLS on loopback: the same numbers as in one process, also after kills."""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from federation_parts import NAME, SHORT, agreed, led, require_equal
from small_parts import need_extra

from pu_geo import jobs
from pu_geo.federation import rounds_job as rounds
from pu_geo.federation.agreement import Agreement, Plan
from pu_geo.jobs.control import JOB_VARIABLE
from pu_geo.store import federations
from pu_geo.store.layout import Layout

need_extra("federated")
from pu_geo.federation.deployed import membership  # noqa: E402  # only with the extra

pytestmark = [pytest.mark.long(part="federation"), pytest.mark.slow]
PATIENCE_S = 240.0
Pair = tuple[Layout, Layout]


def wait_until(is_so: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        assert time.monotonic() < until
        time.sleep(0.1)
    return found


class Deployed:
    """The jobs of a federation: one that serves, and one a member."""

    def __init__(self, agreement: Agreement, pair: Pair) -> None:
        self.agreement, self.leader = agreement, pair[0]
        self.folder = self.leader.federation(NAME)
        federations.write_agreement(self.folder, agreement.to_json())
        federations.write_members(self.folder, {})
        self.members: dict[str, tuple[Layout, str]] = {}
        args = {"federation": NAME, "plan": asdict(Plan()), "own": {"rest": None, "destroyed": None}}
        self.server = jobs.start(self.leader, "federate_lead", args)
        wait_until(lambda: self.has_failed() or (self.folder / federations.INVITATION).is_file())
        invitation = membership.read_invitation(self.folder / federations.INVITATION)
        (path,) = membership.accept(pair[1], invitation, {"flooded": None})
        asked = membership.read_request(path)
        membership.admit(self.leader, NAME, asked, asked.member.fingerprint)
        far = jobs.start(pair[1], "federate_join", {"federation": NAME, "class_name": "flooded"})
        own = wait_until(lambda: self.has_failed() or self.own_jobs())
        self.members = {"flooded": (pair[1], far), **{name: (self.leader, job) for name, job in own.items()}}

    def own_jobs(self) -> dict[str, str]:
        found = {
            str(job.args["class_name"]): job.job_id for job in jobs.all_jobs(self.leader) if job.task == "federate_join"
        }
        return found if len(found) == 2 else {}

    def all(self) -> list[tuple[Layout, str]]:
        return [(self.leader, self.server), *self.members.values()]

    def views(self) -> list[jobs.JobView]:
        return [jobs.view(layout.jobs / job) for layout, job in self.all()]

    def has_failed(self) -> bool:
        for view in self.views():
            assert view.state in ("waiting", "running", "done", "interrupted"), (view.problem, view.hint)
        return False

    def rounds(self) -> list[federations.Round]:
        return federations.rounds(self.folder)

    def kill(self, layout: Layout, job: str) -> None:
        """End all that works for a job, without a word."""
        for process in processes_of(layout.jobs / job):
            process.send_signal(signal.SIGKILL)
        wait_until(lambda: jobs.view(layout.jobs / job).state == "interrupted")


def processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(JOB_VARIABLE) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.fixture
def deploy(agencies: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Deployed]]:
    """Return what deploys an agreement; whatever still works is ended afterwards."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there
    made: list[Deployed] = []

    def start(**rules: Any) -> Deployed:
        made.append(Deployed(agreed(agencies[0], **rules), agencies))
        return made[-1]

    yield start
    for each in made:
        for layout, job in each.all():
            for process in processes_of(layout.jobs / job):
                process.kill()


def test_members_as_jobs_give_the_numbers_of_one_process_though_leader_and_member_are_killed(
    agencies: Pair, deploy: Callable[..., Deployed], tmp_path: Path
) -> None:
    deployed = deploy(deadline_s=PATIENCE_S)
    wait_until(lambda: deployed.has_failed() or deployed.rounds())
    for layout, job in deployed.all():
        (worker,) = processes_of(layout.jobs / job)  # no process beside it: none can be left behind
        remote = {each.raddr.ip for each in worker.net_connections(kind="inet") if each.raddr}
        assert remote <= {"127.0.0.1"}
    port = membership.read_invitation(deployed.folder / federations.INVITATION).address
    deployed.kill(deployed.leader, deployed.server)
    assert all(jobs.view(layout.jobs / job).is_active for layout, job in deployed.members.values())
    jobs.resume(deployed.leader, deployed.server)
    deployed.kill(*deployed.members["flooded"])
    jobs.resume(*deployed.members["flooded"])
    wait_until(lambda: deployed.has_failed() or all(view.state == "done" for view in deployed.views()))
    assert membership.read_invitation(deployed.folder / federations.INVITATION).address == port
    assert [each.number for each in deployed.rounds()] == [1, 2, 3]
    assert all(each.taking_part == [0, 1, 2] for each in deployed.rounds())
    assert deployed.views()[0].result["members"] == 3
    done, learner = rounds.read_state(deployed.folder, deployed.agreement) or (0, None)
    assert done == 3
    simulated = replace(deployed.agreement, id="simulated")
    require_equal(learner, led(simulated, agencies), 1e-6)
    for layout in agencies:
        assert (layout.federation(NAME) / federations.MODEL).is_file()
    _require_weights_alone(deployed, agencies)


def _require_weights_alone(deployed: Deployed, pair: Pair) -> None:
    """Require that the ledgers know of theta and own vectors alone, and that each member got another vector."""
    _, learner = rounds.read_state(deployed.folder, deployed.agreement) or (0, None)
    theta = set(learner.theta)
    by_row: dict[str, set[str]] = {}
    for layout in pair:
        for sent in federations.ledger(layout.federation(NAME)):
            is_own = layout == deployed.leader and sent.to != "member of flooded"
            assert sent.is_here == is_own, "the leader's own classes are on its machine"
            if sent.name == federations.FACTS:
                continue
            if sent.message == "answer":
                assert sent.to == "leader"
                assert sent.name in {*theta, "own_vector"}
            if sent.message == "ask" and sent.name == "own_vector":
                assert sent.shape == [SHORT.embedding_dim]
                by_row.setdefault(sent.to, set()).add(sent.sha256)
    assert len(by_row) == 3
    assert len(set.union(*by_row.values())) == sum(map(len, by_row.values()))  # nobody got another's
