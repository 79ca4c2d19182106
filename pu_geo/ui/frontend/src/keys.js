// Shortcuts. They work while the pointer is over the damage view or it has the focus; Streamlit never sees a key we use.

export const HELP = [
  ["Click", "positive; again: cleared"],
  ["Right click or 2", "not damaged"],
  ["3", "not assessable (cloud, outside, misaligned)"],
  ["Shift + drag", "mark all in a box"],
  ["Ctrl/⌘ Z", "undo; with Shift: redo"],
  ["A  S  D", "pre, swipe, post"],
  ["Space", "hide or show outlines"],
  ["P", "colour by labels or scores"],
  ["Arrows, Enter", "walk the chips, mark positive"],
  ["L", "show the chip on the map"],
  ["Esc", "let go of the selection"],
  ["?", "this list"],
];
const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=dialog]";

/** @param handle (name, event) => true if the key was used */
export function listenForKeys(root, handle) {
  let over = false;
  let focused = false;
  const enter = () => (over = true);
  const leave = () => (over = false);
  const down = (event) => (focused = event.composedPath().includes(root));
  const key = (event) => {
    const path = event.composedPath();
    if (!over && !focused && !path.includes(root)) return;
    if (path.some((each) => each instanceof Element && each.matches(TYPING))) return;
    const name = nameOf(event);
    if (name && handle(name, event)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  };
  root.addEventListener("pointerenter", enter);
  root.addEventListener("pointerleave", leave);
  window.addEventListener("pointerdown", down, true);
  window.addEventListener("keydown", key, true);
  return () => {
    window.removeEventListener("pointerdown", down, true);
    window.removeEventListener("keydown", key, true);
  };
}

function nameOf(event) {
  if (event.altKey) return null;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() === "z") return event.shiftKey ? "redo" : "undo";
    return event.key.toLowerCase() === "y" ? "redo" : null;
  }
  if (event.key === " ") return "space";
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}
