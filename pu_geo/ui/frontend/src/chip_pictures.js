// Cuts one chip out of its sprite sheet by CSS alone.

export class ChipPictures {
  /** @returns whether it is another set of chips than before */
  configure({ token, base, wall }) {
    const key = JSON.stringify([token, wall]);
    if (key === this.configured) return false;
    this.configured = key;
    this.wall = wall;
    this.urlOf = (sheet) => `${base}/${token}/sheets/${wall.chip_set}/${sheet}.jpg?v=${wall.v ?? ""}`;
    return true;
  }

  has(i) {
    return Boolean(this.wall) && i < this.wall.n;
  }

  get parts() {
    return this.wall.has_pre ? ["pre", "post"] : ["post"];
  }

  /** Height of one of the parts over its width. */
  get shape() {
    return this.wall.cell_h / this.parts.length / this.wall.cell_w;
  }

  /** `part`: "pre" or "post" for one half of a cell, otherwise the whole cell. */
  style(i, width, part = null) {
    const { per_sheet, columns, cell_w, cell_h, has_pre } = this.wall;
    const at = i % per_sheet;
    const scale = width / cell_w;
    const [x, y] = [(at % columns) * cell_w * scale, (Math.floor(at / columns) * cell_h + (part === "post" && has_pre ? cell_h / 2 : 0)) * scale];
    const size = part ? `width:${width}px;height:${width * this.shape}px;` : "";
    // "auto" height: the last sheet may be full or cut to its last row.
    return `${size}background-image:url("${this.urlOf(Math.floor(i / per_sheet))}");background-size:${columns * cell_w * scale}px auto;background-position:${-x}px ${-y}px`;
  }
}
