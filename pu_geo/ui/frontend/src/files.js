// Files of the server by address, each asked for once; they outlive a change of page.

export class Files {
  /** @param kept so many; the oldest goes first */
  constructor(kept) {
    this.kept = kept;
    this.answers = new Map();
  }

  async get(url, read) {
    if (!this.answers.has(url)) {
      const answer = fetch(url).then((response) => {
        if (!response.ok) throw new Error(`${response.status} for ${new URL(url, location.href).pathname}`);
        return read(response);
      });
      this.answers.set(url, answer);
      if (this.answers.size > this.kept) this.answers.delete(this.answers.keys().next().value);
      answer.catch(() => this.answers.delete(url));
    }
    return this.answers.get(url);
  }
}

/** The part of an address that names the footprints in whose order the answer is; the server refuses once they are others. */
export const inOrderOf = (geometry_v) => `g=${encodeURIComponent(geometry_v)}`;

export const asBytes = (response) => response.arrayBuffer();
export const asFloats = async (response) => new Float32Array(await response.arrayBuffer());
