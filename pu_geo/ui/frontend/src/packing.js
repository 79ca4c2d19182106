// Operations of one act, such as the buildings of a lasso, differ by their number and building alone. On their way to the server and in
// the browser's storage they are one entry, which takes a tenth of the room: 33,000 of them fit in one message, and are kept at all.
//
// An entry {n, op, building_ids, ...} stands for an operation on each building. Their numbers are n, n + 1, ..., and so the number at the
// end of their ids: "s-7", "s-8", ... from "s-7" on. Other operations are entries as they are.

/** @returns entries that stand for these operations, in their order */
export function pack(ops) {
  const entries = [];
  let last = null;
  for (const op of ops) {
    if (last?.act && follows(op, last)) join(entries, op);
    else entries.push(op);
    last = op;
  }
  return entries;
}

/** @returns the operations that these entries stand for */
export function unpack(entries) {
  return entries.flatMap((entry) => {
    if (!Array.isArray(entry.building_ids)) return [entry];
    const { n, op, building_ids: ids, ...shared } = entry;
    return ids.map((building_id, k) => ({ n: n + k, op: later(op, k), building_id, ...shared }));
  });
}

function join(entries, op) {
  const entry = entries.at(-1);
  if (entry.building_ids) entry.building_ids.push(op.building_id);
  else {
    const { building_id: first, ...shared } = entry;
    entries[entries.length - 1] = { ...shared, building_ids: [first, op.building_id] };
  }
}

/** The id that is `k` after another one. */
function later(id, k) {
  const at = id.lastIndexOf("-") + 1;
  return id.slice(0, at) + (Number(id.slice(at)) + k);
}

/** Whether an operation is the next one of the same act, and says the same of another building. */
function follows(op, last) {
  if (op.act !== last.act || op.n !== last.n + 1 || op.op !== later(last.op, 1)) return false;
  const names = Object.keys(op);
  return names.length === Object.keys(last).length && names.every((name) => isOwn(name) || isSame(op[name], last[name]));
}

function isOwn(name) {
  return name === "n" || name === "op" || name === "building_id";
}

function isSame(one, other) {
  return one === other || (Array.isArray(one) && Array.isArray(other) && one.length === other.length && one.every((part, k) => part === other[k]));
}
