// What comes from the caller: numbers, signals, functions, and times for timers.
//
// Invariant: a number or a signal that is none is an error that names it, at once. What a caller's function throws or
// rejects with never harms what Tally does.

// A timer of more fires at once.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Throws for an option that is no number, or less than `least`. `Infinity` is a number. */
export function checkedNumber(name: string, value: unknown, least: number): void {
  if (value === undefined || value === null || (typeof value === "number" && value >= least)) return;
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  throw new RangeError(`\`${name}\` is ${shown}: send a number of at least ${least}`);
}

/** Throws for an argument that is no list. */
export function checkedList(name: string, value: unknown): void {
  if (!Array.isArray(value)) throw new TypeError(`\`${name}\` is a ${typeof value}: pass a list`);
}

/** Returns a signal that ends a call; undefined for none, as `fetch` takes null for none. Throws for another value. */
export function signalOf(value: unknown): AbortSignal | undefined {
  if (value === undefined || value === null) return undefined;
  if (value instanceof AbortSignal) return value;
  throw new TypeError(`\`signal\` is a ${typeof value}: pass an AbortSignal`);
}

/** Returns a time that a timer can wait for. */
export function timerMs(ms: number): number {
  return Math.min(TIMER_MS_MAX, ms);
}

/** Calls a function of the caller's. What it throws or rejects with goes to `failed`, by default the console. */
export function guarded(
  name: string, call: () => unknown,
  failed: (error: unknown) => void = (error) => console.error(`tally: \`${name}\` failed:`, error),
): void {
  const report = (error: unknown) => {
    try {
      failed(error);
    } catch {
      // The console is the program's too.
    }
  };
  try {
    const said: unknown = call();
    if (said instanceof Promise) said.catch(report);
  } catch (error) {
    report(error);
  }
}
