// Pseudo-random choices that a seed decides, so that a run can be asked for again.

/** Returns a source of numbers in [0, 1) from a seed of 32 bits (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a whole number from min to max, both possible. */
export const between = (random, min, max) => min + Math.floor(random() * (max - min + 1));

/** Returns one of the items. */
export const oneOf = (random, items) => items[Math.floor(random() * items.length)];

/**
 * Returns the settings of a run: `names` and their defaults, each replaced by NAME=value of the command line,
 * else of the environment. Errors: a sentence where a value is no whole number from 0 to 2^32 − 1.
 */
export function settings(names, args, env) {
  const given = Object.fromEntries(args.map((arg) => arg.split("=", 2)));
  const unknown = Object.keys(given).find((name) => !(name in names));
  if (unknown !== undefined) throw new Error(`${unknown} is no setting: there are ${Object.keys(names).join(", ")}`);
  return Object.fromEntries(
    Object.entries(names).map(([name, fallback]) => {
      const text = given[name] ?? env[name];
      if (text === undefined || text === "") return [name, fallback];
      const number = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
      if (!(number < 2 ** 32)) throw new Error(`${name} is a whole number below 2^32, not ${JSON.stringify(text)}`);
      return [name, number];
    }),
  );
}
