// The long tail that `make bench-tail` writes: one log, made again from its seed.
//
// Invariant: every counter has three lines, of three visitors, and as many lines besides as there are counters are
// drawn by Zipf's law with exponent 1. So the coldest counter has three visitors, and the hottest of a million a
// fourteenth of the rest.

const LINES_OF_EACH = 3;
// Prime, so a step of that many goes past every counter once.
const STEP = 15_485_863;
const DAY_MS = 86_400_000;
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** Numbers in [0, 1) that follow from a seed. Source: mulberry32, T. Ettinger. */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Draws one of so many by Zipf's law with exponent 1: 0 is the hottest. */
export function zipf(counters, random) {
  const sums = new Float64Array(counters);
  let sum = 0;
  for (let rank = 0; rank < counters; rank += 1) sums[rank] = sum += 1 / (rank + 1);
  return () => {
    const at = random() * sum;
    let [low, high] = [0, counters - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] > at) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

const two = (number) => String(number).padStart(2, "0");
function stamp(at_ms) {
  const at = new Date(at_ms);
  const time = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()].map(two).join(":");
  return `${two(at.getUTCDate())}/${MONTHS[at.getUTCMonth()]}/${at.getUTCFullYear()}:${time} +0000`;
}

/** The path that counts as a counter. */
export const pathOf = (counter) => `/tail/${counter.toString(36)}`;

/**
 * The bodies of a log over so many counters, each of at most `bytes_max`: Common Log Format of the day before `now_ms`.
 */
export function* bodies(counters, seed, bytes_max, now_ms, path = pathOf) {
  const random = randomFrom(seed);
  const draw = zipf(counters, random);
  const lines = counters * (LINES_OF_EACH + 1);
  const parts = [];
  let bytes = 0;
  for (let line = 0; line < lines; line += 1) {
    const drawn = line % (LINES_OF_EACH + 1) === LINES_OF_EACH;
    const place = Math.floor(line / (LINES_OF_EACH + 1)) + counters * (line % (LINES_OF_EACH + 1));
    const counter = drawn ? draw() : Number((BigInt(place) * BigInt(STEP)) % BigInt(counters));
    const visitor = drawn ? Math.floor(random() * 3) : line % (LINES_OF_EACH + 1);
    const address = `10.${(counter >> 14) & 255}.${(counter >> 6) & 255}.${((counter & 63) << 2) | visitor}`;
    const at = stamp(now_ms - DAY_MS + Math.floor((line / lines) * (DAY_MS - 3_600_000)));
    const text = `${address} - - [${at}] "GET ${path(counter)} HTTP/1.1" 200 512\n`;
    if (bytes + text.length > bytes_max) {
      yield parts.join("");
      parts.length = bytes = 0;
    }
    parts.push(text);
    bytes += text.length;
  }
  yield parts.join("");
}

/** How many lines such a log has. */
export const linesOf = (counters) => counters * (LINES_OF_EACH + 1);
