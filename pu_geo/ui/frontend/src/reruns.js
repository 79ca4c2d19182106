// When to ask for a run of the page: never two at a time, and with pauses that grow with the time a run takes, so that a
// server with many analysts has time left for their clicks.

const SHORTEST_PAUSE_MS = 250;
const PAUSE_PER_RUN = 3; // times as long as the last run took
const SLOW_SERVER_MS = 300;
const LOST_MS = [10_000, 20_000, 60_000]; // what is asked while nothing is connected may get lost without a word

export class Reruns {
  /** @param ask () makes the page run, and calls `asked` */
  constructor(ask) {
    Object.assign(this, { ask, isWanted: false, isUrgent: false, isUnderWay: false, askedAt: 0, cameAt: 0, took: 0, lost: 0, timer: null });
  }

  /** Something is new that only a run shows. An urgent one waits for no pause. */
  want(isUrgent = false) {
    this.isWanted = true;
    this.isUrgent ||= isUrgent;
    this.#schedule();
  }

  /** The page was asked to run, for whatever reason. */
  asked() {
    this.isWanted = this.isUrgent = false;
    this.isUnderWay = true;
    this.askedAt = Date.now();
    clearTimeout(this.timer);
    const patience = Math.max(LOST_MS[Math.min(this.lost, LOST_MS.length - 1)], 4 * this.took);
    this.timer = setTimeout(() => {
      this.lost += 1;
      this.ask();
    }, patience);
  }

  /** The page's data are here. */
  came() {
    if (!this.isUnderWay) return;
    this.isUnderWay = false;
    this.lost = 0;
    this.cameAt = Date.now();
    this.took = this.cameAt - this.askedAt;
    clearTimeout(this.timer);
    if (this.isWanted) this.#schedule();
  }

  /** Nobody is there to ask any more. */
  stop() {
    clearTimeout(this.timer);
    this.isWanted = this.isUrgent = this.isUnderWay = false;
  }

  /** How much longer to wait before a run that is under way may be disturbed. */
  get patience() {
    return this.isUnderWay ? this.askedAt + Math.max(SLOW_SERVER_MS, 2 * this.took) - Date.now() : 0;
  }

  #schedule() {
    if (this.isUnderWay) return; // once it came
    clearTimeout(this.timer);
    const pause = this.isUrgent ? 0 : this.cameAt + Math.max(SHORTEST_PAUSE_MS, PAUSE_PER_RUN * this.took) - Date.now();
    if (pause <= 0) this.ask();
    else this.timer = setTimeout(this.ask, pause);
  }
}
