// Two helpers for building HTML without a framework.

/** h("button.primary", {title: "…", onclick: f}, "text", child) */
export function h(spec, attributes = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

const ICONS = {
  eye: '<path d="M2 10s3-5.5 8-5.5S18 10 18 10s-3 5.5-8 5.5S2 10 2 10z"/><circle cx="10" cy="10" r="2.5"/>',
  fit: '<path d="M3 7V3h4M13 3h4v4M17 13v4h-4M7 17H3v-4"/>',
  plus: '<path d="M10 4v12M4 10h12"/>',
  minus: '<path d="M4 10h12"/>',
  undo: '<path d="M7 4 3 8l4 4"/><path d="M3 8h8a5 5 0 0 1 0 10H8"/>',
  redo: '<path d="m13 4 4 4-4 4"/><path d="M17 8H9a5 5 0 0 0 0 10h3"/>',
  target: '<circle cx="10" cy="10" r="5"/><path d="M10 2v4M10 14v4M2 10h4M14 10h4"/>',
  card: '<rect x="3" y="3.5" width="14" height="13" rx="2"/><path d="M6 8h8M6 12h5"/>',
  help: '<circle cx="10" cy="10" r="7.5"/><path d="M7.8 7.8a2.3 2.3 0 1 1 3.2 2.1c-.7.3-1 .8-1 1.6M10 14.2v.1"/>',
  alike: '<rect x="3" y="3" width="6" height="6" rx="1"/><rect x="11" y="11" width="6" height="6" rx="1"/><path d="M12.5 6h2.5v2.5M5 12.5V15h2.5"/>',
  shift: '<path d="M3 16 13 6M7 6h6v6"/><circle cx="16.2" cy="3.6" r="1"/>',
  lasso: '<path d="M10 3.5c4.4 0 7.5 2 7.5 4.8s-3.100 4.700-7.500 4.700c-1.300 0-2.500-.2-3.500-.5M6.500 12.500C4 11.700 2.500 10.200 2.500 8.300c0-2.800 3.100-4.800 7.500-4.800"/><path d="M6.500 12.500a1.700 1.700 0 1 0-1.200 1.600c.8.9.6 2.200-.6 2.900"/>',
  arrows: '<path d="m7 6-4 4 4 4M13 6l4 4-4 4"/>',
};

export function icon(name) {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${ICONS[name]}</svg>`;
  return h("span.icon", {}, new DOMParser().parseFromString(svg, "image/svg+xml").documentElement);
}

/** Return (): `draw` runs in the next frame, once however often it was asked for. */
export function onceAFrame(draw) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      draw();
    });
  };
}

/** Change what `root` holds. Where the focus was in it and is gone then, the view gets it: keys and Tab go on from there. */
export function keepingFocus(root, change) {
  const focused = root.getRootNode().activeElement;
  const had = Boolean(focused) && root.contains(focused);
  change();
  if (had && (root.hidden || !root.contains(focused))) root.closest(".pugeo")?.focus({ preventScroll: true });
}

/** Let a select offer [value, text] each; an open one is left alone where they are the same. */
export function offer(select, choices) {
  const offered = JSON.stringify(choices);
  if (select.dataset.offered === offered) return;
  select.dataset.offered = offered;
  select.replaceChildren(...choices.map(([value, text]) => h("option", { value }, text)));
}

/** A row of buttons of which one is on. `choices`: [[value, text, title], …] */
export function segmented(label, choices, chosen) {
  const buttons = new Map();
  const root = h("div.segmented", { role: "group", "aria-label": label });
  for (const [value, text, title] of choices) {
    const button = h("button", { type: "button", title, "data-value": value, onclick: () => chosen(value) }, text);
    buttons.set(value, button);
    root.append(button);
  }
  root.choose = (value) => {
    for (const [each, button] of buttons) {
      button.classList.toggle("on", each === value);
      button.setAttribute("aria-pressed", String(each === value));
    }
  };
  return root;
}

/** Drag `handle` over the width of `box`: `moved` hears where it is, 0 at the left and 1 at the right. */
export function draggable(handle, box, moved, done = () => {}) {
  handle.addEventListener("pointerdown", (down) => {
    down.preventDefault();
    handle.setPointerCapture(down.pointerId);
    const { left, width } = box.getBoundingClientRect();
    const move = (event) => moved((event.clientX - left) / width);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => {
      handle.removeEventListener("pointermove", move);
      done();
    }, { once: true });
  });
}

/** @param where "sessionStorage" (this tab) or "localStorage" (this browser) */
export function remembered(key, fallback, where = "sessionStorage") {
  try {
    return JSON.parse(globalThis[where].getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function remember(key, value, where = "sessionStorage") {
  try {
    globalThis[where].setItem(key, JSON.stringify(value));
  } catch {
    // blocked storage: the view starts afresh after a reload, nothing else is lost
  }
}

/** Whether a part of `box` ({left, top, width, height} in pixels of the window) shows `element` and nothing that lies over it. */
export function isShown(box, element) {
  const page = element.getRootNode();
  return [[0.5, 0.5], [0.2, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.8]].some(([x, y]) => {
    const found = page.elementFromPoint(box.left + x * box.width, box.top + y * box.height);
    return found !== null && element.contains(found);
  });
}

/** Whether a click only selects, so that keys are about what was clicked, and answers nothing. */
export const isSelecting = ({ ctrlKey, metaKey }) => ctrlKey || metaKey;

const DOUBLE_CLICK_MS = 300;

/** Return (event, act), which acts on the first press of a double click alone: the second one comes before anybody saw what is there then. */
export function onceADoubleClick() {
  let pressedAt = -Infinity;
  return ({ detail, timeStamp }, act) => {
    if (detail > 1 && timeStamp - pressedAt < DOUBLE_CLICK_MS) return;
    pressedAt = timeStamp;
    act();
  };
}
