// Outlines by map tile: what is decoded, fetched, kept, and what stands for a building until its tile is here.

import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { fakeBrowser, fakeServer, firstPart, freshPage, pass, settle, shapesOf, tileOf } from "./fake_browser.mjs";

fakeBrowser();
const { Outlines, decodeFirstPart, decodeTile } = await import("../../../pu_geo/ui/frontend/src/outlines.js");
const { Store } = await import("../../../pu_geo/ui/frontend/src/store.js");

// Each 10 px wide and in a row; the second half of each box is not the building.
const SLOPES = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`b${i}`, [[20 * i, 0, 20 * i + 10, 0, 20 * i, 10]]]));

let server, store, heard;
beforeEach(() => {
  freshPage();
  server = fakeServer();
  store = new Store();
  heard = 0;
  store.on("outlined", () => (heard += 1));
});
const open = (perTile, isHere = false) => store.setGeometry(shapesOf(SLOPES, { perTile, isHere }));
const asked = () => server.requests.map(({ url }) => Number(url.match(/(\d+)\.bin/)[1]));
const answer = async (tile, perTile) => {
  server.open.find(({ url }) => url === `/outlines/${tile}.bin`).answer(tileOf(SLOPES, tile, perTile));
  await pass(40);
};

test("what the server sends first is read without a copy", () => {
  const buffer = firstPart(3, { prefix: "é" });
  const { ids, boxes, areas, order, perTile, name } = decodeFirstPart(buffer);
  assert.deepEqual([ids, [...order], perTile, name], [["éb0", "éb1", "éb2"], [0, 1, 2], 3, "0123456789abcdef0123456789abcdef"]);
  assert.deepEqual([[...boxes.subarray(4, 8)], [...areas]], [[10, 0, 14, 4], [16, 16, 16]]);
  assert.equal(boxes.buffer, buffer);
});

test("a tile holds the rings of its buildings, holes and parts after each other", () => {
  const rings = { a: [[0, 0, 9, 0, 9, 9], [1, 1, 2, 1, 2, 2, 1, 2]], b: [[20, 0, 29, 0, 29, 9]] };
  assert.deepEqual(decodeTile(tileOf(rings, 0, 2), 2).map((each) => each.map((ring) => [...ring])), [rings.a, rings.b]);
});

test("a box stands for a building until its tile is here, and a click means what is drawn", async () => {
  open(100);
  assert.deepEqual([...store.rings(1)[0]], [20, 0, 30, 0, 30, 10, 20, 10]);
  assert.equal(store.hit(29, 9, 0), 1, "by its box");
  assert.deepEqual(asked(), [0], "asked for once");
  await answer(0, 100);
  assert.deepEqual([...store.rings(1)[0]], [20, 0, 30, 0, 20, 10]);
  assert.deepEqual([store.hit(29, 9, 0), store.hit(21, 1, 0), heard], [-1, 1, 1]);
});

test("a lasso and a box need no outlines", () => {
  open(10);
  assert.deepEqual(store.within([0, 0, 50, 10]), [0, 1, 2]);
  assert.deepEqual(store.withinPolygon([[-5, -5], [6000, -5], [6000, 20], [-5, 20]]).length, 300);
  assert.deepEqual(asked(), []);
});

test("few are fetched at the same time, what was used last comes first, and what comes together is drawn together", async () => {
  open(10);
  for (const tile of [0, 1, 2, 3, 4, 5]) store.rings(10 * tile);
  assert.deepEqual(asked(), [0, 1, 2, 3]);
  store.shapes.show([800, 0, 900, 10]);
  store.rings(40); // of tile 4
  server.open[0].answer(tileOf(SLOPES, 0, 10));
  await settle();
  assert.deepEqual(asked(), [0, 1, 2, 3, 4]);
  server.open[0].answer(tileOf(SLOPES, 1, 10));
  await settle();
  assert.equal(heard, 0);
  await pass(40);
  assert.deepEqual([heard, store.shapes.nMissing], [1, 4]);
});

test("the tiles that were used last are kept, and all that the map shows, however many", async () => {
  const fill = async (tiles) => {
    for (const tile of tiles) {
      store.shapes.show([20 * tile, 0, 20 * tile, 0]);
      store.rings(tile);
      await answer(tile, 1);
    }
  };
  open(1);
  await fill(Array(96).keys());
  store.shapes.clock += 1;
  store.rings(0);
  await fill([200]);
  assert.deepEqual([0, 1, 2, 200].map((tile) => Boolean(store.shapes.tiles[tile])), [true, false, true, true]);
  store.shapes.show([0, 0, 6000, 10]);
  const before = asked().length;
  for (let i = 0; i < 300; i++) store.rings(i);
  while (server.open.length) {
    for (const request of server.open) request.answer(tileOf(SLOPES, Number(request.url.match(/(\d+)\.bin/)[1]), 1));
    await settle();
  }
  assert.equal(store.shapes.tiles.filter(Boolean).length, 300);
  assert.equal(asked().length - before, 300 - 96);
});

test("pictures of buildings all over the project are all drawn, each tile fetched once", async () => {
  open(1);
  const drawn = new Set();
  const draw = (i) => store.shapes.get(i, () => draw(i)) && drawn.add(i);
  for (let i = 0; i < 300; i++) draw(i);
  while (server.open.length && asked().length < 1000) await answer(Number(server.open.at(-1).url.match(/(\d+)\.bin/)[1]), 1);
  assert.deepEqual([drawn.size, asked().length, store.shapes.tiles.filter(Boolean).length], [300, 300, 96]);
});

test("where tiles do not come, boxes stay, the map says so, and who draws later asks again", async () => {
  open(100);
  store.rings(0);
  let called = 0;
  assert.equal(store.shapes.get(150, () => (called += 1)), undefined);
  server.open[0].fail();
  server.open[0].answer(null, 404);
  await pass(0);
  assert.deepEqual([store.shapes.isFailing, heard, called], [true, 1, 1]);
  store.rings(0);
  assert.deepEqual(asked(), [0, 1], "not at once");
  await pass(5000);
  assert.equal(heard, 2);
  store.rings(0);
  await answer(0, 100);
  assert.deepEqual([store.shapes.isFailing, store.rings(0)[0].length], [false, 6]);
});

test("buildings that touch a box are found by tile as one by one", () => {
  let seed = 1;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const boxes = Float32Array.from({ length: 4 * 500 });
  for (let i = 0; i < 500; i++) {
    const [x, y] = [1000 * random(), 1000 * random()];
    boxes.set([x, y, x + (i % 50 ? 8 : 400) * random(), y + 8 * random()], 4 * i);
  }
  const order = Uint32Array.from(Array(500).keys()).sort((a, b) => boxes[4 * a] - boxes[4 * b]);
  for (const perTile of [1, 7, 64, 1000]) {
    const shapes = new Outlines({ order, boxes, perTile }, null);
    for (let k = 0; k < 50; k++) {
      const [x, y] = [1000 * random(), 1000 * random()];
      const size = k % 2 ? 100 : 900;
      const box = [x, y, x + size * random(), y + size * random()];
      const plain = Array.from(Array(500).keys()).filter((i) => boxes[4 * i] <= box[2] && boxes[4 * i + 2] >= box[0] && boxes[4 * i + 1] <= box[3] && boxes[4 * i + 3] >= box[1]);
      assert.deepEqual([...shapes.touching(box)], plain);
      for (const most of [0, 3, plain.length - 1, plain.length, 500]) assert.equal(shapes.isMore(box, most), plain.length > most);
    }
  }
  assert.deepEqual([...new Outlines({ order, boxes, perTile: 7 }, null).touching([NaN, NaN, NaN, NaN])], [], "a pointer that is nowhere");
});

test("who left a project hears nothing of its outlines", async () => {
  open(100);
  const before = store.shapes;
  store.rings(0);
  store.empty();
  server.open[0].answer(tileOf(SLOPES, 0, 100));
  await pass(40);
  assert.deepEqual([heard, store.hit(21, 1, 5), Boolean(before.tiles[0])], [0, -1, true]);
});
