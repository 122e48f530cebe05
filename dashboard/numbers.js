// How numbers and times are read from answers and written for people.
//
// Invariant: a count is never rounded by accident. Whole numbers beyond 2^53 − 1 stay BigInt from the answer to
// the text; only what is drawn or abbreviated is a double.

const SAFE = BigInt(Number.MAX_SAFE_INTEGER);
const GROUPED = new Intl.NumberFormat("en");
const SHORT = [
  [10n ** 18n, "E"],
  [10n ** 15n, "P"],
  [10n ** 12n, "T"],
  [10n ** 9n, "B"],
  [10n ** 6n, "M"],
  [10n ** 3n, "K"],
];
// From here on an abbreviation is a power of ten.
const POWER_FROM = 10n ** 21n;

/** Returns JSON as it stands: whole numbers that a double would not hold are bigints. Throws SyntaxError. */
export function parseExact(text) {
  // Browsers without the third argument get those numbers as decimal strings: `numbers=string` asks for that.
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source;
    const isWide = typeof value === "number" && source !== undefined && /^-?\d+$/.test(source);
    return isWide && !Number.isSafeInteger(value) ? BigInt(source) : value;
  });
}

/** Returns a count as a bigint; `value` is a whole number, a bigint or a decimal string. */
export function whole(value) {
  if (typeof value === "bigint") return value;
  if (typeof value === "string" && /^-?\d+$/.test(value)) return BigInt(value);
  return typeof value === "number" && Number.isFinite(value) ? BigInt(Math.trunc(value)) : 0n;
}

/** Returns all digits of a count in groups of three: "12,345". */
export function count(value) {
  return GROUPED.format(whole(value)).replace("-", "−");
}

/** Returns a count in at most seven characters: "12.3K". Rounds towards zero, so it never claims more. */
export function short(value) {
  const exact = whole(value);
  const sign = exact < 0n ? "−" : "";
  const size = exact < 0n ? -exact : exact;
  if (size >= POWER_FROM) {
    const digits = size.toString();
    return `${sign}${digits[0]}.${digits[1]}e${digits.length - 1}`;
  }
  const found = SHORT.find(([unit]) => size >= unit);
  if (found === undefined) return sign + size.toString();
  const [unit, letter] = found;
  const tenths = (size * 10n) / unit;
  const text = tenths >= 1000n ? `${tenths / 10n}` : `${tenths / 10n}.${tenths % 10n}`;
  return sign + text.replace(/\.0$/, "") + letter;
}

/** Returns a count as a double, for drawing and for nothing else. */
export function drawn(value) {
  return value === null || value === undefined ? null : Number(whole(value));
}

/** Returns a measured number in about three digits: "0.012", "3.4", "1,200". */
export function measured(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e21) return value.toExponential(1).replace("e+", "e");
  if (size >= 100) return GROUPED.format(Math.round(value));
  return String(Number(value.toPrecision(size < 0.001 ? 1 : 3)));
}

/** Returns a rate in the unit that suits its size: "4.2 /s", "6 /min"; `perSecond` is null where none is known. */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined || !Number.isFinite(perSecond)) return "–";
  if (perSecond === 0) return "0 /s";
  if (Math.abs(perSecond) >= 0.1) return `${measured(Number(perSecond.toPrecision(Math.abs(perSecond) < 10 ? 2 : 3)))} /s`;
  if (Math.abs(perSecond) * 60 >= 0.1) return `${measured(Number((perSecond * 60).toPrecision(2)))} /min`;
  return `${measured(Number((perSecond * 3600).toPrecision(2)))} /h`;
}

/** Returns a length of time in its largest fitting unit: "0.4 s", "3 min". */
export function duration(ms) {
  const size = Math.max(0, ms);
  if (size < 10_000) return `${(size / 1000).toFixed(1)} s`;
  if (size < 120_000) return `${Math.round(size / 1000)} s`;
  if (size < 7_200_000) return `${Math.round(size / 60_000)} min`;
  if (size < 172_800_000) return `${Math.round(size / 3_600_000)} h`;
  return `${Math.round(size / 86_400_000)} d`;
}

/** Returns the part of a whole in percent, "34 %", or "–" where the whole is nothing. */
export function share(part, all) {
  const total = whole(all);
  if (total === 0n) return "–";
  const [some, positive] = total < 0n ? [-whole(part), -total] : [whole(part), total];
  if (some > 0n && some * 100n < positive) return "< 1 %";
  return `${Math.round(Number((some * 1000n) / positive) / 10)} %`;
}

/** Returns whether a double holds a count exactly. */
export function isSafe(value) {
  const exact = whole(value);
  return exact <= SAFE && exact >= -SAFE;
}
