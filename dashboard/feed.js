// What the counters on the page say now: a stream of updates where the service has one, else questions.
//
// Invariants: one feed at a time for a view; a feed that was stopped tells nothing more; after a break it
// goes on by itself, and says what it is doing meanwhile.
import { Failure, counterPath, json, open } from "./api.js";
import { EventParser } from "./events.js";
import { datacenterList, unreachable } from "./freshness.js";
import { turn } from "./idle.js";
import { parseExact } from "./numbers.js";
import { pause, rest } from "./retry.js";

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
export function readingOf(answer, at_ms) {
  const datacenters = datacenterList(answer.datacenters, at_ms);
  const window = answer.window;
  return {
    value: answer.value,
    rate: answer.rate_per_second ?? (window === undefined ? null : Number(window.count) / window.seconds),
    uniques: answer.uniques ?? null,
    datacenters,
    exact: answer.exact === true,
    staleness_ms: answer.staleness_ms ?? 0,
    // The clock of this machine may differ from the service's: a moment is told by ours, as an age is.
    as_of: Date.now() - (answer.staleness_ms ?? 0),
    unreachable: unreachable(datacenters),
    updated_at: answer.updated_at,
    expires_at: answer.expires_at,
  };
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

/** Parses the data of an event; undefined where it is no update. */
function updateOf(data) {
  try {
    const message = parseExact(data);
    return message?.type === "update" ? message : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns a `signal` that aborts when a stream is to be ended from here: nothing came for too long, the page is hidden,
 * or the browser is offline. `alive()` says that something came, `end()` that the stream is over.
 */
function streamGuard() {
  const broken = new AbortController();
  const cut = () => broken.abort();
  const hide = () => document.hidden && cut();
  let timer = setTimeout(cut, SILENCE_MS_MAX);
  document.addEventListener("visibilitychange", hide);
  addEventListener("offline", cut);
  return {
    signal: broken.signal,
    alive() {
      clearTimeout(timer);
      timer = setTimeout(cut, SILENCE_MS_MAX);
    },
    end() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", hide);
      removeEventListener("offline", cut);
    },
  };
}

/** One feed of some counters: streams, or asks, until its signal aborts. */
class Feed {
  #ids;
  #listener;
  #signal;
  // How often in a row the service was not reached.
  #attempt = 0;
  #refusals = 0;
  // Until when nothing is streamed, by the clock of this machine.
  #asksUntil_ms = 0;
  #lastId = "";

  constructor(ids, listener, signal) {
    this.#ids = ids;
    this.#listener = listener;
    this.#signal = signal;
  }

  async run() {
    this.#state("connecting");
    let goesOn = this.#ids.length > 0;
    while (goesOn && !this.#signal.aborted) {
      await seen(this.#signal);
      const isStreaming = this.#streams();
      try {
        await (isStreaming ? this.#stream() : this.#poll());
      } catch (error) {
        goesOn = await this.#recover(error, isStreaming);
        continue;
      }
      // The service ended the stream in order, as it does when it is deployed anew.
      if (isStreaming) await this.#comeBack("connecting");
    }
  }

  #state(name) {
    if (!this.#signal.aborted) this.#listener.onState(name);
  }

  #contact() {
    this.#attempt = 0;
    if (!this.#signal.aborted) this.#listener.onContact();
  }

  #streams() {
    return hasStream && Date.now() >= this.#asksUntil_ms;
  }

  // Waits before the next attempt, and says what it waits for.
  async #comeBack(state, retry_after_seconds) {
    if (this.#signal.aborted) return;
    this.#state(state);
    this.#attempt += 1;
    await rest(pause(this.#attempt, Math.random(), retry_after_seconds), this.#signal);
  }

  // Does what an error asks for. Resolves to whether the feed goes on.
  async #recover(error, isStreaming) {
    if (this.#signal.aborted) return false;
    const isFailure = error instanceof Failure;
    if (isFailure && error.isNoCall) {
      hasStream = false;
      return true;
    }
    if (document.hidden) {
      this.#state("connecting");
      return true;
    }
    const isRefused = BAD_STREAM.includes(error.status);
    if (isStreaming && isFailure && (isRefused || error.status >= 500)) {
      this.#asksUntil_ms = isRefused ? Infinity : Date.now() + STREAM_AGAIN_MS;
      return true;
    }
    if (!isFailure) {
      console.error(error);
    } else if (error.status >= 400 && error.status < 500 && error.status !== 429) {
      // Asking again would be refused again.
      this.#listener.onFailure(error, this.#ids[0]);
      return false;
    }
    await this.#comeBack(!isFailure || error.isOffline ? "offline" : "connecting", error.retry_after_seconds);
    return true;
  }

  async #stream() {
    const guard = streamGuard();
    const alive = () => {
      guard.alive();
      this.#contact();
    };
    try {
      await turn(this.#signal);
      const query = new URLSearchParams(this.#ids.map((id) => ["id", id]));
      const headers = {
        accept: "text/event-stream", ...(this.#lastId === "" ? {} : { "last-event-id": this.#lastId }),
      };
      const signal = AbortSignal.any([this.#signal, guard.signal]);
      const response = await open(`/live?${query}`, { headers, signal });
      this.#state("live");
      alive();
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || this.#signal.aborted) return;
        alive();
        for (const { data } of parser.push(value)) this.#take(updateOf(data));
        this.#lastId = parser.lastId || this.#lastId;
      }
    } catch (error) {
      if (error instanceof Failure || this.#signal.aborted || document.hidden) throw error;
      throw new Failure(0, "offline", "the stream broke");
    } finally {
      guard.end();
    }
  }

  #take(update) {
    for (const [id, counter] of Object.entries(update?.counters ?? {})) {
      if (counter !== null) this.#listener.onReading(id, readingOf(counter, update.sent_at));
      else this.#listener.onFailure(new Failure(404, "counter-not-found", "there is no such counter"), id);
    }
  }

  // Asks for one counter after the other, until there may be a stream again.
  async #poll() {
    while (!this.#signal.aborted && !this.#streams()) {
      await seen(this.#signal);
      this.#refusals = 0;
      await each(this.#ids, POLLS_AT_ONCE, (id) => this.#ask(id));
      const own_ms = this.#ids.length > 1 ? POLL_MANY_MS : POLL_MS;
      await rest(this.#refusals > 0 ? POLL_REFUSED_MS : own_ms, this.#signal);
    }
  }

  async #ask(id) {
    try {
      const answer = await json(`${counterPath(id)}?window=${RATE_SECONDS}&numbers=string`, this.#signal);
      this.#contact();
      this.#state("polling");
      if (!this.#signal.aborted) this.#listener.onReading(id, readingOf(answer));
    } catch (error) {
      if (!(error instanceof Failure) || error.isOffline || error.status >= 500) throw error;
      this.#refusals += 1;
      this.#contact();
      if (!this.#signal.aborted) this.#listener.onFailure(error, id);
    }
  }
}

/**
 * Watches counters until the function that it returns is called. onReading(id, reading); onState(state), one of
 * "connecting", "live", "polling" and "offline"; onContact() whenever the service said something; onFailure(failure,
 * id) for refusals.
 */
export function watch(ids, listener) {
  const stopped = new AbortController();
  new Feed(ids, listener, stopped.signal).run();
  return () => stopped.abort();
}
