// Shortcuts: who gets a key, what it is called, and that the list of keys names all of them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test, { beforeEach } from "node:test";
import { fakeBrowser, freshPage } from "./fake_browser.mjs";

fakeBrowser();
const SOURCES = new URL("../../../pu_geo/ui/frontend/src/", import.meta.url);
const { listenForKeys } = await import(new URL("keys.js", SOURCES));
const { TEXTS } = await import(new URL("texts.js", SOURCES));

let root, elsewhere, used, isWanted, stop;
beforeEach(() => {
  freshPage();
  [root, elsewhere] = [document.createElement("div"), document.createElement("input")];
  elsewhere.matches = (selector) => selector.startsWith("input"); // a field to type in
  [used, isWanted] = [[], false];
  stop = listenForKeys(root, (name) => used.push(name), () => isWanted);
});

/** Press a key with the focus on `target`; whether it was kept from Streamlit. */
function press(key, more = {}, target = document.body) {
  const event = Object.assign(new Event("keydown", { cancelable: true }), { key, ...more, composedPath: () => [target, document.body] });
  window.dispatchEvent(event);
  return event.defaultPrevented;
}
const point = () => root.dispatchEvent(new Event("pointerenter"));

test("keys are ours while the pointer is over the view, and Streamlit does not hear them", () => {
  assert.equal(press("1"), false);
  point();
  assert.equal(press("1"), true);
  root.dispatchEvent(new Event("pointerleave"));
  assert.equal(press("1"), false);
  assert.deepEqual(used, ["1"]);
});

test("after a click on the view too, and while a queue is open and nothing else has the focus", () => {
  window.dispatchEvent(Object.assign(new Event("pointerdown"), { composedPath: () => [root] }));
  assert.equal(press("2"), true);
  window.dispatchEvent(Object.assign(new Event("pointerdown"), { composedPath: () => [document.body] }));
  assert.equal(press("2"), false);
  isWanted = true;
  assert.equal(press("2"), true);
  document.activeElement = elsewhere;
  assert.equal(press("2"), false);
  document.activeElement = document.createElement("button"); // a link in the sidebar, or what opened a popover that is closed again
  document.activeElement.matches = (selector) => selector === "a, button:not([role], [aria-expanded=true])";
  assert.deepEqual([press("2"), press("ArrowRight"), press("Enter"), press(" ")], [true, true, false, false]);
});

test("a slider of ours keeps its arrows, also after it was dragged; its digits are the view's", () => {
  point();
  const slider = document.createElement("div");
  slider.matches = (selector) => selector === "[role=slider]";
  assert.deepEqual([press("ArrowLeft", {}, slider), press("End", {}, slider), press("1", {}, slider)], [false, false, true]);
  assert.deepEqual(used, ["1"]);
});

test("who types in a field means no shortcut", () => {
  point();
  assert.equal(press("3", {}, elsewhere), false);
});

test("what is still written as its field goes away is no shortcut, until a click or a key that ends writing", () => {
  point();
  const field = document.createElement("textarea");
  let isThere = true;
  Object.assign(field, { matches: (selector) => selector.includes("textarea"), getClientRects: () => (isThere ? [{}] : []) });
  const write = () => {
    isThere = true;
    window.dispatchEvent(Object.assign(new Event("focusin"), { composedPath: () => [field, document.body] }));
    isThere = false;
  };
  const after = {
    nothing: () => {}, a_click: () => window.dispatchEvent(Object.assign(new Event("pointerdown"), { composedPath: () => [root] })),
    enter: () => press("Enter"), escape: () => press("Escape"),
  };
  const heard = Object.entries(after).map(([name, act]) => {
    write();
    used.length = 0;
    assert.deepEqual([press("2"), used.length], [false, 0], name);
    act();
    return [name, press("2"), used.join()];
  });
  assert.deepEqual(heard, [["nothing", false, ""], ["a_click", true, "2"], ["enter", true, "2"], ["escape", true, "2"]]);
  write();
  isThere = true;
  press("Enter", {}, field); // entered, which may put the field away
  isThere = false;
  assert.equal(press("2"), true);
});

test("a dialog of the page keeps its keys; our list of keys is none: Esc and ? close it", () => {
  point();
  const isDialog = (isHelp) => Object.assign(document.createElement("div"), { matches: (selector) => selector.includes("[role=dialog]") && !(isHelp && selector.includes("[role=dialog]:not(.help)")) });
  assert.deepEqual([press("Escape", {}, isDialog(false)), press("Escape", {}, isDialog(true))], [false, true]);
  const help = Object.assign(document.createElement("div"), { matches: (selector) => selector === ".help" });
  assert.deepEqual([press("ArrowDown", {}, help), press("?", {}, help)], [false, true], "arrows scroll it");
});

test("keys have names: letters in small, space, undo and redo; with Alt they are none", () => {
  point();
  for (const [key, more] of [["A", {}], [" ", {}], ["ArrowLeft", {}], ["z", { ctrlKey: true }], ["Z", { metaKey: true, shiftKey: true }], ["y", { ctrlKey: true }], ["c", { ctrlKey: true }], ["a", { altKey: true }]]) press(key, more);
  assert.deepEqual(used, ["a", "space", "ArrowLeft", "undo", "redo", "redo"]);
});

test("Enter and Space press the button that Tab reached; of one that was clicked they know nothing", () => {
  point();
  const button = document.createElement("button");
  button.matches = (selector) => selector.startsWith("button");
  assert.deepEqual([press("Enter", {}, button), press(" ", {}, button)], [true, true], "it was clicked, or nothing was");
  press("Tab", {}, button);
  assert.deepEqual([press("Enter", {}, button), press(" ", {}, button), press("1", {}, button)], [false, false, true]);
  window.dispatchEvent(Object.assign(new Event("pointerdown"), { composedPath: () => [root] }));
  assert.equal(press("Enter", {}, button), true, "the pointer leads again");
});

test("arrows move the divider that Tab reached; on a chip Space marks as Enter does", () => {
  point();
  press("Tab");
  const only = (name) => Object.assign(document.createElement("div"), { matches: (selector) => selector.includes(name) && !selector.includes("not(") });
  assert.equal(press("ArrowLeft", {}, only("[role=separator]")), false);
  used.length = 0;
  press(" ", {}, only("[data-view-keys]"));
  assert.deepEqual(used, ["Enter"]);
});

test("a view that is gone hears nothing", () => {
  point();
  stop();
  assert.equal(press("1"), false);
});

test("the help names every key that the view uses", () => {
  const named = TEXTS.help.flatMap(([, entries]) => entries.map(([keys]) => keys)).join(" ").toUpperCase();
  const sources = ["damage_view.js", "queue_pane.js"].map((name) => readFileSync(new URL(name, SOURCES), "utf8")).join("");
  const keys = new Set([...sources.matchAll(/(?:case|name ===) "(\w|space|Escape|Backspace|Enter|\?)"/g)].map(([, key]) => key).concat([..."asdf123456789"]));
  assert.ok(keys.size > 20);
  const missing = [...keys].filter((key) => !named.split(/[\s,;]+/).includes({ Escape: "ESC" }[key] ?? key.toUpperCase()));
  assert.deepEqual(missing, []);
});
