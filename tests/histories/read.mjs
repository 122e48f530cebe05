// Reads a history: lines of JSON with the fields of Jepsen's operations. See docs/internals/histories.md.
//
// Invariant: each line begins or ends a call of one process, which has one call under way at most.

const FORM = 1;
const LINE_MAX = 1_000_000;

/** A history that breaks the form, so that nothing can be said of it. */
export class Malformed extends Error {}

// A whole number above 2^53 stays exact, as its decimal string.
const exact = (_, value, { source }) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value;

/** A text of JSON, else undefined. */
export function parsed(text) {
  if (typeof text !== "string" || text === "") return undefined;
  try {
    return JSON.parse(text, exact);
  } catch {
    return undefined;
  }
}

function lineOf(text, number) {
  const line = parsed(text);
  const isLine = line !== undefined && ["invoke", "ok", "fail", "info"].includes(line.type) && line.index === number;
  if (!isLine || !Number.isFinite(line.time)) {
    throw new Malformed(`line ${number + 1} is no operation: ${text.slice(0, 80)}`);
  }
  return line;
}

/** A call as it begins. Its moments are places in the history, and unix milliseconds. */
function begin({ index, time, process, f, value }, beganMs) {
  const [, method, target] = f.match(/^([A-Z]+) (\S+)$/) ?? [];
  if (method === undefined) throw new Malformed(`line ${index + 1}: ${f} is no call`);
  const url = new URL(target, "http://tally.test");
  return {
    process, f, method,
    path: url.pathname.split("/").slice(1).map(decodeURIComponent),
    query: url.searchParams,
    at: value.at,
    key: value["idempotency-key"],
    ifMatch: value["if-match"],
    text: value.body,
    body: parsed(value.body),
    begun: { index, ms: beganMs + time / 1e6 },
    ended: { index: Infinity, ms: Infinity },
    type: "info",
  };
}

/** Returns a history's {head, calls, rest}; rest: the place from which on nothing is under way. Errors: Malformed. */
export function historyOf(text) {
  const lines = text.split("\n").filter((line) => line !== "");
  if (lines.length === 0 || lines.length > LINE_MAX) throw new Malformed(`${lines.length} lines, not 1 to ${LINE_MAX}`);
  const first = lineOf(lines[0], 0);
  if (first.f !== "begin" || first.value?.form !== FORM) throw new Malformed(`it does not begin with form ${FORM}`);
  const head = { clocks_ms: 2, datacenters: {}, ...first.value };
  const [calls, underWay] = [[], new Map()];
  let rest = Infinity;
  for (const [number, text] of lines.entries()) {
    const line = lineOf(text, number);
    if (line.process === "nemesis") {
      if (line.f === "rest") rest = number;
      continue;
    }
    const open = underWay.get(line.process);
    if (line.type === "invoke") {
      if (open !== undefined) throw new Malformed(`line ${number + 1}: process ${line.process} has a call under way`);
      const call = begin(line, head.began_ms);
      underWay.set(line.process, call);
      calls.push(call);
      continue;
    }
    if (open?.f !== line.f) throw new Malformed(`line ${number + 1} ends no call`);
    // An operation of unknown outcome may take effect at any time, so its process makes no other.
    if (line.type === "info") continue;
    underWay.delete(line.process);
    open.ended = { index: number, ms: head.began_ms + line.time / 1e6 };
    Object.assign(open, { type: line.type, status: line.value.status, answer: parsed(line.value.body) });
  }
  return { head, calls, rest };
}

/** A whole number or its decimal string as a bigint, else undefined. */
export function wholeOf(value) {
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  return typeof value === "string" && /^-?\d+$/.test(value) ? BigInt(value) : undefined;
}
