// What clients know of each counter, and whether what the server says can be true.
//
// Invariant: an amount stands in one place at a time. It is *open* from just before it is sent until its
// outcome is known, then *acknowledged*, *in doubt* for good, or dropped where it was surely never counted.
// So at any moment a counter holds what is acknowledged, and between nothing and all of what is open or in
// doubt besides. A keyed write stays open until it is acknowledged: where nothing is open or in doubt, the
// counter holds one number only.

const ZERO = { added: 0n, removed: 0n };
const plus = (one, other) => ({ added: one.added + other.added, removed: one.removed + other.removed });
const minus = (one, other) => ({ added: one.added - other.added, removed: one.removed - other.removed });

/** The books of one counter. Amounts are bigints. */
export class Book {
  #acknowledged = ZERO;
  #open = ZERO;
  #doubted = ZERO;
  #elements = new Set();
  #elementsTried = new Set();
  /**
   * Every amount that may be counted: when it was about to be sent, and when it was known to be counted, unix
   * milliseconds.
   */
  #log = new Set();

  constructor(id) {
    this.id = id;
  }

  /** Notes a write that is about to be sent, and returns what is to be called with its outcome, once. */
  begin({ added = 0n, removed = 0n, elements = [] }) {
    const amount = { added, removed };
    this.#open = plus(this.#open, amount);
    const entry = { amount, begun_ms: Date.now(), counted_ms: Infinity };
    this.#log.add(entry);
    for (const element of elements) this.#elementsTried.add(element);
    const close = () => {
      this.#open = minus(this.#open, amount);
    };
    return {
      acknowledge: () => {
        close();
        this.#acknowledged = plus(this.#acknowledged, amount);
        entry.counted_ms = Date.now();
        for (const element of elements) this.#elements.add(element);
      },
      doubt: () => {
        close();
        this.#doubted = plus(this.#doubted, amount);
      },
      drop: () => {
        close();
        this.#log.delete(entry);
      },
      end: close,
    };
  }

  /**
   * Returns a sentence where a snapshot's value cannot be: what was acknowledged before `as_of` is in it, and nothing
   * of after `taken_at`.
   */
  wrongOn({ value, as_of, taken_at }) {
    let [least, most] = [ZERO, ZERO];
    for (const { amount, begun_ms, counted_ms } of this.#log) {
      if (counted_ms < as_of) least = plus(least, amount);
      if (begun_ms <= taken_at) most = plus(most, amount);
    }
    return outOfBounds(
      `${this.id}: its value in the snapshot`, BigInt(value), least.added - most.removed, most.added - least.removed,
    );
  }

  /** The server was killed, which settles no doubt here. */
  killed() {}

  /** Returns what a reader knows that asks now. */
  beginRead() {
    return this.bounds();
  }

  /** Returns a sentence where a value cannot be what a reader is told now that asked then, else undefined. */
  wrongOf(before, value, what) {
    const { least, most } = valuesBetween(before, this.bounds());
    return outOfBounds(what, value, least, most);
  }

  /** Returns what is wrong with the counter at rest: see `faultsOf`. */
  faultsOf(seen) {
    return faultsOf(this, seen);
  }

  /** Returns what may be so now: {least, most}, each {added, removed, uniques}. */
  bounds() {
    const least = { ...this.#acknowledged, uniques: this.#elements.size };
    const most = { ...plus(plus(this.#acknowledged, this.#open), this.#doubted), uniques: this.#elementsTried.size };
    return { least, most };
  }
}

/**
 * Returns the values that an exact read may give whose asker saw `before` when it asked and `after` when it was
 * answered: {least, most}. At rest both are the same bounds.
 */
export function valuesBetween(before, after) {
  return { least: before.least.added - after.most.removed, most: after.most.added - before.least.removed };
}

/** Returns a sentence where a number is out of its bounds, else undefined. */
export function outOfBounds(what, number, least, most) {
  if (number < least) return `${what} is ${number}: ${least - number} acknowledged and missing (at least ${least})`;
  if (number > most) return `${what} is ${number}: ${number - most} counted twice or never sent (at most ${most})`;
  return undefined;
}

/**
 * Returns what is wrong with a counter at rest, as sentences. seen: value and added (bigints; added is the sum
 * of its history), uniques (a number), exact.
 */
export function faultsOf(book, seen) {
  const bounds = book.bounds();
  const { least, most } = valuesBetween(bounds, bounds);
  const faults = [
    outOfBounds(`${book.id}: the value`, seen.value, least, most),
    outOfBounds(`${book.id}: the sum of its history`, seen.added, bounds.least.added, bounds.most.added),
    outOfBounds(`${book.id}: its uniques`, seen.uniques, bounds.least.uniques, bounds.most.uniques),
  ];
  if (!seen.exact) faults.push(`${book.id}: a strong read at rest is not exact`);
  return faults.filter((fault) => fault !== undefined);
}
