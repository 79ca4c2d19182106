// The view reaches down to the lower edge of the window, wherever the page puts it.

const [LEAST_PX, BELOW_PX] = [420, 10];
const watched = new Map(); // root -> what stops watching it

export function fillWindow(root) {
  const fit = () => {
    const box = root.getBoundingClientRect();
    if (!box.width) return; // in a tab that is not shown
    const top = box.top + scrolledBy(root);
    root.style.height = `${heightFor(window.innerHeight, top)}px`;
  };
  fit();
  if (watched.has(root)) return;
  // What stands above may grow or go without a run of the view: its column is watched, too.
  const watcher = new ResizeObserver(fit);
  for (let each = host(root); each && each !== document.body; each = each.parentElement) watcher.observe(each);
  window.addEventListener("resize", fit);
  watched.set(root, () => {
    watcher.disconnect();
    window.removeEventListener("resize", fit);
  });
}

export function stopFilling(root) {
  watched.get(root)?.();
  watched.delete(root);
}

/** How high the view is where its upper edge is `top` pixels below that of the window. */
export function heightFor(windowHeight, top) {
  return Math.max(LEAST_PX, Math.floor(windowHeight - top - BELOW_PX));
}

const host = (root) => root.getRootNode().host ?? root.parentElement;

function scrolledBy(root) {
  let sum = 0;
  for (let each = host(root); each; each = each.parentElement) sum += each.scrollTop;
  return sum;
}
