"""The real app in a process of its own, and made-up projects for it, for tests and benchmarks without the sample event."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import shapely

from pu_geo.explore.look_job import look
from pu_geo.lifecycle import access
from pu_geo.records import FootprintTable, Grid, Role, Scene
from pu_geo.store import contents, store
from pu_geo.store.layout import RCF, Layout, write_array, write_json
from pu_geo.ui.build import FRONTEND
from tests.small_parts import WKT_UTM15, add_chips, add_run, click, job_of, with_key

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60
CHIP_PX, DIM, GSD_M = 16, 64, 0.5
SHARES = (0.62, 0.26, 0.12)
"""Of the buildings, on each island of the scatter; the last one holds the damaged ones."""


_BROWSERS: list[Any] = []
_COOKIES: list[dict[str, str]] = []
"""Contexts that tests opened, and the cookies of the servers that they started: each browser has all of them."""
LOGS: list[Path] = []
"""Of the servers that tests started, the newest last."""


def cookie_of(home: Path, port: int) -> str:
    """Return what a browser sends to the server on a port as its header Cookie, where the user's folder is `home`."""
    return f"{access.cookie_name(port)}={access.cookie_value(access.user_key(home), port)}"


class AppServer:
    """`app.py` on one port, killed and started again at will. Use as a context.

    Args:
        home: folder of what concerns all projects; projects that are opened there can be reached by their token.
        project: opened for who comes without a token.
        script: what is run in its place.

    Attributes:
        cookie: what a program sends as its header Cookie to be let in; browsers that `add_hooks` knows have it.
    """

    def __init__(
        self, home: Path, *, project: Layout | None = None, analyst: str = "ann", script: Path = REPOSITORY / "app.py"
    ) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self._port = listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}"
        self.cookie = cookie_of(home, self._port)
        name, _, value = self.cookie.partition("=")
        _COOKIES.append({"name": name, "value": value, "url": self.address})
        for context in _BROWSERS:
            context.add_cookies(_COOKIES[-1:])
        self.log = home / "app.log"
        self._home, self._script = home, script
        self._environment = {
            **os.environ, "PYTHONPATH": str(REPOSITORY), "PU_GEO_HOME": str(home), "PU_GEO_ANALYST": analyst,
            "PU_GEO_BROWSER": "no", "PU_GEO_OPEN": str(project.folder) if project else "",
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        LOGS.append(self.log)

    def __enter__(self) -> Self:
        with_key(self._home)  # so that projects of other tests are this user's, too
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(signal.SIGTERM)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(self._script), str(self._port)],
                cwd=self._home, env=self._environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        process = self._process
        self.wait_for_answer(lambda: process.poll() is None)

    def wait_for_answer(self, is_running: Callable[[], bool]) -> None:
        """Wait until it answers. Raises AssertionError with its log if it ends before, or does not within a minute."""
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and is_running():
            try:
                urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=2).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"the app did not start:\n{self.log.read_text(errors='replace')[-3000:]}")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return its main process."""
        assert self._process is not None
        return self._process

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End its processes, without a word by default; jobs have a process group of their own and go on."""
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def add_hooks(pages: Any) -> None:
    """Serve `hooks.js` around the bundle to a page or a context of Playwright's: `window.__pugeo` answers questions there.

    `window.__runs` counts runs, see `runs.js`. The servers of this process let it in.
    """
    context = getattr(pages, "context", pages)
    _BROWSERS.append(context)
    context.on("close", lambda closed: _BROWSERS.remove(context))
    if _COOKIES:
        context.add_cookies(_COOKIES)
    pages.add_init_script(path=Path(__file__).with_name("runs.js"))
    script = {"content_type": "text/javascript"}
    hooks, sources = Path(__file__).with_name("hooks.js"), FRONTEND / "src"
    pages.route(re.compile(r"/assets/damage_view\.js\?v="), lambda route: route.fulfill(path=hooks, **script))
    pages.route("**/assets/src/*.js", lambda route: route.fulfill(path=sources / Path(route.request.url).name, **script))


def made_up_project(folder: Path, ids: Sequence[str], *, pictures: Path | None = None, **chip_facts: object) -> Layout:
    """Make a project that Annotate can work on, as `prepare` leaves one: a scene, footprints, chips with made-up features.

    Args:
        folder: ends in ".pugeo" and does not exist.
        pictures: a folder that `make_project` drew for as many buildings; without it there is no picture to be looked at.
        chip_facts: more facts of the chip set, such as `cloud_share`.
    """
    layout = store.create(folder, "Made up")
    n = len(ids)
    per_row = int(np.ceil(np.sqrt(n)))
    rings = _boxes(n, per_row) if pictures is None else _drawn(pictures)
    side = 32 * per_row if pictures is None else json.loads((pictures / "facts.json").read_text())["grid"][0]
    grid = Grid("EPSG:32615", WKT_UTM15, (GSD_M, 0.0, 500_000.0, 0.0, -GSD_M, 4_000_000.0), side, side, GSD_M)
    facts = (grid.crs, grid.transform, side, side, 3, "uint8", GSD_M)
    roles: tuple[Role, Role] = ("pre", "post")
    with store.connect(layout) as db:
        contents.add_scenes(db, [Scene(f"{role}-1", role, f"/nowhere/{role}.tif", *facts) for role in roles], grid)
        contents.add_footprints(db, _table(ids, rings))
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, n, DIM))
    features[:, ::6, :8] += 1.0  # every sixth one is another kind
    add_chips(
        layout, ids, "main", bands="pre+post", size_px=CHIP_PX, features=features.astype(np.float16),
        chips=rng.integers(0, 255, (n, 6, CHIP_PX, CHIP_PX), dtype=np.uint8),
        **chip_facts,
    )  # fmt: skip
    click(layout, *ids[: min(n, 60) : 6], analyst="before")
    if pictures is not None:
        layout.quicklooks.parent.mkdir(exist_ok=True)
        (pictures / "quicklooks").rename(layout.quicklooks)
    zoom = int(np.ceil(np.log2(max(side, 256) / 256)))
    pyramid = {"tile_px": 256, "max_zoom": zoom, "width": side, "height": side}
    for role in roles:
        (layout.quicklooks / role).mkdir(parents=True, exist_ok=True)
        resolutions = [2**z for z in range(zoom, -1, -1)]
        write_json(layout.quicklooks / role / "pyramid.json", {**pyramid, "resolutions": resolutions})
    return layout


def _boxes(n: int, per_row: int) -> np.ndarray:
    """Squares of 16 pixels in rows, float64 [n, 4, 2] in grid pixels."""
    corners = np.array([[8, 8], [24, 8], [24, 24], [8, 24]], np.float64)
    spots = np.stack(np.divmod(np.arange(n), per_row)[::-1], axis=1) * 32.0
    return spots[:, None, :] + corners


def _drawn(pictures: Path) -> np.ndarray:
    shapes = json.loads((pictures / "quicklooks" / "footprints.json").read_text())["rings"]
    return np.array([ring[0] for ring in shapes], np.float64).reshape(len(shapes), -1, 2)


def _table(ids: Sequence[str], rings: np.ndarray) -> FootprintTable:
    polygons = shapely.polygons(rings * [GSD_M, -GSD_M] + [500_000.0, 4_000_000.0])
    wkb, areas = shapely.to_wkb(polygons).tolist(), shapely.area(polygons)
    return FootprintTable(list(ids), wkb, areas, [{}] * len(ids), "user", len(ids), 0, 0)


def islands_of(n: int) -> np.ndarray:
    """Return on which island each of n buildings lies, int64 [n]; they alternate, so that all are everywhere on the map."""
    return np.searchsorted(np.cumsum(SHARES), (np.arange(n) * 0.6180339887) % 1.0)


def add_island_run(layout: Layout, ids: Sequence[str]) -> None:
    """Store the run "islands-1", and a look; buildings of an island lie together, the damaged ones have high scores."""
    rng, n = np.random.default_rng(1), len(ids)
    islands = islands_of(n)
    embeddings = np.eye(len(SHARES), DIM)[islands] + rng.normal(scale=0.06, size=(n, DIM))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    is_last = islands == len(SHARES) - 1
    scores = np.clip(0.15 + 0.6 * is_last + rng.normal(scale=0.08, size=n), 0, 1)
    arrays = {"embeddings": embeddings.astype(np.float32), "clusters": is_last.astype(np.int64)}
    add_run(layout, "islands-1", ids=ids, scores=scores, arrays=arrays, chip_set="main", n_positive=10)
    write_array(layout.look("main", RCF), arrays["embeddings"])
    write_array(layout.look_plane("main", RCF), (arrays["embeddings"][:, :2] + 0.01 * islands[:, None]).astype(np.float32))
    look(job_of(layout, "look"), chip_set="main", feature_set=RCF)
