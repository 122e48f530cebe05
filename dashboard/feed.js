// What the counters on the page say now: a stream of updates where the service has one, else questions.
//
// Invariants: one feed at a time for a view; a feed that was stopped tells nothing more; after a break it
// goes on by itself, and says what it is doing meanwhile.
import { Failure, counterPath, json, open } from "./api.js";
import { EventParser } from "./events.js";
import { turn } from "./idle.js";
import { parseExact } from "./numbers.js";
import { pause } from "./retry.js";
import { datacenterList, unreachable } from "./standing.js";

// The service sends a ping more often than this while nothing changes; without one the stream is dead.
const SILENCE_MS_MAX = 40_000;
// One counter is asked once a second. Each of several costs a call, so they are asked less often.
const POLL_MS = 1_000;
const POLL_MANY_MS = 4_000;
// What is missing or refused is seldom there a second later.
const POLL_REFUSED_MS = 3_000;
// Where streams are down and reads are not, it is asked one by one for so long before a stream is tried again.
const STREAM_AGAIN_MS = 60_000;
// Two seconds are enough for a number to move, and short enough to be called "now".
const RATE_SECONDS = 10;
// A browser has six connections to a host; the stream has one, and a chart may want one.
const POLLS_AT_ONCE = 4;

// Something on the way that does not take so long an address, or a stream: questions may pass.
const BAD_STREAM = [400, 405, 413, 414, 415, 426, 431];
// What one stream takes, as the service's description says.
const STREAM_IDS_MAX = 100;
const STREAM_ID_BYTES_MAX = 8_192;

let hasStream = true;

/** Returns as many of the ids, from the first, as one stream takes. */
export function watchable(ids) {
  const encoder = new TextEncoder();
  let bytes = 0;
  return ids.slice(0, STREAM_IDS_MAX).filter((id) => {
    bytes += encoder.encode(id).length;
    return bytes <= STREAM_ID_BYTES_MAX;
  });
}

/** Runs `work` for every item, `width` at a time. */
export async function each(items, width, work) {
  let next = 0;
  const run = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
}

/**
 * Returns an answer of the service, made at `at_ms` by its clock, as updates are: `{ value, rate, uniques, datacenters,
 * exact, staleness_ms, unreachable }`.
 */
export function readingOf(told, at_ms) {
  const datacenters = datacenterList(told.datacenters, at_ms);
  const window = told.window;
  return {
    value: told.value,
    rate: told.rate_per_second ?? (window === undefined ? null : Number(window.count) / window.seconds),
    uniques: told.uniques ?? null,
    datacenters,
    exact: told.exact === true,
    staleness_ms: told.staleness_ms ?? 0,
    // The clock of this machine may differ from the service's: a moment is told by ours, as an age is.
    as_of: Date.now() - (told.staleness_ms ?? 0),
    unreachable: unreachable(datacenters),
    updated_at: told.updated_at,
    expires_at: told.expires_at,
  };
}

/** Resolves after a time, or at once when the browser says that it is online again, or when `signal` aborts. */
function rest(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}

/** Resolves once the page can be seen: what nobody looks at asks for nothing. */
function seen(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

/**
 * Watches counters until the function that it returns is called. onReading(id, reading); onState(state), one of
 * "connecting", "live", "polling" and "offline"; onHeard() whenever the service said something; onFailure(failure, id)
 * for refusals.
 */
export function watch(ids, { onReading, onState, onHeard, onFailure }) {
  const stopped = new AbortController();
  const { signal } = stopped;
  let attempt = 0;
  let refusals = 0;
  // Until when nothing is streamed, by the clock of this machine.
  let asksUntil_ms = 0;
  let lastId = "";
  const state = (name) => signal.aborted || onState(name);
  const heard = () => {
    attempt = 0;
    if (!signal.aborted) onHeard();
  };

  const stream = async () => {
    const broken = new AbortController();
    let timer = setTimeout(() => broken.abort(), SILENCE_MS_MAX);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => broken.abort(), SILENCE_MS_MAX);
      heard();
    };
    const hide = () => document.hidden && broken.abort();
    const cut = () => broken.abort();
    document.addEventListener("visibilitychange", hide);
    addEventListener("offline", cut);
    try {
      await turn(signal);
      const query = new URLSearchParams(ids.map((id) => ["id", id]));
      const headers = { accept: "text/event-stream", ...(lastId === "" ? {} : { "last-event-id": lastId }) };
      const response = await open(`/live?${query}`, { headers, signal: AbortSignal.any([signal, broken.signal]) });
      state("live");
      alive();
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || signal.aborted) return;
        alive();
        for (const event of parser.push(value)) take(event);
        lastId = parser.lastId || lastId;
      }
    } catch (error) {
      if (error instanceof Failure || signal.aborted || document.hidden) throw error;
      throw new Failure(0, "offline", "the stream broke");
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", hide);
      removeEventListener("offline", cut);
    }
  };

  const take = ({ data }) => {
    let told;
    try {
      told = parseExact(data);
    } catch {
      return;
    }
    if (told?.type !== "update") return;
    for (const [id, counter] of Object.entries(told.counters ?? {})) {
      if (counter === null) onFailure(new Failure(404, "counter-not-found", "there is no such counter"), id);
      else onReading(id, readingOf(counter, told.at));
    }
  };

  const ask = async (id) => {
    try {
      const told = await json(`${counterPath(id)}?window=${RATE_SECONDS}&numbers=string`, signal);
      heard();
      state("polling");
      if (!signal.aborted) onReading(id, readingOf(told));
    } catch (error) {
      if (!(error instanceof Failure) || error.isOffline || error.status >= 500) throw error;
      refusals += 1;
      heard();
      if (!signal.aborted) onFailure(error, id);
    }
  };

  const streams = () => hasStream && Date.now() >= asksUntil_ms;
  const polls = async () => {
    while (!signal.aborted && !streams()) {
      await seen(signal);
      refusals = 0;
      await each(ids, POLLS_AT_ONCE, ask);
      await rest(refusals > 0 ? POLL_REFUSED_MS : ids.length > 1 ? POLL_MANY_MS : POLL_MS, signal);
    }
  };

  const run = async () => {
    let isStreaming = false;
    while (!signal.aborted) {
      await seen(signal);
      try {
        isStreaming = streams();
        await (isStreaming ? stream() : polls());
        if (!isStreaming) continue;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Failure && error.isNoCall) {
          hasStream = false;
          continue;
        }
        if (document.hidden) {
          state("connecting");
          continue;
        }
        const isRefused = BAD_STREAM.includes(error.status);
        if (isStreaming && error instanceof Failure && (isRefused || error.status >= 500)) {
          asksUntil_ms = isRefused ? Infinity : Date.now() + STREAM_AGAIN_MS;
          continue;
        }
        if (!(error instanceof Failure)) {
          console.error(error);
        } else if (error.status >= 400 && error.status < 500 && error.status !== 429) {
          // Asking again would be refused again.
          onFailure(error, ids[0]);
          return;
        }
        const isOffline = !(error instanceof Failure) || error.isOffline;
        state(isOffline ? "offline" : "connecting");
        attempt += 1;
        await rest(pause(attempt, Math.random(), error.retry_after_seconds), signal);
        continue;
      }
      if (signal.aborted) return;
      // The service ended the stream in order, as it does when it is deployed anew.
      state("connecting");
      attempt += 1;
      await rest(pause(attempt, Math.random()), signal);
    }
  };
  state("connecting");
  if (ids.length > 0) run();
  return () => stopped.abort();
}
