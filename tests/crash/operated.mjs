// What clients know of a counter that is also set, reset and deleted, and which values it may have.
//
// Invariant: only what is certain counts as certain. One operation of all is the last that was carried out; what was
// written after its end is in the value, what was acknowledged before its beginning is not, and of what was under
// way with it each write may be or not. Where it is not known which operation was the last, every one that
// may be is tried, and the value must fit one of them.

// What an unreachable datacenter had counted in the second of an operation is kept in favour of its clients.
const SETTLING_MS = 2_000;

const FIRST = { base: 0n, begin: -Infinity, end: -Infinity, isDone: true };

/** The books of one counter. Amounts are bigints, times milliseconds of one clock that never goes back. */
export class OperatedBook {
  #entries = [];
  #operations = [FIRST];
  #now;

  /** now: the clock. */
  constructor(id, now = () => performance.now()) {
    this.id = id;
    this.#now = now;
  }

  /** As `Book.begin`; and `end`, for a write that is not counted any more whether or not it was. */
  begin({ added = 0n, removed = 0n }) {
    return this.#enter(this.#entries, { amount: added - removed });
  }

  /** Notes an operation that is about to be sent. Returns as `begin` does. */
  operate({ base }) {
    return this.#enter(this.#operations, { base });
  }

  #enter(list, what) {
    const entry = { ...what, begin: this.#now(), end: Infinity, isDone: false, isDoubted: false };
    list.push(entry);
    return {
      acknowledge: ({ isPending = false } = {}) => {
        if (isPending) entry.begin -= SETTLING_MS;
        Object.assign(entry, { end: this.#now(), isDone: true });
      },
      doubt: () => {
        entry.isDoubted = true;
      },
      end: () => {
        entry.end = this.#now();
      },
      drop: () => {
        list.splice(list.indexOf(entry), 1);
      },
    };
  }

  /** The server was killed: what was in doubt was carried out by now, or never. */
  killed() {
    for (const entry of [...this.#entries, ...this.#operations]) {
      if (entry.isDoubted) {
        entry.end = Math.min(entry.end, this.#now());
      }
    }
  }

  /** Returns what a reader knows that asks now. */
  beginRead() {
    return this.#now();
  }

  /**
   * Returns the values that a reader may be told now that asked then: [{least, most}], one for each operation that may
   * have been the last.
   */
  #ranges(from) {
    const now = this.#now();
    const done = this.#operations.filter(({ isDone, end }) => isDone && end < from);
    const isOver = ({ end }) => done.some(({ begin }) => begin > end);
    const last = this.#operations.filter((operation) => operation.begin <= now && !isOver(operation));
    return last.map(({ base, begin, end }) => {
      let [least, most] = [base, base];
      for (const entry of this.#entries) {
        const isIn = entry.isDone && entry.begin > end && entry.end < from;
        const mayBeIn = entry.end >= begin && entry.begin <= now;
        // What is certain moves both bounds, what is not the one that it would move.
        if (isIn || (mayBeIn && entry.amount < 0n)) least += entry.amount;
        if (isIn || (mayBeIn && entry.amount > 0n)) most += entry.amount;
      }
      return { least, most };
    });
  }

  /** Returns a sentence where a value cannot be what a reader is told now that asked then, else undefined. */
  wrongOf(from, value, what) {
    const ranges = this.#ranges(from);
    if (ranges.some(({ least, most }) => value >= least && value <= most)) return undefined;
    const texts = ranges.map(({ least, most }) => (least === most ? `${least}` : `${least} to ${most}`));
    return `${what} is ${value} after its operations, and may be ${texts.slice(0, 4).join(", or ")}`;
  }

  /** Returns what is wrong with the counter at rest, as sentences. seen: value (a bigint), exact. */
  faultsOf(seen) {
    const faults = [this.wrongOf(this.beginRead(), seen.value, `${this.id}: the value`)];
    if (!seen.exact) faults.push(`${this.id}: a strong read at rest is not exact`);
    return faults.filter((fault) => fault !== undefined);
  }
}
