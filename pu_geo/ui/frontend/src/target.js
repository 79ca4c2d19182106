// Which building the keys act on. Decided in one place, so that there is never more than one; the view outlines and names it.

/**
 * @param chosen how many buildings are selected together, which keys then label
 * @param queued number of the queue's large picture; null while no queue is open
 * @param pointer {on, i}: the surface under the pointer ("map", "wall", "scatter", or null) and the building there, -1 if none
 * @param selected number of the selected building, -1 if none
 * @param cross number of the building under the cross of a map that has the focus by keyboard, -1 if none; null without a cross
 * @param isInView (i, on) => whether building i is in view on a surface ("queue" too), on any of them if `on` is null
 * @returns {i, on}, or null where keys would act on a building out of view
 */
export function keyTarget({ chosen = 0, cross = null, queued, pointer, selected, isInView }) {
  if (chosen) return { i: -1, on: "selection" };
  if (cross !== null) return cross >= 0 ? { i: cross, on: "map" } : null;
  if (queued !== null) return isInView(queued, "queue") ? { i: queued, on: "queue" } : null;
  if (pointer.i >= 0) return { i: pointer.i, on: pointer.on };
  return selected >= 0 && isInView(selected, pointer.on) ? { i: selected, on: pointer.on } : null;
}

/** Whether a part of `box` ({left, top, width, height} in pixels of the window) shows `element` and nothing that lies over it. */
export function isShown(box, element) {
  const page = element.getRootNode();
  return [[0.5, 0.5], [0.2, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.8]].some(([x, y]) => {
    const found = page.elementFromPoint(box.left + x * box.width, box.top + y * box.height);
    return found !== null && element.contains(found);
  });
}
