// Logs in localStorage, one key for each page load: {at: milliseconds, ops: [...]}, see `packing.js`.

import { pack, unpack } from "./packing.js";

const KEPT_MS = 7 * 24 * 3600 * 1000;
const PREFIX = "pugeo:log:";

/** How the keys of a project's logs start. */
export function familyOf(token) {
  return `${PREFIX}${token}:`;
}

/** Write a log; an empty one is removed. */
export function keep(key, ops) {
  try {
    if (ops.length) localStorage.setItem(key, JSON.stringify({ at: Date.now(), ops: pack(ops) }));
    else localStorage.removeItem(key);
  } catch {
    // storage full or blocked: the log in memory still works, only a reload would forget
  }
}

/** All logs in the storage, oldest first; those that are too old or not readable are removed. */
export function leftovers() {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const found = keys.flatMap((key) => {
      const entry = read(key);
      if (entry && entry.at > Date.now() - KEPT_MS) return [{ key, at: entry.at }];
      localStorage.removeItem(key);
      return [];
    });
    return found.sort((a, b) => a.at - b.at);
  } catch {
    return []; // blocked storage
  }
}

export function read(key) {
  try {
    const entry = JSON.parse(localStorage.getItem(key));
    return Array.isArray(entry?.ops) && typeof entry.at === "number" ? { at: entry.at, ops: unpack(entry.ops) } : null;
  } catch {
    return null;
  }
}
