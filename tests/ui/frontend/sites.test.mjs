// An event of several sites: the map shows one of them, and nothing of the others is drawn, hit or selected there.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, firstPart, frame, freshPage, pass, settle, shapesOf, sitesOf } from "./fake_browser.mjs";

fakeBrowser();
globalThis.matchMedia = () => ({ matches: true }); // nothing moves softly
globalThis.cancelAnimationFrame = () => {};
const { colorDots } = await import("../../../pu_geo/ui/frontend/src/dot_colors.js");
const { groundOf } = await import("../../../pu_geo/ui/frontend/src/ground.js");
const { cellsOf } = await import("../../../pu_geo/ui/frontend/src/damage_painter.js");
const { arrowsIn, exaggeration } = await import("../../../pu_geo/ui/frontend/src/shifts.js");
const { areaText } = await import("../../../pu_geo/ui/frontend/src/describe.js");
const { DamageView } = await import("../../../pu_geo/ui/frontend/src/damage_view.js");
const { MapPane } = await import("../../../pu_geo/ui/frontend/src/map_pane.js");
const { SiteBox, countSites, stateOf } = await import("../../../pu_geo/ui/frontend/src/site_box.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");
const { TEXTS } = await import("../../../pu_geo/ui/frontend/src/texts.js");
const { makeView, projectionOf } = await import("../../../pu_geo/ui/frontend/src/map_parts.js");

// Three sites with gaps of 1024 rows; buildings: two in the first, one in the second, which has coarser pixels, none in the third.
const BOXES = [[0, 0, 300, 200], [0, 1224, 400, 1424], [0, 2448, 200, 2548]];
const square = (x, y, side = 10) => [[x, y, x + side, y, x + side, y + side, x, y + side]];
const SITES = sitesOf(BOXES).map((site, k) => ({ ...site, gsd_m: k === 1 ? 2 : 0.5 }));
const log = { ops: [], settled: [] };

let store;
beforeEach(() => {
  freshPage();
  store = new Store();
  store.setSites(SITES);
  store.setGeometry(shapesOf({ a: square(20, 20), b: square(200, 190), c: square(50, 1300, 20) }));
});

test("a building is of the site that its middle row belongs to; a gap is shared by both", () => {
  assert.deepEqual([...store.siteOf], [0, 0, 1]);
  assert.deepEqual([-50, 199, 711, 712, 1500, 2500, 9000].map((row) => store.siteAt(row)), [0, 0, 0, 1, 1, 2, 2]);
  store.setSites(sitesOf([[0, 0, 400, 3000]]));
  assert.deepEqual([[...store.siteOf], store.siteAt(5000), store.site], [[0, 0, 0], 0, 0]);
});

test("nothing of other sites is drawn, hit, boxed or counted in cells", () => {
  const all = [-1e6, -1e6, 1e6, 1e6];
  const seen = () => [[...store.touching(all)], store.within(all), store.withinPolygon([[-9, -9], [999, -9], [999, 9999], [-9, 9999]])];
  assert.deepEqual(seen(), [[0, 1], [0, 1], [0, 1]]);
  assert.deepEqual([store.hit(60, 1310, 5), store.hit(25, 25, 5), store.isOnMap(2), store.isOnMap(-1)], [-1, 0, false, false]);
  assert.deepEqual([store.gsd, store.medianSize], [0.5, 10]);
  const heard = [];
  store.on("site", () => heard.push(store.site));
  assert.deepEqual([store.showSite(1), store.showSite(1), heard], [true, false, [1]]);
  assert.deepEqual(seen(), [[2], [2], [2]]);
  assert.deepEqual([store.hit(60, 1310, 5), store.gsd, store.medianSize], [2, 2, 20]);
  store.setScores(Float32Array.of(0.9, 0.1, 0.8));
  Object.assign(store, { flagging: true, threshold: 0.5 });
  assert.deepEqual([...cellsOf(store, 1e6).values()].map(({ marked, assessed }) => [marked, assessed]), [[1, 1]]);
});

test("lengths, sizes and shifts are in the pixels of the building's own site", () => {
  assert.deepEqual([areaText(store, 0), areaText(store, 2)], ["25 m² · Site 1", "1,600 m² · Site 2"]);
  assert.deepEqual([groundOf(store, 0, "post").side, groundOf(store, 2, "post").side], [70, 40]); // 10 px of 0.5 m and 15 m around; of 20 px as much again is more than 15 m
  const shifts = { n: 3, perPx: [[0.5, -0.5], [2, -2], [1, -1]], cm: Int16Array.of(400, 0, 400, 0, 400, 0), quality: Uint8Array.of(80, 80, 80), typical: 4 };
  store.set("shifts", shifts);
  assert.deepEqual([groundOf(store, 0, "pre").dx, groundOf(store, 2, "pre").dx], [8, 2]);
  const arrows = () => arrowsIn(store, { resolution: 0.1, box: [-5000, -5000, 5000, 5000] }).map(({ x, dx }) => [x, dx]);
  assert.deepEqual([arrows(), exaggeration(store, 1)], [[[25, 8], [205, 8]], 5]); // 60 px of 0.5 m are 30 m
  store.showSite(1);
  assert.deepEqual([arrows(), exaggeration(store, 1)], [[[60, 2]], 20]);
});

test("a project of one site has its name nowhere, and knows no border", () => {
  store.setSites(sitesOf([[0, 0, 400, 3000]]));
  assert.equal(areaText(store, 0), "25 m²");
  assert.deepEqual(store.onMap([-5, -Infinity, 5, Infinity]), [-5, -Infinity, 5, Infinity]);
});

test("sites are counted by answers, scores from the threshold on, and what is not assessed", () => {
  const counts = () => countSites(store).map((each) => Object.values(each));
  assert.deepEqual(counts(), [[2, 0, 0, null, 0], [1, 0, 0, null, 0], [0, 0, 0, null, 0]]);
  store.setScores(Float32Array.of(0.9, 0.7, 0.7));
  store.set("threshold", 0.7);
  store.setImageQuality({ reasons: { cloud: "2" } });
  assert.deepEqual(counts(), [[2, 0, 0, 2, 0], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]]);
  store.setLabels({ 1: "0", 3: "1" }, log);
  assert.deepEqual(counts(), [[2, 1, 2, 0, 1], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]]);
  store.set("flagging", true);
  assert.deepEqual(counts(), [[2, 1, 2, 0, 1], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]], "as the categories of the damage map are");
  assert.deepEqual(countSites(store).map(stateOf), ["all reviewed", "no answers yet", "no buildings"]);
  store.setBlind([0, 1]);
  store.setLabels({}, log);
  assert.equal(countSites(store)[0].flagged, 0, "nothing of a random check's score");
});

test("the list is there where sites are several, counts while it is open, and leads to a site", () => {
  const gone = [];
  const box = new SiteBox(store, (k) => gone.push(k));
  store.emit("sites");
  assert.deepEqual([box.root.hidden, box.list.hidden, box.button.textContent], [false, true, "Site 11 of 3▾"]);
  const text = (k) => box.rows[k].root.textContent;
  store.setLabels({ 1: "0" }, log);
  frame();
  assert.equal(text(0), "Site 1", "nobody looks");
  box.button.click();
  assert.deepEqual([text(0), text(1), text(2)], ["Site 121100", "Site 2no answers yet10000", "Site 3no buildings00000"]);
  const flagged = () => box.cells.map((row) => row[3].hidden);
  assert.deepEqual(flagged(), [true, true, true, true]);
  const row = box.rows[1].root;
  store.setScores(Float32Array.of(0.9, 0.7, 0.7));
  store.set("threshold", 0.7);
  frame();
  assert.deepEqual([text(1), flagged()], ["Site 2no answers yet10010", [false, false, false, false]]);
  assert.equal(box.rows[1].root, row, "a row under the pointer stays");
  assert.deepEqual(box.rows.map(({ root }) => root.attributes["aria-current"]), ["true", "false", "false"]);
  row.click();
  assert.deepEqual([gone, box.isOpen], [[1], false]);
  store.showSite(1);
  assert.deepEqual([box.name.textContent, box.rows[1].root.attributes["aria-current"]], ["Site 2", "true"]);
  store.setSites(SITES.slice(0, 1));
  assert.equal(box.root.hidden, true);
});

// A map of OpenLayers' views on no page.
function mapOf(pane, size = [600, 400]) {
  const layer = { setExtent: (extent) => (layer.extent = extent), dispose: () => {} };
  const map = { view: makeView(projectionOf([400, 2548]), BOXES[0]), layer, getSize: () => size, getLayers: () => ({ getArray: () => [layer] }), render: () => {}, setTarget: () => {} };
  Object.assign(map, { getView: () => map.view, setView: (view) => (map.view = view), getPixelFromCoordinate: ([x, y]) => [x, -y] });
  map.view.setViewportSize(size);
  map.view.fit([0, -200, 300, 0], { size });
  pane.projection = map.view.getProjection();
  return (pane.map = map);
}
const lookOf = ({ view }) => [view.getCenter().map(Math.round), view.getResolution()];

test("the map shows all of a site, and cannot leave it", () => {
  const pane = new MapPane(store, {});
  const map = mapOf(pane);
  assert.equal(pane.showSite(1), true);
  const [center, resolution] = lookOf(map);
  assert.deepEqual([center, map.layer.extent], [[200, -1324], [0, -1424, 400, -1224]]);
  assert.ok(resolution > 0.66 && resolution < 0.75, "400 columns in 584 pixels");
  map.view.setCenter([9000, 0]);
  assert.deepEqual(lookOf(map)[0], [400, -1224]);
  map.view.setResolution(1e6);
  assert.equal(map.view.getResolution(), 2, "of 200 pixels, whatever the others need");
  assert.equal(pane.showSite(1), false);
  assert.deepEqual(lookOf(map)[0], [400, -1224], "and stays where it is");
  pane.fit();
  assert.deepEqual(lookOf(map)[0], [200, -1324]);
});

test("going to a building goes to its site, as closely as the one before was seen", async () => {
  const pane = new MapPane(store, {});
  const map = mapOf(pane);
  map.view.setResolution(0.25); // 12.5 cm a screen pixel
  store.set("hovered", 0);
  assert.equal(pane.pixelOf(2), null);
  assert.equal(pane.isInView(2), false);
  pane.locate(2);
  assert.deepEqual([store.site, lookOf(map)[0]], [1, [60, -1310]]);
  assert.ok(Math.abs(map.view.getResolution() - 1 / 6) < 1e-9, "0.0625 is closer than the map goes");
  assert.equal(store.hovered, -1, "it is not under the pointer any more");
  pane.locate(0);
  assert.deepEqual([store.site, lookOf(map)[0]], [0, [25, -25]]);
  pane.showAll([2]);
  assert.equal(store.site, 1);
  pane.showAll([0, 2]);
  assert.equal(store.site, 1, "some of them are here");
  pane.follow(0);
  await pass(100);
  assert.equal(store.site, 0, "a building of another site is not in view");
});

test("keys go through the sites and around, are named in the help, and say where they led", async () => {
  const view = new DamageView("");
  const server = fakeServer();
  const data = { token: "keys", base: "/pugeo", mode: "label", panes: [], layers: [], grid: [400, 2548], sites: SITES, height: 600, labels: {}, details: null, conflicts: null, grades: [], queue: null, geometry_v: "1" };
  view.update({ data, setStateValue: () => {} });
  server.open.find(({ url }) => url.includes("outlines.bin")).answer(firstPart(3));
  await settle();
  mapOf(view.map);
  const press = (key, more = {}) => {
    const event = Object.assign(new Event("keydown", { cancelable: true }), { key, ...more, composedPath: () => [document.body] });
    view.root.dispatchEvent(new Event("pointerenter"));
    window.dispatchEvent(event);
    return [view.store.site, event.defaultPrevented];
  };
  assert.deepEqual(press("]"), [0, false], "no map is shown");
  view.map.root.hidden = false;
  assert.deepEqual(press("]"), [1, true]);
  assert.equal(view.toolbar.spoken.textContent, "Site 2, 2 of 3");
  assert.deepEqual([press("]"), press("]"), press("[")].map(([site]) => site), [2, 0, 2]);
  assert.deepEqual(press("[", { ctrlKey: true, altKey: true }), [1, true], "as AltGr writes it");
  assert.deepEqual(press("[", { metaKey: true }), [1, false], "the browser's own: a page back");
  assert.ok(TEXTS.help.some(([, entries]) => entries.some(([keys]) => keys === "[  ]")));
  view.siteBox.toggle(true);
  press("Escape");
  assert.equal(view.siteBox.isOpen, false);
  view.update({ data: { ...data, sites: SITES.slice(0, 1) }, setStateValue: () => {} });
  view.map.root.hidden = false;
  assert.deepEqual(press("]"), [0, false], "there is one site alone");
});

test("the next of the queue takes the map to its site", async () => {
  const view = new DamageView("");
  const server = fakeServer();
  const data = { token: "next", base: "/pugeo", mode: "label", panes: [], layers: [], grid: [400, 2548], sites: sitesOf([[0, 0, 9, 2], [0, 1000, 9, 1200]]), height: 600, labels: {}, details: null, conflicts: null, grades: [], queue: { id: "q", items: [[1, "exploit", ""]] }, geometry_v: "1" };
  view.update({ data, setStateValue: () => {} });
  mapOf(view.map);
  view.map.root.hidden = false;
  server.open.find(({ url }) => url.includes("outlines.bin")).answer(firstPart(3, { side: 1500 }));
  await settle();
  assert.equal(view.store.siteOf[1], 1);
  await pass(100);
  assert.deepEqual([view.store.selected, view.store.site], [1, 1]);
});

test("dots have a color for each site, however many they are", () => {
  const n = 30;
  const names = Array.from({ length: n }, (_, k) => `Site ${k + 1}`);
  const { palette, entries } = colorDots({ n }, { kind: "categories", names }, Float32Array.from({ length: n }, (_, k) => k), [1, 2, 3]);
  assert.equal(new Set(palette.map(String)).size, 1 + 25, "after 25 they come again");
  assert.deepEqual(entries.map(({ text }) => text), names);
});
