// A line that is being drawn by hand over scatter or map, in their pixels.

const SVG = "http://www.w3.org/2000/svg";
const STEP_PX = 3;

export class HandLine {
  constructor() {
    this.shape = document.createElementNS(SVG, "polygon");
    this.root = document.createElementNS(SVG, "svg");
    this.root.classList.add("lasso");
    this.root.append(this.shape);
    this.points = [];
    this.end();
  }

  start(point) {
    this.points = [point];
    this.root.style.display = "";
    this.#show();
  }

  add([x, y]) {
    const [lastX, lastY] = this.points.at(-1);
    if (Math.hypot(x - lastX, y - lastY) < STEP_PX) return;
    this.points.push([x, y]);
    this.#show();
  }

  /** Hide the line; its points stay until the next one. */
  end() {
    this.root.style.display = "none";
  }

  #show() {
    this.shape.setAttribute("points", this.points.map((each) => each.join(",")).join(" "));
  }
}
