// Pictures of the ground around a building: how much is shown, from which map tiles, and what is asked of the server.

import assert from "node:assert/strict";
import test, { beforeEach, mock } from "node:test";
import { fakeBrowser, fakeServer, frame, freshPage, pass, settle, shapesOf, sitesOf, squares, tileOf } from "./fake_browser.mjs";

fakeBrowser();
const { TilePictures, clearNoData, groundOf, tickOf, tilesOf } = await import("../../../pu_geo/ui/frontend/src/ground.js");
const { ChipPictures } = await import("../../../pu_geo/ui/frontend/src/chip_pictures.js");
const { gridAt, lonLatAt } = await import("../../../pu_geo/ui/frontend/src/map_parts.js");
const { Panes } = await import("../../../pu_geo/ui/frontend/src/panes.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");
const { TEXTS } = await import("../../../pu_geo/ui/frontend/src/texts.js");

let store;
beforeEach(() => {
  freshPage();
  store = new Store();
  store.setSites(sitesOf());
  store.setGeometry(shapesOf({ shed: [[100, 100, 104, 100, 104, 102, 100, 102]], hall: [[200, 200, 500, 200, 500, 300, 200, 300]] }));
});

test("a shed of 2 m is shown with 15 m around it, a hall of 150 m with half its length", () => {
  // 4 px of 0.5 m and 2 * 15 m are 64 px; its middle is (102, 101)
  assert.deepEqual(groundOf(store, 0, "post"), { x: 70, y: 69, side: 64, dx: 0, dy: 0 });
  assert.deepEqual(groundOf(store, 1, "post"), { x: 50, y: -50, side: 600, dx: 0, dy: 0 });
});

test("the pre picture is moved by the shift, as the model's chip is; where it could not be measured it stays", () => {
  const shifts = { n: 2, perPx: [[0.5, -0.5]], cm: Int16Array.of(300, -200, 300, -200), quality: Uint8Array.of(80, 0) };
  store.set("shifts", shifts);
  const { dx, dy } = groundOf(store, 0, "pre"); // 3 m east are 6 columns, 2 m south 4 rows down
  assert.deepEqual([dx, dy], [6, 4]);
  assert.deepEqual([groundOf(store, 1, "pre").dx, groundOf(store, 0, "post").dx], [0, 0]);
});

test("tiles are as fine as the screen shows, and none lies beyond the grid", () => {
  const pyramid = { max_zoom: 3, grid: [1500, 1000] };
  const square = (x, y, side) => ({ x, y, side, dx: 0, dy: 0 });
  assert.deepEqual(tilesOf(square(240, 10, 64), 128, pyramid), { zoom: 3, resolution: 1, tiles: [{ x: 0, y: 0 }, { x: 1, y: 0 }] });
  assert.deepEqual(tilesOf(square(0, 0, 400), 100, pyramid), { zoom: 1, resolution: 4, tiles: [{ x: 0, y: 0 }] });
  assert.deepEqual(tilesOf(square(-40, -40, 64), 128, pyramid).tiles, [{ x: 0, y: 0 }]);
  assert.deepEqual(tilesOf(square(1480, 980, 64), 128, pyramid).tiles, [{ x: 5, y: 3 }]);
  assert.deepEqual(tilesOf(square(3000, 980, 64), 128, pyramid).tiles, []);
});

test("the tick is the longest round length within a third of the picture", () => {
  assert.deepEqual([32, 60, 90, 3000].map(tickOf), [10, 20, 20, 500]);
});

const picture = (width, height, at) => ({ data: Uint8ClampedArray.from({ length: 4 * width * height }, (_, k) => at((k >> 2) % width, Math.floor((k >> 2) / width), k & 3)) });
test("pixels without data become transparent, block by block; dark ground stays", () => {
  const cleared = [];
  const context = (pixels) => ({ getImageData: () => pixels, clearRect: (...box) => cleared.push(box) });
  clearNoData(context(picture(16, 8, (x) => (x < 8 ? 40 : 44))), 16, 8);
  clearNoData(context(picture(16, 8, (x, y, band) => (band === 3 ? 255 : x === 9 ? 60 : x === 0 ? 70 : 41))), 16, 8);
  assert.deepEqual(cleared, [[0, 0, 8, 8], [0, 0, 8, 8]]);
});

test("a dark gray roof or shadow stays, also at the border; only what is long and reaches the border is without data", () => {
  const cleared = new Set();
  const isGray = (x, y) => (x >= 96 && x < 192 && y >= 96 && y < 192) || (x < 48 && y < 16) || (x >= 240 && y >= 128 && y < 192);
  clearNoData({ getImageData: () => picture(256, 256, (x, y) => (isGray(x, y) ? 40 : 90)), clearRect: (x, y) => cleared.add(`${x} ${y}`) }, 256, 256);
  assert.equal(cleared.size, 16, "2 x 8 blocks at the right border");
  assert.ok(cleared.has("240 128") && !cleared.has("96 96") && !cleared.has("0 0"));
});

test("a tile that is not there only for now is asked for again: a 404 that does not name an empty tile", async () => {
  const server = fakeServer();
  const tiles = new TilePictures();
  tiles.get("t0", () => true, () => tiles.get("t0", () => true, () => {}));
  server.requests[0].answer(null, 404);
  await pass(5000);
  assert.deepEqual(server.requests.map(({ url }) => url), ["t0", "t0"]);
});

test("a picture of many tiles waits once for each, and is drawn once a frame", async () => {
  const server = fakeServer();
  const pictures = new ChipPictures(store);
  pictures.configure({ token: "t", base: "/pugeo", wall: null, layers: [{ name: "post", v: "1", max_zoom: 0 }], grid: [2000, 2000] });
  const canvas = pictures.make(1, 300, "post");
  canvas.isConnected = true;
  const { get } = TilePictures.prototype;
  let asked = 0;
  mock.method(TilePictures.prototype, "get", function (...all) { asked += 1; return get.apply(this, all); });
  frame();
  const tiles = asked;
  assert.ok(tiles >= 6, `${tiles}`);
  for (const request of server.open) request.answer(null, 204);
  await settle();
  assert.equal(asked, tiles, "nothing is drawn before the next frame");
  frame();
  assert.equal(asked, 2 * tiles, "and then once");
  mock.restoreAll();
});

test("a small picture of a building is drawn anew once its outline is another", () => {
  const pictures = new ChipPictures(store);
  pictures.configure({ token: "t", base: "/pugeo", wall: null, layers: [], grid: [2000, 2000] });
  pictures.thumbnails.set(`${pictures.configured} 0 44 true`, "drawn");
  assert.equal(pictures.thumbnail(0, 44, () => {}), "drawn");
  store.setGeometry(squares(2));
  assert.equal(pictures.thumbnail(0, 44, () => {}), null);
});

test("a picture waits for the outline of its building: a box is never drawn into it", async () => {
  const server = fakeServer();
  const shed = { shed: [[100, 100, 104, 100, 104, 102]] };
  store.setGeometry(shapesOf(shed, { isHere: false }));
  const { createElement } = document;
  const pen = new Proxy({}, { get: () => () => {}, set: () => true });
  document.createElement = (tag) => Object.assign(createElement(tag), { getContext: () => pen });
  const pictures = new ChipPictures(store);
  pictures.configure({ token: "waits", base: "/pugeo", wall: null, layers: [{ name: "post", v: "1", max_zoom: 0 }], grid: [200, 200] });
  let done = 0;
  const picture = () => pictures.thumbnail(0, 44, () => (done += 1));
  assert.equal(picture(), null);
  for (const request of server.open.filter(({ url }) => url.endsWith(".jpg?v=1"))) request.answer(null, 204);
  await settle();
  assert.equal(picture(), null, "the ground is here, its outline is not");
  const before = done;
  server.open.find(({ url }) => url === "/outlines/0.bin").answer(tileOf(shed, 0, 1));
  await pass(40);
  assert.ok(done > before);
  assert.ok(picture());
});

test("a tile is asked for once, the newest first; one without data is null, one that nobody shows is not asked for", async () => {
  const server = fakeServer();
  const tiles = new TilePictures();
  const done = [];
  const want = (url, isWanted = true) => tiles.get(url, () => isWanted, () => done.push(url));
  for (let k = 0; k < 8; k++) assert.equal(want(`t${k}`, k !== 7), undefined);
  want("t0");
  assert.deepEqual(server.requests.map(({ url }) => url), ["t0", "t1", "t2", "t3", "t4", "t5"]);
  server.requests[0].answer(null, 204);
  await settle();
  assert.deepEqual(done, ["t0", "t0"]);
  assert.equal(want("t0"), null);
  assert.deepEqual(server.requests.map(({ url }) => url).slice(6), ["t6"], "t7 is not shown any more");
  server.requests[1].fail();
  await settle();
  assert.ok(!done.includes("t1"));
  await pass(5000);
  assert.ok(done.includes("t1"), "whoever shows it draws anew");
  assert.equal(want("t1"), undefined, "and so asks again");
});

// 5 x 5 nodes by pyproj 3.7 of EPSG:32615, and the same transformer's answers between them; see `place_nodes`.
const NODES = {n: 5, lon: [-94.57600445, -94.40719603, -94.2383709, -94.06953108, -93.90067855, -94.57321066, -94.40470123, -94.23617521, -94.06763459, -93.89908137, -94.57043544, -94.40222301, -94.23399412, -94.06575073, -93.89749481, -94.56767866, -94.39976127, -94.23182753, -94.06387938, -93.8959188, -94.56494021, -94.39731589, -94.22967533, -94.06202047, -93.89435326], lat: [37.12588805, 37.12801246, 37.12989657, 37.1315403, 37.13294359, 36.99072414, 36.99283822, 36.99471316, 36.9963489, 36.99774536, 36.85555695, 36.85766074, 36.85952655, 36.86115432, 36.86254399, 36.72038651, 36.72248004, 36.72433675, 36.72595658, 36.72733947, 36.58521282, 36.58729612, 36.58914376, 36.59075568, 36.59213181]};
const GRID = [120_000, 120_000];
test("longitude and latitude are right to a meter over a scene of 60 km", () => {
  for (const [x, y, lon, lat] of [[12.5, 7.25, -94.575933443, 37.125856324], [31234.5, 98765.25, -94.392138477, 36.68306397], [60001, 44444, -94.235117659, 36.929625771], [119990, 119990, -93.894409671, 36.592176465], [15000, 105000, -94.482424009, 36.653873802]]) {
    const [east, north] = lonLatAt(NODES, GRID, x, y);
    const away = Math.hypot((east - lon) * 111_320 * Math.cos((lat * Math.PI) / 180), (north - lat) * 110_574);
    assert.ok(away < 1, `${away} m`);
    assert.ok(Math.hypot(...gridAt(NODES, GRID, east, north).map((at, axis) => at - [x, y][axis])) < 0.1, "and back");
  }
  assert.equal(gridAt(NODES, GRID, 13.4, 52.5), null, "not on this grid");
  assert.equal(lonLatAt(null, GRID, 1, 1), null, "a project without a place");
});

test("beyond 180 degrees counting starts anew; the words name the hemispheres", () => {
  const [lon, lat] = lonLatAt({ n: 2, lon: [179, 181, 179, 181], lat: [-10, -10, -12, -12] }, [100, 100], 75, 50);
  assert.deepEqual([lon.toFixed(6), lat.toFixed(6)], ["-179.500000", "-11.000000"]);
  assert.deepEqual(gridAt({ n: 2, lon: [179, 181, 179, 181], lat: [-10, -10, -12, -12] }, [100, 100], lon, lat).map(Math.round), [75, 50]);
  assert.equal(TEXTS.map.lonLat(lon, lat), "11.00000° S, 179.50000° W");
});

// The panels' widths

function openPanes() {
  const part = () => ({ root: document.createElement("div") });
  const panes = new Panes({ scatter: part(), map: part(), queuePane: part(), wall: part() }, [], { tab: () => {}, resized: () => {} });
  panes.show({ hasScatter: false, hasMap: true, hasQueue: true, hasWall: true, queueShown: true });
  return panes;
}
const press = (element, key) => element.dispatchEvent(Object.assign(new Event("keydown"), { key }));

test("arrows move the divider, Enter hides the side panel, and both are kept for the next time", () => {
  const panes = openPanes();
  press(panes.splitter, "ArrowRight");
  assert.equal(panes.splitter.attributes["aria-valuenow"], "64");
  press(panes.splitter, "Enter");
  assert.deepEqual([panes.side.hidden, panes.unfold.hidden], [true, false]);
  const later = openPanes();
  assert.deepEqual([later.share.toFixed(2), later.side.hidden], ["0.64", true]);
  later.unfold.click();
  assert.deepEqual([later.side.hidden, later.queuePane.root.hidden, later.unfold.hidden], [false, false, true]);
  press(later.splitter, "End");
  assert.equal(later.splitter.attributes["aria-valuenow"], "85");
});
