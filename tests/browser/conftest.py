"""Chromium for journeys of a user: the system's own, with a fresh profile, kept from phoning home; and projects to work in."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pu_geo.geo.ground import NO_DATA_GREY
from pu_geo.lifecycle import projects
from pu_geo.records import LabelOp, scene_fingerprint
from pu_geo.store import alignment, contents, labels, store
from pu_geo.store.alignment import Alignment
from pu_geo.store.layout import Layout
from tests.browser.make_project import make_project, write_pyramid
from tests.browser.real_app import LOGS, REPOSITORY, AppServer, add_hooks, add_island_run, islands_of, made_up_project
from tests.small_parts import small_scene

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NOTHING_OUTWARD = ["--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *NOTHING_OUTWARD]
STREAMLITS_OWN = "/_stcore/"  # on a page's own address Streamlit looks for its server below the page first
ACTION_MS = 60_000  # for a click or a text: two of these tests may share a busy machine
FAILURES = REPOSITORY / "build" / "browser"
N_HOUSES, SIDE_PX = 400, 1500
LIGHT = 200  # gray of the layer where it has data: the eastern half
SAR = replace(
    small_scene(), scene_id="sar-post-1", role="layer", layer="sar-post", when="post", kind="sar-db", bands=1, rgb=(1,),
    dtype="float32", stretch=((-22.0, 4.5),), sha256="5a",
)  # fmt: skip
PAGES = pytest.StashKey[list]()
CLOUDY, DARK, MISALIGNED, HAZY, ONE_DATE = range(100, 105)
"""Places of houses that a cloud or missing data hides, whose dates do not fit, half below a cloud, and in one date only."""
HELD_SERVER = """
import runpy

from pu_geo.answers import ranking

first = ranking.is_ranking
ranking.is_ranking = lambda layout, patience_s: (layout.folder / "is-ranking").exists() or first(layout, patience_s)
runpy.run_path({app!r}, run_name="__main__")
"""  # the app; but the first ranking goes on for as long as the file "is-ranking" lies in a project


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A running Chromium. Skips where there is none, unless PU_GEO_REQUIRE_BROWSER=1."""
    required = os.environ.get("PU_GEO_REQUIRE_BROWSER") == "1"
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None and not required:
        pytest.skip("no Chromium on this machine; apt-get install chromium, or set PU_GEO_REQUIRE_BROWSER=1 to fail")
    assert program, f"PU_GEO_REQUIRE_BROWSER=1, but none of {', '.join(PROGRAMS)} is on the PATH"
    playwright = pytest.importorskip("playwright.sync_api") if not required else __import__("playwright.sync_api").sync_api
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Keep of a test that failed what its pages show, and the end of the logs of its servers: nobody can look afterwards."""
    report = yield
    if report.failed and report.when != "teardown":  # by then the pages are closed, see `new_page`
        report.sections.append(("browser", f"what its pages showed: {keep_what_is_shown(item)}"))
    return report


def keep_what_is_shown(item: pytest.Item) -> Path:
    """Write a screenshot, the text and the console of each page of a test, and the end of server logs, into a folder; return it.

    A server that the test started has ended by then, so its pages may have lost their connection since.
    """
    folder = FAILURES / re.sub(r"\W+", "_", item.name).strip("_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, page in enumerate(item.stash.get(PAGES, [])):
        lines = [page.url, *page.logged, *(f"no answer yet: {request.url}" for request in page.asked)]
        (folder / f"{number}-console.txt").write_text("\n".join(lines), encoding="utf-8")
        with suppress(Exception):  # a page that is closed, or that does not answer any more: what there is of it is kept
            page.screenshot(path=folder / f"{number}.png", timeout=10_000)
        with suppress(Exception):
            state = page.locator(".stApp").evaluate("(app) => JSON.stringify(app.dataset)", timeout=2_000)
            (folder / f"{number}-state.txt").write_text(state, encoding="utf-8")
        with suppress(Exception):
            (folder / f"{number}.txt").write_text(page.locator("body").inner_text(timeout=10_000), encoding="utf-8")
    for number, log in enumerate(log for log in dict.fromkeys(LOGS) if log.is_file()):
        (folder / f"server-{number}.log").write_text(log.read_text(errors="replace")[-20_000:], encoding="utf-8")
    return folder


@pytest.fixture
def new_page(chromium, request: pytest.FixtureRequest) -> Iterator[Callable[[], object]]:
    """Open pages of 1400 x 900, each in a profile of its own. After the test no request has left 127.0.0.1, no script has
    failed, no dialog opened, nothing was missing (404), nothing on a page broke the server's security policy, and no name out of
    somebody's file ran as a script."""
    outside, troubles, missing = [], [], []
    pages = request.node.stash.setdefault(PAGES, [])
    local = ("http://127.0.0.1:", "ws://127.0.0.1:", "blob:", "data:", "file:")

    def note(url: str) -> None:
        if not url.startswith(local):
            outside.append(url)

    def refuse(dialog) -> None:
        troubles.append(dialog.message)
        dialog.dismiss()

    def open_page():
        context = chromium.new_context(viewport={"width": 1400, "height": 900})
        context.set_default_timeout(ACTION_MS)
        add_hooks(context)
        context.on("request", lambda request: note(request.url))
        context.on("weberror", lambda error: troubles.append(error.error.stack or str(error.error)))
        context.on("dialog", refuse)
        context.on(
            "response",
            lambda answer: answer.status == 404 and STREAMLITS_OWN not in answer.url and missing.append(answer.url),
        )
        page = context.new_page()
        page.logged, page.asked = [], set()
        page.on("console", lambda message: page.logged.append(f"{message.type}: {message.text} {message.location['url']}"))
        page.on("websocket", lambda link: note(link.url))
        page.on("request", lambda request: page.asked.add(request))
        for event in ("requestfinished", "requestfailed"):
            page.on(event, lambda request: page.asked.discard(request))
        pages.append(page)
        return page

    yield open_page
    of_server = [page for page in pages if not page.url.startswith("file:")]  # a report's file has a policy of its own
    refused = [each for page in of_server for each in page.logged if "Content Security Policy" in each]
    hits = [page.evaluate("window.hit") for page in pages if not page.is_closed()]
    if outside or troubles or refused or missing or any(hits):
        keep_what_is_shown(request.node)
    for page in pages:
        page.context.close()
    assert outside == [], "requests left this machine"
    assert troubles == [], "scripts on the page failed, or a dialog opened"
    assert missing == [], "a page asked for what is not there"
    assert refused == [], "a page needs what the policy forbids, or somebody put it there"
    assert not any(hits), "a name ran as script"


@pytest.fixture
def page(new_page: Callable[[], object]) -> object:
    return new_page()


@pytest.fixture(scope="session")
def server(own_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """The real app, one for all tests but those that kill it."""
    script = tmp_path_factory.mktemp("server") / "server.py"
    script.write_text(HELD_SERVER.format(app=str(REPOSITORY / "app.py")), encoding="utf-8")
    with AppServer(own_home, script=script) as running:
        yield running


@pytest.fixture
def app(server: AppServer) -> Iterator[AppServer]:
    """The server; projects that tests open are reached by their token. It must log no traceback."""
    n_logged = server.log.stat().st_size
    yield server
    assert b"Traceback" not in server.log.read_bytes()[n_logged:]


def address_of(app: AppServer | str, layout: Layout, screen: str = "") -> str:
    """Where a screen of a project is, which the app then knows."""
    projects.open_project(str(layout.folder))
    return f"{getattr(app, 'address', app)}/{screen}?project={projects.token_of(layout)}"


@dataclass(frozen=True)
class Village:
    """A project of 400 made-up houses that the app serves: pictures, chips, ten positives, and a run with three islands."""

    address: str
    layout: Layout
    ids: list[str]

    def url(self, screen: str) -> str:
        return address_of(self.address, self.layout, screen)

    def answers(self) -> dict[str, labels.LabelEvent]:
        with store.connect(self.layout) as db:
            return labels.current(db)

    def labels(self) -> dict[str, str]:
        with store.connect(self.layout) as db:
            return dict(labels.current_labels(db))

    def operations(self) -> list[str]:
        with store.connect(self.layout) as db:
            return [row[0] for row in db.execute("SELECT op FROM label_event ORDER BY event")]

    def put(self, analyst: str, given: dict[str, str]) -> None:
        """Store labels of somebody else."""
        with store.connect(self.layout) as db:
            event = labels.last_event(db)
            ops = [LabelOp(f"{analyst}-{event}-{k}", building, label) for k, (building, label) in enumerate(given.items())]
            labels.append(db, ops, analyst=analyst, screen="map")

    def island(self, k: int) -> set[str]:
        return {building for building, on in zip(self.ids, islands_of(len(self.ids)), strict=True) if on == k}


@pytest.fixture(scope="session")
def village_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The village as it is copied for each test."""
    folder = tmp_path_factory.mktemp("village")
    pictures = make_project(folder / "pictures", n=N_HOUSES, side=SIDE_PX)
    ids = json.loads((pictures / "quicklooks" / "footprints.json").read_text())["ids"]
    shares = {name: np.zeros(N_HOUSES) for name in ("cloud_share", "nodata_share")}
    shares["cloud_share"][[CLOUDY, HAZY]], shares["nodata_share"][DARK] = (0.9, 0.3), 0.9
    facts = {name: share.tolist() for name, share in shares.items()}
    layout = made_up_project(folder / "village.pugeo", ids, pictures=pictures, **facts)
    _align(layout, ids)
    add_island_run(layout, ids)
    return layout.folder


def _align(layout: Layout, ids: list[str]) -> None:
    """Pre must move 3 m to the east and 4 m to the south; the farther down a house stands, the surer."""
    quality, has_data = np.linspace(0.05, 1, N_HOUSES), np.ones(N_HOUSES, bool)
    quality[[MISALIGNED, ONE_DATE]], has_data[ONE_DATE] = 0, False
    dx, dy = np.full(N_HOUSES, 3.0), np.full(N_HOUSES, -4.0)
    found = Alignment(ids, dx, dy, quality, has_data, np.zeros(N_HOUSES, bool), np.array([[3.0, -4.0]]))
    with store.connect(layout) as db:
        alignment.save(layout, found, contents.scenes(db))


@pytest.fixture
def village(app: AppServer, village_folder: Path, tmp_path: Path) -> Village:
    layout = Layout(tmp_path / "village.pugeo")
    shutil.copytree(village_folder, layout.folder)
    with store.connect(layout) as db:
        return Village(app.address, layout, contents.building_ids(db))


@pytest.fixture
def has_layer(village) -> dict[str, bool]:
    """Give the village a layer of its eastern half, as the jobs that add a layer and cut chips leave it; return who has it."""
    picture = np.full((SIDE_PX, SIDE_PX, 3), LIGHT, np.uint8)
    picture[:, : SIDE_PX // 2] = NO_DATA_GREY
    layout = village.layout
    write_pyramid(layout.layer_tiles("sar-post"), picture)
    shutil.copy(layout.quicklooks / "post" / "pyramid.json", layout.layer_tiles("sar-post"))
    with store.connect(layout) as db:
        contents.add_layer_scenes(db, [SAR])
        chip_set = contents.latest_chip_set(db)
    shapes = json.loads((layout.quicklooks / "footprints.json").read_text())
    rings = dict(zip(shapes["ids"], shapes["rings"], strict=True))
    facts = dict(contents.chip_facts(layout, chip_set))
    lacks = [float(np.mean(rings[building][0][::2]) < SIDE_PX / 2) for building in facts["building_ids"]]
    optical = [{"name": name, "when": name, "start": at, "stop": at + 3} for at, name in ((0, "pre"), (3, "post"))]
    views = [*optical, {"name": "sar-post", "when": "post", "start": 6, "stop": 7}]
    made = {**facts["made_from"]["scenes"], scene_fingerprint(SAR): ["sar.tif", True, "sar-post"]}
    scaling = {"sar-post": {"bands": [[-22.0, 4.5]], "files": []}}
    about = {"views": views, "view_missing": {"sar-post": lacks}, "scaling": scaling}
    written = {**facts, **about, "made_from": {**facts["made_from"], "scenes": made}}
    layout.chip_facts(chip_set).write_text(json.dumps(written), encoding="utf-8")
    return {building: not lack for building, lack in zip(facts["building_ids"], lacks, strict=True)}
