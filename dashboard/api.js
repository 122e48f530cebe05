// Calls of the service. Invariant: the key is sent as a header to the page's own origin, and kept nowhere but in
// this tab: not in an address, not in a cookie, not in an error.
import { turn } from "./idle.js";
import { parseExact } from "./numbers.js";
import { pause, rest, retryAfterSeconds } from "./retry.js";

const KEY = "tally-key";
// Longer than any read takes where a datacenter is away (3 s), shorter than patience.
const ANSWER_MS_MAX = 10_000;
// How often a read is asked that the caller's budget refuses, and for how long it waits at most for the next time. Who
// is asked to wait longer is told so.
const ASKED_MAX = 4;
const PATIENCE_SECONDS = 10;

export function key() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setKey(text) {
  if (text === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, text);
}

/** Why there is no answer: `status` 0 where nothing answered at all, else the problem that the service told. */
export class Failure extends Error {
  constructor(status, code, detail, retry_after_seconds = 0) {
    super(detail);
    this.status = status;
    this.code = code;
    this.retry_after_seconds = retry_after_seconds;
  }

  get isOffline() {
    return this.status === 0;
  }

  get wantsKey() {
    return this.status === 401;
  }

  /** Whether the service has no such call: an older one, or one built without it. */
  get isNoCall() {
    return this.status === 406 || this.status === 501 || (this.status === 404 && this.code === "not-found");
  }
}

/** Returns a response with status 2xx. Throws Failure; an abort by `signal` stays an AbortError. */
export async function open(path, { method = "GET", body: sent, headers = {}, signal } = {}) {
  const own = key();
  if (own !== "") headers = { ...headers, authorization: `Bearer ${own}` };
  let response;
  try {
    response = await fetch(path, {
      method, body: sent, headers, signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw error;
    throw new Failure(0, "offline", "the service cannot be reached");
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let problem = {};
  try {
    problem = JSON.parse(text);
  } catch {
    // Something between the page and the service answered.
  }
  const code = typeof problem?.code === "string" ? problem.code : "unknown";
  const detail = typeof problem?.detail === "string" ? problem.detail : `the answer was ${response.status}`;
  const wait_seconds = retryAfterSeconds(response.headers.get("retry-after"), Date.now());
  throw new Failure(response.status, code, detail, wait_seconds);
}

async function body(path, signal, { within_ms = ANSWER_MS_MAX, ...request }) {
  await turn(signal);
  const signals = [AbortSignal.timeout(within_ms), ...(signal === undefined ? [] : [signal])];
  const joined = AbortSignal.any(signals);
  const response = await open(path, { ...request, signal: joined });
  try {
    return await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0, "offline", "the connection broke");
  }
}

// The text of a read. A page asks for much at once, so a budget may refuse a part of it for a moment.
async function read(path, signal, request) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await body(path, signal, request);
    } catch (error) {
      const wait_seconds = error.retry_after_seconds;
      if (error.status !== 429 || attempt === ASKED_MAX || wait_seconds > PATIENCE_SECONDS) throw error;
      await rest(pause(attempt, Math.random(), wait_seconds), signal);
    }
  }
}

/** Returns the JSON of an answer, whole numbers exact. Throws Failure. */
export async function json(path, signal) {
  return parseExact(await read(path, signal, { headers: { accept: "application/json" } }));
}

/**
 * Sends a change, `value` as JSON, and returns the JSON of its answer; `within_ms` where that takes longer than others.
 * Throws Failure.
 */
export async function send(method, path, value, signal, within_ms) {
  const sent = value === undefined ? {} : { body: JSON.stringify(value) };
  const headers = { accept: "application/json", "content-type": "application/json" };
  return parseExact(await body(path, signal, { method, headers, within_ms, ...sent }));
}

/** Returns the text of an answer. Throws Failure. */
export function text(path, signal) {
  return read(path, signal, {});
}

/** The path of a counter. */
export function counterPath(id) {
  return `/counters/${encodeURIComponent(id)}`;
}
