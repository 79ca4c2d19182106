// Shortcuts. They work while the pointer is over the damage view or it has the focus, and while a queue is open and nothing
// else has the focus; Streamlit never sees a key we use.

// What a key means hangs on where the analyst is: with the queue open, keys answer its large picture. See target.js.
export const HELP = [
  ["On map and chips", [
    ["Click", "positive; again: cleared"],
    ["Right click or 2", "not damaged"],
    ["1  2  3", "positive, not damaged, not assessable: the one with the yellow line, named after Keys"],
    ["4  5  6  7  8  9", "damaged, with a grade: the worst is 4; the same key again takes the grade away"],
    ["0 or Backspace", "cleared"],
    ["Shift + drag", "mark all in a box"],
    ["Alt + drag", "mark all inside a line drawn by hand"],
    ["Arrows, Enter", "walk the chips, mark positive"],
    ["K", "chips like this one first"],
    ["L", "show it on the map"],
  ]],
  ["In the queue", [
    ["1 or Enter", "positive, and on"],
    ["2", "not damaged, and on"],
    ["3", "not assessable, and on"],
    ["4 to 9", "damaged, with a grade, and on: always the large picture"],
    ["0 or Backspace", "cleared"],
    ["N", "skip; after the last one: the next queue"],
    ["Arrows", "walk the queue"],
    ["Q", "open the queue; ask for the next one"],
    ["W", "from the queue to all chips, and back"],
  ]],
  ["After 3: why not assessable", [
    ["C  O  X", "cloud, outside the image, no data"],
    ["M  B  U", "misaligned, no building, unclear"],
    ["Digits, N, arrows", "go on; it stays as marked, else unclear"],
  ]],
  ["On Explore", [
    ["Click", "select one; on a dot or a chip twice: show it on the map"],
    ["Shift + drag", "a line around dots, a box on map or chips: select"],
    ["Ctrl too", "add to what is selected"],
    ["Drag, wheel", "move and zoom the dots"],
    ["1  2  3  4 … 0", "label all that is selected, as one step"],
    ["Esc", "select nothing"],
  ]],
  ["Always", [
    ["Ctrl/⌘ Z", "undo; with Shift: redo"],
    ["A  S  D  F", "pre, swipe, post, side by side"],
    ["Space", "hide or show outlines"],
    ["V", "arrows: how far pre and post are apart"],
    ["P", "colour by labels or scores"],
    ["I", "card of the selected building"],
    ["Esc", "close what is open, let go of the selection"],
    ["?", "this list"],
  ]],
];
const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=dialog]";

/**
 * @param handle (name, event) => true if the key was used
 * @param isWanted () => whether keys that nobody else has the focus for are ours too
 */
export function listenForKeys(root, handle, isWanted) {
  let over = false;
  let focused = false;
  const enter = () => (over = true);
  const leave = () => (over = false);
  const down = (event) => (focused = event.composedPath().includes(root));
  const key = (event) => {
    const path = event.composedPath();
    const isFree = document.activeElement === document.body || (document.activeElement?.tagName === "A" && event.key !== "Enter"); // a link that led here
    const unclaimed = isFree && isWanted();
    if (!over && !focused && !unclaimed && !path.includes(root)) return;
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
