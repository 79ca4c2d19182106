import assert from "node:assert/strict";
import { test } from "node:test";
import { heightFor } from "../../../pu_geo/ui/frontend/src/fill_window.js";

test("the view ends above the lower edge of the window", () => {
  for (const [windowHeight, top] of [[720, 98.4], [900, 120], [1080, 98]]) {
    const bottom = top + heightFor(windowHeight, top);
    assert.ok(bottom < windowHeight && bottom > windowHeight - 16, `${bottom} of ${windowHeight}`);
  }
});

test("it never gets too small to work in: the page scrolls instead", () => {
  assert.equal(heightFor(500, 400), 420);
});
