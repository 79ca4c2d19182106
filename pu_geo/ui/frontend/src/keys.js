// Shortcuts. They work while the pointer is over the damage view or it has the focus, and while a queue is open and nothing
// else has the focus; Streamlit never sees a key we use.

import { NOT_ASSESSABLE, NOT_DAMAGED, POSITIVE, UNLABELED } from "./colors.js";

// What keys are about is the building that was clicked or reached last, see damage_view.js.
export const MARK_KEYS = { 1: POSITIVE, 2: NOT_DAMAGED, 3: NOT_ASSESSABLE }; // on the map and the wall
export const QUEUE_KEYS = { ...MARK_KEYS, Enter: POSITIVE };
export const CLEAR_KEYS = ["0", "Backspace"];
export const LABEL_KEYS = { ...MARK_KEYS, 0: UNLABELED, Backspace: UNLABELED }; // of a selection on Explore
export const GRADE_KEYS = ["4", "5", "6", "7", "8", "9"]; // one a grade of the scale, in its order
export const VIEW_KEYS = { a: "pre", s: "swipe", d: "post", f: "side" };
export const SITE_KEYS = { "[": -1, "]": 1 };
const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=dialog]:not(.help)"; // the list of keys takes no text: Esc and ? close it
const WRITTEN = "input:not([type=range], [type=checkbox], [type=radio], [type=button]), textarea, [contenteditable=true]";
const LEFT = "a, button:not([role], [aria-expanded=true])"; // that led here, or opened what is closed again: neither has a use for arrows and digits
const PRESSED = "button:not([data-view-keys]), summary, a";
const MOVED = "input[type=range], [role=separator], [role=slider]";
const MOVING_KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "Enter"]);

/**
 * While `root.dataset.tabbed` is set, the focus is where Tab or `focusByKey` put it: then Enter and Space press the focused button, and arrows
 * move the focused slider or splitter. A button that was clicked lies under the pointer, not under the hands: keys go past it.
 * @param handle (name, event) => true if the key was used
 * @param isWanted () => whether keys that nobody else has the focus for are ours too
 */
export function listenForKeys(root, handle, isWanted) {
  let over = false;
  let focused = false;
  let field = null; // in which the analyst writes
  const enter = () => (over = true);
  const leave = () => (over = false);
  const into = ([element]) => isElement(element) && element.matches(WRITTEN) && (field = element);
  const focus = (event) => into(event.composedPath());
  const down = (event) => {
    field = null;
    focused = event.composedPath().includes(root);
    delete root.dataset.tabbed;
  };
  const key = (event) => {
    if (event.key === "Tab") root.dataset.tabbed = "yes";
    const path = event.composedPath();
    into(path);
    // A field that went away under the hands: what they still write is no answer.
    const isLost = field && isGone(field);
    if (ENDS_WRITING.has(event.key)) field = null;
    if (isLost) return;
    const isLeft = document.activeElement?.matches(LEFT) && event.key !== "Enter" && event.key !== " " && !document.querySelector("[role=dialog]"); // no popover is open
    const isFree = document.activeElement === document.body || isLeft;
    const unclaimed = isFree && isWanted();
    if (!over && !focused && !unclaimed && !path.includes(root)) return;
    if (path.some((each) => each instanceof Element && each.matches(TYPING))) return;
    const name = nameOf(event);
    if (!name || isForSlider(path[0], name) || (root.dataset.tabbed && isForFocused(path[0], name))) return;
    const meant = name === "space" && root.dataset.tabbed && isElement(path[0]) && path[0].matches("[data-view-keys]") ? "Enter" : name;
    if (handle(meant, event)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  };
  root.addEventListener("pointerenter", enter);
  root.addEventListener("pointerleave", leave);
  window.addEventListener("focusin", focus, true);
  window.addEventListener("pointerdown", down, true);
  window.addEventListener("keydown", key, true);
  return () => {
    window.removeEventListener("focusin", focus, true);
    window.removeEventListener("pointerdown", down, true);
    window.removeEventListener("keydown", key, true);
  };
}

/** Move the focus as Tab does: Enter and Space press the element then. */
export function focusByKey(element) {
  element.focus();
  const view = element.closest(".pugeo");
  if (view) view.dataset.tabbed = "yes";
}

const isElement = (each) => each instanceof Element;
const ENDS_WRITING = new Set(["Enter", "Escape", "Tab"]);
const isGone = (field) => field.disabled || !field.getClientRects().length;

// A slider of our own keeps its arrows after a drag, too: the hand that dragged it sets it exactly by them. The list of keys scrolls.
const isForSlider = (element, name) => isElement(element) && MOVING_KEYS.has(name) && name !== "Enter" && (element.matches("[role=slider]") || element.matches(".help"));

function isForFocused(element, name) {
  if (!isElement(element)) return false;
  if ((name === "Enter" || name === "space") && element.matches(PRESSED)) return true;
  return MOVING_KEYS.has(name) && element.matches(MOVED);
}

function nameOf(event) {
  if (event.key in SITE_KEYS && !event.metaKey) return event.key; // on many keyboards AltGr writes them
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() === "z") return event.shiftKey ? "redo" : "undo";
    return event.key.toLowerCase() === "y" ? "redo" : null;
  }
  if (event.key === " ") return "space";
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}
