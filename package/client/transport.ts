// One HTTP call, sent again until it is answered or its tries are used up.
//
// Invariant: what may count is sent again only under one `Idempotency-Key`, drawn before the first try, or where
// nothing can have been counted. So a write counts once however often it is sent.
import type { components } from "./api.ts";

export type Problem = components["schemas"]["Problem"];

/** The part of `fetch` that is needed: that of a browser, of Node, of a service binding, of Miniflare. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A service binding of Workers. */
export interface Binding {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the types of Workers and of the DOM differ
  fetch(input: any, init?: any): Promise<any>;
}

/** A refusal, or no answer in any try. */
export class TallyError extends Error {
  /** The status; 0 where nothing answered. */
  readonly status: number;
  /** The problem's stable code; `no-answer` where nothing answered. */
  readonly code: string;
  /** When to ask again, in milliseconds, where the server said so. */
  readonly retry_after_ms: number | undefined;
  /** The whole problem document. */
  readonly problem: Problem | undefined;

  constructor(
    status: number, code: string, detail: string,
    more: { problem?: Problem; retry_after_ms?: number; cause?: unknown } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = "TallyError";
    this.status = status;
    this.code = code;
    this.problem = more.problem;
    this.retry_after_ms = more.retry_after_ms;
  }
}

export interface TransportOptions {
  /** Where Tally is: `https://tally.example.com`. By a service binding any host does. */
  url?: string | undefined;
  /** A key of `TALLY_KEYS`. */
  key?: string | undefined;
  /** Sends requests instead of the global `fetch`. */
  fetch?: Fetch | undefined;
  /** A service binding to the edge, in Workers. */
  binding?: Binding | undefined;
  /** The visitor's request: its `cf` is passed along, and for `unique: "auto"` its address and user agent. */
  request?: { headers: { get(name: string): string | null }; cf?: unknown } | undefined;
  /** Tries after the first (5). */
  retries?: number | undefined;
  /** How long one try may take (10,000). */
  timeout_ms?: number | undefined;
}

export interface Call {
  query?: Record<string, unknown> | undefined;
  /** Sent as JSON, but for text and bytes. */
  body?: unknown;
  headers?: Record<string, string> | undefined;
  /** The key of a write. Drawn where it is left out and `isWrite`. */
  idempotencyKey?: string | undefined;
  /** A write that takes a key. */
  isWrite?: boolean | undefined;
  /** A call that may be repeated without one. */
  isSafe?: boolean | undefined;
  /** Statuses that are answers and no refusals. */
  answers?: number[] | undefined;
  signal?: AbortSignal | undefined;
}

const RETRIES = 5;
const TIMEOUT_MS = 10_000;
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 10_000;

const pause = (ms: number, signal: AbortSignal | undefined) =>
  new Promise<void>((done, failed) => {
    const stop = () => {
      clearTimeout(timer);
      failed(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, ms);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });

/**
 * Returns the path of a template: `path("/counters/{id}", id)`, each part percent-encoded, also an asterisk: at the end
 * of an id it would make a prefix of it.
 */
export function path(template: string, ...parts: string[]): string {
  let next = 0;
  return template.replace(/\{\w+\}/g, () => encodeURIComponent(parts[next++] ?? "").replaceAll("*", "%2A"));
}

export class Transport {
  readonly options: TransportOptions;
  readonly base: string;

  constructor(options: TransportOptions) {
    if (options.url === undefined && options.binding === undefined) {
      throw new TypeError("Tally needs `url`, the address of a deployment, or `binding`, a service binding to its edge");
    }
    this.options = options;
    this.base = (options.url ?? "https://tally").replace(/\/+$/, "");
  }

  url(route: string, query: Record<string, unknown> = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined && one !== null) {
          search.append(name, String(one));
        }
      }
    }
    const text = search.toString();
    return `${this.base}${route}${text === "" ? "" : `?${text}`}`;
  }

  /** Sends once. */
  send(method: string, route: string, call: Call, headers: Record<string, string> = {}): Promise<Response> {
    const { key, binding, request } = this.options;
    const isText = typeof call.body === "string" || call.body instanceof Uint8Array;
    const init: Record<string, unknown> = {
      method,
      headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers, ...call.headers },
      signal: call.signal,
    };
    if (call.body !== undefined) init["body"] = isText ? call.body : JSON.stringify(call.body);
    // Without it a call by a binding enters nowhere, and counts in the datacenter LOCAL.
    if (request?.cf !== undefined) init["cf"] = request.cf;
    const url = this.url(route, call.query);
    if (this.options.fetch !== undefined) return this.options.fetch(url, init);
    if (binding !== undefined) return binding.fetch(url, init) as Promise<Response>;
    return fetch(url, init);
  }

  /** Sends until it is answered, and resolves to the answer. Rejects with a {@link TallyError}. */
  async answer(method: string, route: string, call: Call = {}): Promise<Response> {
    const key = call.idempotencyKey ?? (call.isWrite ? crypto.randomUUID() : undefined);
    const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
    const mayRepeat = key !== undefined || call.isSafe === true || method === "GET";
    const tries = 1 + (this.options.retries ?? RETRIES);
    let wait_ms = PAUSE_MS_MIN;
    for (let attempt = 1; ; attempt += 1) {
      const limit = AbortSignal.timeout(this.options.timeout_ms ?? TIMEOUT_MS);
      const signal = call.signal === undefined ? limit : AbortSignal.any([call.signal, limit]);
      let error: TallyError;
      try {
        const answer = await this.send(method, route, { ...call, signal }, headers);
        if (answer.ok || call.answers?.includes(answer.status)) return answer;
        error = await refusal(answer);
      } catch (cause) {
        if (call.signal?.aborted) throw call.signal.reason;
        const why =
          cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause);
        error = new TallyError(0, "no-answer", `${this.base} does not answer: ${why}`, { cause });
      }
      // What says `overloaded` counted nothing, so anything may be sent again.
      const isUnknown = error.status === 0 || error.status >= 500;
      const mayGoOn =
        (isUnknown && mayRepeat) || error.code === "overloaded" || (error.status === 429 && call.isWrite === true);
      if (!mayGoOn || error.code === "not-configured" || attempt === tries) throw error;
      const retry_after_ms = error.retry_after_ms ?? 0;
      await pause(Math.min(PAUSE_MS_MAX, Math.max(retry_after_ms, wait_ms * (0.5 + Math.random()))), call.signal);
      wait_ms = Math.min(PAUSE_MS_MAX, 2 * wait_ms);
    }
  }

  async json<T>(method: string, route: string, call: Call = {}): Promise<T> {
    return (await (await this.answer(method, route, call)).json()) as T;
  }
}

/** Returns what a refusal says. */
export async function refusal(answer: Response): Promise<TallyError> {
  const text = await answer.text().catch(() => "");
  let problem: Problem | undefined;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    problem = undefined;
  }
  const seconds = Number(answer.headers.get("retry-after") ?? NaN);
  return new TallyError(
    answer.status, problem?.code ?? "unknown", problem?.detail ?? `${answer.status} ${text.slice(0, 200)}`.trim(),
    {
      ...(problem === undefined ? {} : { problem }),
      ...(Number.isFinite(seconds) ? { retry_after_ms: seconds * 1000 } : {}),
    },
  );
}
