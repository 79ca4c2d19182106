// How scatter, map, queue and wall share the room: which of them are shown, and how wide.

import { draggable, h, segmented } from "./dom.js";

const [NARROWEST, WIDEST] = [0.25, 0.85];

export class Panes {
  /**
   * @param parts {scatter, map, queuePane, wall}: all have a `root`
   * @param over elements that lie over them
   * @param actions {tab(name), resized()}
   */
  constructor(parts, over, actions) {
    Object.assign(this, parts);
    this.splitter = h("div.splitter", { title: "Drag to share the width" });
    this.firstSplitter = h("div.splitter", { title: "Drag to share the width", hidden: true });
    this.tabs = segmented("Chips", [["queue", "Queue", "What to look at next (W)"], ["wall", "All chips", "The chip wall (W)"]], actions.tab);
    this.side = h("aside.side", {}, h("div.tabs", {}, this.tabs), this.queuePane.root, this.wall.root);
    this.root = h("div.panes", {}, this.scatter.root, this.firstSplitter, this.map.root, this.splitter, this.side, ...over);
    this.first = 0.38;
    draggable(this.splitter, this.root, (share) => this.split({ share: (share - this.left) / (1 - this.left) }), actions.resized);
    draggable(this.firstSplitter, this.root, (first) => this.split({ first }), actions.resized);
  }

  /** Share of the width that the scatter takes. */
  get left() {
    return this.scatter.root.hidden ? 0 : this.first;
  }

  split({ share = this.share, first = this.first }) {
    this.share = Math.max(NARROWEST, Math.min(WIDEST, share));
    this.first = Math.max(0.2, Math.min(0.7, first));
    this.root.style.setProperty("--share", this.share);
    this.root.style.setProperty("--first", this.left);
  }

  show({ hasScatter, hasMap, hasQueue, hasWall, queueShown }) {
    this.scatter.root.hidden = this.firstSplitter.hidden = !hasScatter;
    this.map.root.hidden = !hasMap;
    this.queuePane.root.hidden = !queueShown;
    this.wall.root.hidden = !hasWall || queueShown;
    this.side.hidden = this.queuePane.root.hidden && this.wall.root.hidden;
    this.tabs.parentElement.hidden = !hasQueue || !hasWall;
    this.tabs.choose(queueShown ? "queue" : "wall");
    this.splitter.hidden = this.map.root.hidden || this.side.hidden;
    this.split({});
  }
}
