// What a counter, a member of a board or a number may be, given what clients sent and were answered.
//
// The contract, for each answer that shows a value:
//
// 1. Each write is in it once at most. A refused write, and one that was sent after the answer, is not in it.
// 2. If it is exact, it has each write that was acknowledged before its call began, or that an answer showed before.
// 3. It has each direct write that was acknowledged before its `as_of`, or that the named version has.
// 4. A set or a deletion takes away what was acknowledged before it began, and nothing that began after its answer.
// 5. The answer to a write has that write.
import { waysOf } from "./sums.mjs";

// How long after a set another datacenter may still take what it counted for later than the set.
const LOOSE_MS = 2_000;
const NEVER = { index: Infinity, ms: Infinity };

const isBefore = (one, other) => one.index < other.index;

/** A write, of all attempts that share its key. */
export class Write {
  known = NEVER;
  seen = NEVER;
  #outcomes = [];

  /** amount: a bigint. isQueued: acknowledged first, and counted later. */
  constructor({ amount, begun, isQueued = false, what }) {
    Object.assign(this, { amount, begun, isQueued, what });
  }

  /** What became of one attempt: ok, fail or info. */
  attempt(outcome, ended) {
    this.#outcomes.push(outcome);
    if (outcome === "ok" && isBefore(ended, this.known)) this.known = ended;
  }

  get isRefused() {
    return this.#outcomes.every((outcome) => outcome === "fail");
  }

  get isKnown() {
    return this.known !== NEVER;
  }

  /** When somebody knew first that it counts. */
  get counted() {
    return isBefore(this.known, this.seen) ? this.known : this.seen;
  }
}

/** Something that takes away what was counted: kind is set, delete or expiry. */
export class Clearing extends Write {
  constructor({ kind, value = 0n, ttlMs = 0, begun, what }) {
    super({ amount: value, begun, what });
    Object.assign(this, { kind, ttlMs });
    // Whether a datacenter may apply it later than its answer.
    this.isLoose = false;
  }
}

/** All calls on one register, and what they break of the contract. */
export class Register {
  writes = [];
  clearings = [];
  floors = [];
  #views = [];
  #byVersion = new Map();
  judged = 0;
  undecided = 0;

  constructor(name, clocksMs) {
    Object.assign(this, { name, clocksMs });
  }

  /** An answer that shows a value: {value, isExact, asOf, begun, ended, own, atLeast, version, what}. */
  view(view) {
    this.#views.push(view);
  }

  /** Returns what is wrong, as {line, why}. */
  violations() {
    const inOrder = this.#views.toSorted((one, other) => one.ended.index - other.ended.index);
    return [...inOrder.map((view) => this.#judge(view)), ...this.#conditions()].filter((found) => found !== undefined);
  }

  #mayBeCleared(write, by) {
    return this.clearings.some((one) => {
      if (one.isRefused || !isBefore(one.begun, by)) return false;
      if (one.kind === "expiry") return by.ms + this.clocksMs + 1_000 >= write.begun.ms + one.ttlMs;
      if (!one.isKnown || (one.isLoose && write.amount < 0n)) return true;
      const isLate = one.isLoose && one.known.ms + this.clocksMs + LOOSE_MS > write.begun.ms;
      return isLate || isBefore(write.begun, one.known);
    });
  }

  #isCleared(counted, by) {
    const isNear = (one) => counted.ms + this.clocksMs + LOOSE_MS >= one.begun.ms;
    const mayReturn = (one) => one.kind === "set" && !one.isRefused && (one.isLoose || !one.isKnown) && isNear(one);
    if (this.clearings.some(mayReturn)) return false;
    return this.clearings.some((one) => !one.isLoose && isBefore(one.known, by) && isBefore(counted, one.begun));
  }

  /** The values that it may have been put to last. */
  #bases({ isExact, begun, ended }) {
    const sent = this.clearings.filter((one) => !one.isRefused && isBefore(one.begun, ended));
    const past = sent.filter((one) => isBefore(one.known, begun));
    const isOver = (one) => past.some((later) => isBefore(one.known, later.begun));
    const last = sent.filter((one) => !isExact || one.kind === "expiry" || !isOver(one));
    return new Set([...(isExact && past.length > 0 ? [] : [0n]), ...last.map((one) => one.amount)]);
  }

  #isDue(write, view) {
    if (this.#mayBeCleared(write, view.ended)) return false;
    const isOld = !write.isQueued && write.known.ms + this.clocksMs < (view.asOf ?? -Infinity);
    const isInVersion = this.#byVersion.get(view.atLeast)?.has(write) ?? false;
    return write === view.own || isOld || isInVersion || (view.isExact && isBefore(write.counted, view.begun));
  }

  #mayBeIn(write, view) {
    if (write.isRefused || !isBefore(write.begun, view.ended)) return false;
    return !view.isExact || write === view.own || !this.#isCleared(write.counted, view.begun);
  }

  #judge(view) {
    this.judged += 1;
    const possible = this.writes.filter((write) => this.#mayBeIn(write, view));
    const due = possible.filter((write) => this.#isDue(write, view));
    const open = possible.filter((write) => !due.includes(write));
    const sum = (writes) => writes.reduce((all, { amount }) => all + amount, 0n);
    const bases = [...this.#bases(view)];
    const ways = [];
    let isCertain = true;
    for (const base of bases) {
      const found = waysOf(view.value - base - sum(due), open);
      ways.push(...found.ways);
      isCertain &&= found.isCertain;
    }
    if (ways.length === 0 && isCertain) return this.#impossible(view, bases, due, open);
    if (!isCertain) this.undecided += 1;
    // What it shows is known to all who ask later, where it can be shown in one way only.
    if (ways.length === 1 && isCertain) {
      const shown = new Set([...due, ...ways[0]]);
      for (const write of shown) if (isBefore(view.ended, write.seen)) write.seen = view.ended;
      if (view.version !== undefined) this.#byVersion.set(view.version, shown);
    }
    return this.#belowFloor(view);
  }

  #impossible(view, bases, due, open) {
    const sum = (writes) => writes.reduce((all, { amount }) => all + amount, 0n);
    const least = bases.map((base) => base + sum(due) + sum(open.filter(({ amount }) => amount < 0n)));
    const most = bases.map((base) => base + sum(due) + sum(open.filter(({ amount }) => amount > 0n)));
    const [low, high] = [least.reduce((a, b) => (a < b ? a : b)), most.reduce((a, b) => (a > b ? a : b))];
    const why = view.value < low ? `${low - view.value} acknowledged and missing, at least ${low} is due`
      : view.value > high ? `${view.value - high} counted twice or never sent, at most ${high} can be`
        : "no choice of the writes makes it";
    return { line: view.ended.index + 1, why: `${this.name} shows ${view.value}, exact: ${view.isExact}: ${why}` };
  }

  #belowFloor(view) {
    const sent = this.floors.filter((one) => !one.isRefused);
    const last = sent.at(-1);
    const isSettled = last !== undefined && isBefore(last.known, view.begun) &&
      sent.every((one) => one === last || isBefore(one.known, last.begun)) &&
      this.clearings.every((one) => one.kind === "set" || one.isRefused);
    if (!isSettled || !view.isExact || last.floor === undefined || view.value >= last.floor) return undefined;
    return { line: view.ended.index + 1, why: `${this.name} shows ${view.value}, below its floor ${last.floor}` };
  }

  /** Of the writes that depend on one version, one is done at most. */
  #conditions() {
    const done = this.writes.filter(({ ifMatch, isKnown }) => ifMatch !== undefined && isKnown);
    return done.map((write) => {
      const isOther = (one) => one.ifMatch === write.ifMatch && isBefore(one.known, write.known);
      if (!done.some(isOther)) return undefined;
      return { line: write.known.index + 1, why: `${this.name}: two writes were done if ${write.ifMatch}` };
    });
  }
}
