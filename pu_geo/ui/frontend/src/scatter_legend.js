// What the colors of the scatter mean. Pointing at a category lights its dots up; a click selects them.

import { RAMP_CSS } from "./colors.js";
import { CIVIDIS_CSS } from "./dot_colors.js";
import { h } from "./dom.js";

export class ScatterLegend {
  /** @param lit (code or null) @param chosen (code) */
  constructor(lit, chosen) {
    Object.assign(this, { lit, chosen });
    this.root = h("div.dotlegend", { hidden: true });
  }

  /** @param colors see `colorDots` */
  show(color, { codes, entries, isRamp }) {
    this.root.hidden = false;
    const title = h("b", {}, color.title);
    if (isRamp) {
      const css = color.kind === "scores" ? RAMP_CSS : CIVIDIS_CSS;
      const [low, high] = color.ends;
      this.root.replaceChildren(h("div.rampbox", {}, title, h("div.ramp", { style: `background:${css}` }), h("div.rampends", {}, h("span", {}, low), h("span", {}, high))));
      return;
    }
    const counts = new Map();
    for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
    const entry = ({ code, text, color: dot }) => h("button.entry", {
      type: "button", title: `${text}: click to select`, onclick: () => this.chosen(code),
      onpointerenter: () => this.lit(code), onpointerleave: () => this.lit(null), onfocus: () => this.lit(code), onblur: () => this.lit(null),
    }, h("i.dot", { style: `background:${dot}` }), h("span.text", {}, text), h("span.num.soft", {}, counts.get(code).toLocaleString("en")));
    const held = this.root.querySelector(":hover, :focus");
    if (held && this.shown === color.by && this.#refresh(entries, counts)) return; // a button under the pointer stays
    this.shown = color.by;
    this.root.replaceChildren(title, ...entries.filter(({ code }) => counts.get(code)).map(entry));
  }

  #refresh(entries, counts) {
    const there = entries.filter(({ code }) => counts.get(code));
    const rows = [...this.root.querySelectorAll(".entry")];
    if (rows.length !== there.length || rows.some((row, at) => row.querySelector(".text").textContent !== there[at].text)) return false;
    rows.forEach((row, at) => (row.querySelector(".num").textContent = counts.get(there[at].code).toLocaleString("en")));
    return true;
  }
}
