// Runs before a page of the app: counts in `window.__runs` what was asked of Streamlit's server (`asked`) and which runs of its script
// have ended since the last of it was sent (`ended`). Tests wait for a run by it; the page's own state may change unseen on a busy machine.

(() => {
  const SCRIPT_FINISHED = 6; // field of a ForwardMsg
  const EARLY_FOR_RERUN = 2;
  const runs = (window.__runs = { asked: 0, ended: 0 });
  const [VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES] = [0, 1, 2, 5];

  /** What a message says of how a run ended; null if it is about something else. */
  function ending(bytes) {
    let at = 0;
    const varint = () => {
      let [found, factor] = [0, 1];
      for (; ; factor *= 128) {
        const byte = bytes[at++];
        found += (byte & 127) * factor;
        if (byte < 128) return found;
      }
    };
    while (at < bytes.length) {
      const tag = varint();
      const kind = tag % 8;
      if (kind === VARINT) {
        const value = varint();
        if (Math.floor(tag / 8) === SCRIPT_FINISHED) return value;
      } else if (kind === LENGTH) {
        const length = varint();
        at += length;
      }
      else if (kind === EIGHT_BYTES) at += 8;
      else if (kind === FOUR_BYTES) at += 4;
      else return null;
    }
    return null;
  }

  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        const how = data instanceof ArrayBuffer ? ending(new Uint8Array(data)) : null;
        if (how !== null && how !== EARLY_FOR_RERUN) runs.ended += 1;
      });
    }
    send(data) {
      runs.asked += 1;
      runs.ended = 0;
      super.send(data);
    }
  };
})();
