// Named layers over the imagery: their colors, on which picture they lie, the control on the map, and pictures of a building.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { buttons, fakeBrowser, fakeServer, frame, freshPage, settle, squares } from "./fake_browser.mjs";

fakeBrowser();
const { ChipPictures } = await import("../../../pu_geo/ui/frontend/src/chip_pictures.js");
const { TilePictures } = await import("../../../pu_geo/ui/frontend/src/ground.js");
const { LayerBox, layerLegend } = await import("../../../pu_geo/ui/frontend/src/layer_box.js");
const { clearRim, inColors, isOn, nextLayer, paintViridis, shareOf, tileLoader, viridis } = await import("../../../pu_geo/ui/frontend/src/layer_tiles.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");
const { TEXTS } = await import("../../../pu_geo/ui/frontend/src/texts.js");

const SAR = { name: "sar-post", when: "post", max_zoom: 0, v: "3", is_gray: true, n_bands: 1, low: -21.46, high: 4.25, unit: "dB", missing: "1" };
const RGB = { name: "index", when: "", max_zoom: 0, v: "4", is_gray: false, n_bands: 4, low: 0, high: 1, unit: "", missing: "" };

let store;
beforeEach(() => {
  freshPage();
  store = new Store();
  store.setGeometry(squares(3));
});

test("viridis runs from violet to yellow, brighter with each step, and leaves transparent pixels so", () => {
  assert.deepEqual([viridis(0), viridis(255)], [[68, 1, 84], [253, 231, 37]]);
  const light = Array.from({ length: 256 }, (_, gray) => viridis(gray)).map(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b);
  for (let k = 16; k < 256; k += 16) assert.ok(light[k] > light[k - 16], String(k));
  const pixels = Uint8ClampedArray.of(255, 255, 255, 255, 0, 0, 0, 0);
  paintViridis(pixels);
  assert.deepEqual([...pixels], [253, 231, 37, 255, 68, 1, 84, 0]);
});

test("a rim of missing data beside what is transparent goes; the same gray elsewhere, and other values there, stay", () => {
  const [width, height] = [24, 8]; // three blocks: transparent, rim, data
  const data = new Uint8ClampedArray(4 * width * height);
  for (let k = 0; k < width * height; k++) {
    const x = k % width;
    data.set(x < 8 ? [0, 0, 0, 0] : x < 12 ? [43, 38, 51, 255] : x < 16 ? [60, 60, 60, 255] : [40, 40, 40, 255], 4 * k);
  }
  clearRim(data, width, height);
  assert.deepEqual(Array.from({ length: 24 }, (_, x) => data[4 * x + 3]), [...Array(12).fill(0), ...Array(12).fill(255)]);
});

test("tiles are painted once for each ramp", () => {
  const context = { getImageData: () => ({ data: Uint8ClampedArray.of(0, 0, 0, 255) }), putImageData: (pixels) => put.push([...pixels.data]) };
  const put = [];
  const canvas = { width: 1, height: 1, getContext: () => context };
  const { createElement } = document;
  document.createElement = (tag) => Object.assign(createElement(tag), { getContext: () => context });
  inColors(canvas, "grey");
  const copy = inColors(canvas, "viridis");
  assert.notEqual(copy, inColors(canvas, "grey"));
  assert.equal(inColors(canvas, "viridis"), copy);
  assert.deepEqual(put, [[0, 0, 0, 255], [68, 1, 84, 255]]);
});

test("with the swipe and side by side a layer lies on the picture of its date; on one picture alone it is shown whatever its date", () => {
  assert.deepEqual([shareOf("post", "swipe", 0.3), shareOf("pre", "swipe", 0.3), shareOf("", "swipe", 0.3), shareOf("pre", "pre", 0.3)], [[0.3, 1], [0, 0.3], [0, 1], [0, 1]]);
  const on = (when, view) => ["pre", "post"].map((part) => isOn(when, view, part));
  assert.deepEqual([on("pre", "side"), on("post", "side"), on("", "side")], [[true, false], [false, true], [true, true]]);
  assert.deepEqual([on("post", "pre"), on("pre", "swipe")], [[false, true], [false, true]], "one map shows it");
});

test("a key goes through the layers, and none after the last", () => {
  assert.deepEqual(["", "sar-post", "index", "gone"].map((name) => nextLayer([SAR, RGB], name)), ["sar-post", "index", "", "sar-post"]);
});

test("a map tile without data is transparent; one that comes later is set then", async () => {
  const server = fakeServer();
  const set = [];
  const load = tileLoader("grey", new TilePictures());
  load({ setImage: (canvas) => set.push(canvas.tagName) }, "t0");
  assert.deepEqual(set, []);
  server.requests[0].answer(null, 204);
  await settle();
  assert.deepEqual(set, ["CANVAS"]);
});

test("the control is absent without layers, and offers strength and colors once one is chosen", () => {
  const chosen = [];
  const box = new LayerBox(store, { layer: (name) => store.set("layer", name), opacity: (share) => chosen.push(share), ramp: (name) => store.set("ramp", name) });
  store.setNamed([]);
  assert.equal(box.root.hidden, true);
  store.setNamed([SAR, RGB]);
  assert.equal(box.root.hidden, false);
  assert.deepEqual(box.select.children.map((each) => each.textContent), ["No layer", "sar-post (post)", "index (no date)"]);
  assert.deepEqual([box.strength.hidden, box.ramps.hidden], [true, true]);
  box.select.value = "sar-post";
  box.select.dispatchEvent(new Event("change"));
  assert.deepEqual([store.layer, box.strength.hidden, box.ramps.hidden], ["sar-post", false, false]);
  assert.equal(box.slider.attributes["aria-valuetext"], "80 %");
  box.slider.value = "35";
  box.slider.dispatchEvent(new Event("input"));
  assert.deepEqual(chosen, [0.35]);
  buttons(box.root).Viridis.click();
  assert.equal(buttons(box.root).Viridis.attributes["aria-pressed"], "true");
  store.set("layer", "index");
  assert.equal(box.ramps.hidden, true, "three bands have their own colors");
});

test("the legend names the layer with its lowest and highest value and unit, or its bands", () => {
  store.setNamed([SAR, RGB]);
  assert.deepEqual(layerLegend(store), []);
  store.set("layer", "sar-post");
  const [box] = layerLegend(store);
  assert.equal(box.textContent, "sar-post−21.5 dB4.25 dB");
  store.set("layer", "index");
  assert.equal(layerLegend(store)[0].textContent, "index: bands 1 to 3 of 4 as red, green, blue");
});

test("pictures of a building gain the layer; a building without it says so, and asks the server for nothing", async () => {
  const server = fakeServer();
  store.setNamed([SAR]);
  const pictures = new ChipPictures(store);
  pictures.configure({ token: "t", base: "/pugeo", wall: null, layers: [{ name: "post", v: "1", max_zoom: 0 }], grid: [200, 200] });
  assert.deepEqual(pictures.parts, ["post"]);
  const before = pictures.shows;
  store.set("layer", "sar-post");
  assert.deepEqual([pictures.parts, pictures.dates], [["post", "layers/sar-post"], ["post"]]);
  assert.notEqual(pictures.shows, before);
  const here = pictures.make(0, 90, "layers/sar-post");
  here.isConnected = true;
  frame();
  assert.deepEqual(server.requests.map(({ url }) => url), ["/pugeo/t/tiles/layers/sar-post/0/0/0.jpg?v=3"]);
  assert.equal(here.attributes["aria-label"], "sar-post: building 1");
  const lacking = pictures.make(1, 90, "layers/sar-post");
  assert.equal(lacking.textContent, "no sar-post here");
  frame();
  assert.equal(server.requests.length, 1);
  assert.equal(TEXTS.part("layers/sar-post"), "sar-post");
});
