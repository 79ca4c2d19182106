// How scatter, map, queue and wall share the room: which of them are shown, and how wide. Kept in this browser.

import { draggable, h, remember, remembered, segmented } from "./dom.js";
import { TEXTS } from "./texts.js";

const { panels: words } = TEXTS;
const SIDE = { low: 0.25, high: 0.85 }; // the map's share of what the scatter leaves
const FIRST = { low: 0.2, high: 0.7 };
const HALF = 0.5;
const STEP = 0.04;
const TIGHT_PX = 900; // beside a scatter, a narrower view shows either map or chips
const KEPT = "pugeo:layout";

export class Panes {
  /**
   * @param parts {scatter, map, queuePane, wall}: all have a `root`
   * @param over elements that lie over them
   * @param actions {tab(name), resized()}
   */
  constructor(parts, over, actions) {
    Object.assign(this, parts, { resized: actions.resized });
    const kept = remembered(KEPT, {}, "localStorage");
    Object.assign(this, { share: kept.share ?? 0.6, first: kept.first ?? 0.44, isFolded: kept.isFolded ?? false });
    this.splitter = h("div.splitter", { role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": words.divide, title: words.divide, ondblclick: () => this.fold() });
    this.firstSplitter = h("div.splitter", { role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": words.divideScatter, title: words.divideScatter, hidden: true });
    this.tabs = segmented(words.chips, [words.queue, words.wall], actions.tab);
    this.hide = h("button.flat", { type: "button", title: words.hide, "aria-label": words.hide, onclick: () => this.fold() }, "»");
    this.unfold = h("button.unfold", { type: "button", hidden: true, title: words.show, "aria-label": words.show, onclick: () => this.fold() }, "«");
    this.tabLine = h("div.tabs", {}, this.tabs, h("div.push"), this.hide);
    this.side = h("aside.side", {}, this.tabLine, this.queuePane.root, this.wall.root);
    this.root = h("div.panes", {}, this.scatter.root, this.firstSplitter, this.map.root, this.splitter, this.side, this.unfold, ...over);
    draggable(this.splitter, this.root, (share) => this.split({ share: (share - this.left) / (1 - this.left) }), () => this.#keep());
    draggable(this.firstSplitter, this.root, (first) => this.split({ first }), () => this.#keep());
    new ResizeObserver(() => this.shown && this.isTight !== this.#isNarrow && (this.show(this.shown), this.resized())).observe(this.root);
    this.splitter.addEventListener("keydown", (event) => this.#key(event, "share", SIDE));
    this.firstSplitter.addEventListener("keydown", (event) => this.#key(event, "first", FIRST));
  }

  /** Share of the width that the scatter takes. */
  get left() {
    if (this.scatter.root.hidden) return 0;
    const isAlone = this.isTight || (this.shown && !this.shown.hasWall && !this.shown.hasQueue); // with the map: no chips, so there is more room
    return isAlone ? Math.max(this.first, HALF) : this.first;
  }

  split({ share = this.share, first = this.first }) {
    this.share = Math.max(SIDE.low, Math.min(SIDE.high, share));
    this.first = Math.max(FIRST.low, Math.min(FIRST.high, first));
    this.root.style.setProperty("--share", this.share);
    this.root.style.setProperty("--first", this.left);
    for (const [splitter, value, { low, high }] of [[this.splitter, this.share, SIDE], [this.firstSplitter, this.first, FIRST]]) {
      splitter.setAttribute("aria-valuenow", String(Math.round(100 * value)));
      splitter.setAttribute("aria-valuemin", String(100 * low));
      splitter.setAttribute("aria-valuemax", String(100 * high));
    }
  }

  get #isNarrow() {
    return Boolean(this.shown?.hasScatter) && this.root.clientWidth < TIGHT_PX;
  }

  /** Hide the side panel beside the map, or show it again; where there is no room for both, the map is shown in its place. */
  fold(isFolded = !this.isFolded) {
    if (!this.shown?.hasMap || this.shown?.isFixed || isFolded === this.isFolded) return;
    this.isFolded = isFolded;
    const focused = this.root.getRootNode().activeElement;
    const losesFocus = focused === this.unfold || focused === this.splitter || this.side.contains(focused);
    this.#keep();
    this.show(this.shown);
    this.resized();
    if (losesFocus) (isFolded ? this.unfold : this.hide).focus();
  }

  #key(event, name, { low, high }) {
    const to = { ArrowLeft: this[name] - STEP, ArrowRight: this[name] + STEP, Home: low, End: high }[event.key];
    if (to !== undefined) {
      this.split({ [name]: to });
      this.#keep();
    } else if (event.key === "Enter" && name === "share") this.fold();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #keep() {
    const { share, first, isFolded } = this;
    remember(KEPT, { share, first, isFolded }, "localStorage");
  }

  show(shown) {
    this.shown = shown;
    const { hasScatter, hasMap, hasQueue, hasWall, queueShown, isFixed } = shown;
    this.scatter.root.hidden = this.firstSplitter.hidden = !hasScatter;
    this.isTight = this.#isNarrow;
    const isFolded = this.isFolded && hasMap && (hasQueue || hasWall) && !isFixed;
    this.map.root.hidden = !hasMap || (this.isTight && !isFolded && (hasQueue || hasWall));
    this.unfold.hidden = !isFolded;
    this.queuePane.root.hidden = isFolded || !queueShown;
    this.wall.root.hidden = isFolded || !hasWall || queueShown;
    this.side.hidden = this.queuePane.root.hidden && this.wall.root.hidden;
    this.tabs.hidden = !hasQueue || !hasWall;
    this.hide.hidden = !hasMap || Boolean(isFixed);
    this.hide.textContent = this.isTight ? words.map : "»";
    this.hide.title = this.hide.ariaLabel = this.isTight ? words.map : words.hide;
    this.unfold.textContent = this.isTight ? words.chipsAgain : "«";
    this.unfold.classList.toggle("worded", this.isTight);
    this.tabs.choose(queueShown ? "queue" : "wall");
    this.splitter.hidden = this.map.root.hidden || this.side.hidden;
    this.split({});
  }
}
