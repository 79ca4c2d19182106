// Alt + drag: a line drawn by hand around buildings.

import PointerInteraction from "ol/interaction/Pointer.js";
import { altKeyOnly, mouseActionButton } from "ol/events/condition.js";

const SVG = "http://www.w3.org/2000/svg";
const STEP_PX = 3;
const FEWEST_POINTS = 4; // fewer are a slip of the hand

export class Lasso extends PointerInteraction {
  /** @param done ([[x, y], ...] in map coordinates) */
  constructor(done) {
    super();
    this.done = done;
    this.line = document.createElementNS(SVG, "polygon");
    this.picture = document.createElementNS(SVG, "svg");
    this.picture.classList.add("lasso");
    this.picture.append(this.line);
  }

  handleDownEvent(event) {
    if (!altKeyOnly(event) || !mouseActionButton(event)) return false;
    this.points = [];
    this.pixels = [];
    event.map.getViewport().append(this.picture);
    this.#add(event);
    return true;
  }

  handleDragEvent(event) {
    const [x, y] = this.pixels.at(-1);
    if (Math.hypot(event.pixel[0] - x, event.pixel[1] - y) >= STEP_PX) this.#add(event);
  }

  handleUpEvent() {
    this.picture.remove();
    if (this.points.length >= FEWEST_POINTS) this.done(this.points);
    return false;
  }

  #add({ pixel, coordinate }) {
    this.points.push(coordinate);
    this.pixels.push(pixel);
    this.line.setAttribute("points", this.pixels.map((each) => each.join(",")).join(" "));
  }
}
