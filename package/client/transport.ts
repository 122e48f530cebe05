// One HTTP call, sent again until it is answered or its tries are used up.
//
// Invariant: what may count is sent again only under one `Idempotency-Key`, drawn before the first try, or where
// nothing can have been counted. So a write counts once however often it is sent.
import type { components } from "./api.ts";
import { checkedNumber, signalOf, timerMs } from "./guards.ts";

export type Problem = components["schemas"]["Problem"];

/** The part of `fetch` that is needed: that of a browser, of Node, of a service binding, of Miniflare. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A service binding of Workers. */
export interface Binding {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the types of Workers and of the DOM differ
  fetch(input: any, init?: any): Promise<any>;
}

/** An event of `count()` that was refused for good. */
export interface RejectedEvent {
  event: components["schemas"]["Event"];
  code: string;
  detail: string;
}

/** A refusal, or no answer in any try. */
export class TallyError extends Error {
  /** The status; 0 where nothing answered. */
  readonly status: number;
  /** The problem's stable code, or one of the client's own: see the table in docs/develop/clients.md. */
  readonly code: string;
  /** When to ask again, in milliseconds, where the server said so. */
  readonly retry_after_ms: number | undefined;
  /** The whole problem document. */
  readonly problem: Problem | undefined;
  /** Of `count()` and `flush()`: the events that were refused for good. */
  readonly events: RejectedEvent[];
  /**
   * Of `limit()` without a verdict: what the policy says of that, `closed` or `open`; undefined where it is not known.
   */
  on_error: "open" | "closed" | undefined;

  constructor(
    status: number, code: string, detail: string,
    more: { problem?: Problem; retry_after_ms?: number; cause?: unknown; events?: RejectedEvent[] } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = "TallyError";
    this.status = status;
    this.code = code;
    this.problem = more.problem;
    this.retry_after_ms = more.retry_after_ms;
    this.events = more.events ?? [];
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
  /** How long a check of a limit may take, all its tries together (1,000). */
  check_ms?: number | undefined;
  /** Reads the JSON of answers instead of `JSON.parse`, which rounds whole numbers above 2^53. */
  parse?: ((text: string) => unknown) | undefined;
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
  /** Whether a call may be repeated without one. A `GET` may, unless it counts. */
  isSafe?: boolean | undefined;
  /** Statuses that are answers and no refusals. */
  answers?: number[] | undefined;
  /** Tries after the first, instead of those of the client. */
  retries?: number | undefined;
  /** How long all tries together may take. */
  deadline_ms?: number | undefined;
  signal?: AbortSignal | undefined;
}

const RETRIES = 5;
const TIMEOUT_MS = 10_000;
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 10_000;

export const pause = (ms: number, signal: AbortSignal | undefined) =>
  new Promise<void>((done, failed) => {
    const stop = () => {
      clearTimeout(timer);
      failed(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, timerMs(ms));
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });

const ID_BYTES_MAX = 512;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/;
// A problem has some hundred bytes, and no more than this.
const REFUSAL_BYTES_MAX = 64 * 1024;
// Calls by `GET` that count at each request.
const COUNTING = /^\/(?:hit|pixel)\//;
// Source: docs/guide/exactness.md.
const KEY_CHARACTERS_MAX = 255;

// What is wrong with an id; undefined for a valid one. A prefix may be empty, and may be dots. Source:
// docs/guide/counters.md.
function faultOf(id: unknown, isPrefix: boolean): string | undefined {
  if (typeof id !== "string") return `is ${id === null ? "null" : typeof id}: send a text`;
  if (!isPrefix && id === "") return "is empty: send a text of 1 to 512 bytes";
  if (!isPrefix && /^\.{1,2}$/.test(id)) return `is "${id}", which URL parsers take out of paths: send another text`;
  if (/\p{Cc}/u.test(id)) return `is ${JSON.stringify(id)}: leave out its control characters`;
  if (/\p{Cs}/u.test(id)) return `is ${JSON.stringify(id)}, which begins or ends within a character: cut it elsewhere`;
  const bytes = new TextEncoder().encode(id).length;
  return bytes > ID_BYTES_MAX ? `has ${bytes} bytes of UTF-8: send at most ${ID_BYTES_MAX}` : undefined;
}

/** Returns an id if it is valid; else throws a {@link TallyError} that names the argument. */
export function checked(name: string, id: unknown): string {
  const fault = faultOf(id, name === "prefix");
  if (fault !== undefined) throw new TallyError(400, "invalid-id", `\`${name}\` ${fault}`);
  return id as string;
}

/** Returns the JSON of a body. A field that JSON would leave out is null, so that the server refuses it by its name. */
export function textOf(body: unknown): string {
  const isNone = (value: unknown) => typeof value === "function" || typeof value === "symbol";
  return JSON.stringify(body, (_, value: unknown) => (isNone(value) ? null : value));
}

/**
 * Returns the path of a template: `path("/counters/{id}", id)`, each part percent-encoded. Throws a {@link TallyError}
 * for a part that is not valid. A prefix, which an asterisk follows, may be empty.
 */
export function path(template: string, ...parts: string[]): string {
  let next = 0;
  // A key of the name `overrides` would be the list of its policy's overrides.
  return template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(checked(name, parts[next++])).replace(/^overrides$/, "%6Fverrides"),
  );
}

// Returns the key of a write; undefined for none. An object would be "[object Object]", the one key of all writes.
function idempotencyKeyOf(key: unknown): string | undefined {
  if (key === undefined || key === null) return undefined;
  const isKey =
    typeof key === "string" && key.length <= KEY_CHARACTERS_MAX &&
    /^[ -~]*[!-~][ -~]*$/.test(key) && !key.includes(", ");
  if (isKey) return key;
  const shown = typeof key === "string" ? JSON.stringify(key.slice(0, 300)) : `a ${typeof key}`;
  const detail = `send 1 to ${KEY_CHARACTERS_MAX} visible ASCII characters, no space after a comma, and another for each write`;
  throw new TallyError(400, "invalid-idempotency-key", `\`idempotencyKey\` is ${shown}: ${detail}`);
}

/**
 * Returns the address of a deployment without a slash at its end. Pages may name it by a path of their own. Throws for
 * another text; the error names the option, and quotes no text that may have a password.
 */
export function baseOf(url: unknown, name = "`url`"): string {
  if (typeof url !== "string") throw new TypeError(`${name} is a ${typeof url}: pass a text such as https://tally.example.com`);
  const base = url.replace(/\/+$/, "");
  const here = (globalThis as { location?: { href?: string } }).location?.href;
  let parsed: URL | undefined;
  try {
    parsed = new URL(base, here);
  } catch {
    parsed = undefined;
  }
  const isAddress = parsed !== undefined && /^https?:$/.test(parsed.protocol) && !/[?#]/.test(base);
  if (parsed?.username || parsed?.password || (!isAddress && base.includes("@"))) {
    throw new TypeError(`${name} has a user name or a password: leave them out, because a key has its own option`);
  }
  if (!isAddress) {
    throw new TypeError(`${name} is ${JSON.stringify(url)}: write it without \`?\` and \`#\`, such as https://tally.example.com`);
  }
  return base;
}

// Resolves or rejects as `work` does, or rejects once the signal is aborted, whether or not `work` heeds it.
function until<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise<T>((done, failed) => {
    const stop = () => failed(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(done, failed).finally(() => signal.removeEventListener("abort", stop));
  });
}

// A redirect names another place, which may be anybody's: it gets neither the key nor the write.
function redirectOf(base: string, answer: Response): TallyError | undefined {
  const { status } = answer;
  const names = status >= 300 && status < 400 && status !== 304;
  if (!names && answer.type !== "opaqueredirect" && !answer.redirected) return undefined;
  const to = answer.headers.get("location");
  const where = to === null ? "" : ` to ${to.slice(0, 200)}`;
  return new TallyError(status, "redirected", `${base} redirects${where}: set \`url\` to the address at which Tally itself answers`);
}

// Returns a key as a header carries it; undefined for none. A file of a key ends in a line feed. The error does not
// quote the key, because errors go to logs.
function keyOf(key: unknown): string | undefined {
  if (key === undefined || key === null) return undefined;
  if (typeof key !== "string") throw new TypeError(`\`key\` is a ${typeof key}: pass a text`);
  const text = key.trim();
  if (!/^[\x21-\x7e]*$/.test(text)) {
    throw new TypeError("`key` has a space, a line feed or a character that is not ASCII: pass the key alone");
  }
  return text === "" ? undefined : text;
}

export class Transport {
  readonly options: TransportOptions;
  readonly base: string;
  readonly parse: (text: string) => unknown;

  constructor(options: TransportOptions) {
    if ((options?.url ?? options?.binding ?? undefined) === undefined) {
      throw new TypeError("Tally needs `url`, the address of a deployment, or `binding`, a service binding to its edge");
    }
    this.options = { ...options, key: keyOf(options.key) };
    this.base = baseOf(options.url ?? "https://tally");
    this.parse = options.parse ?? JSON.parse;
    checkedNumber("retries", options.retries, 0);
    checkedNumber("timeout_ms", options.timeout_ms, 1);
    checkedNumber("check_ms", options.check_ms, 1);
  }

  url(route: string, query: Record<string, unknown> = {}): string {
    // Anything else would continue the host's name, and the key would go there.
    if (!/^\/(?!\/)/.test(route)) {
      throw new TallyError(400, "invalid-path", `the path ${JSON.stringify(route)} does not begin with one slash: write it as /healthz`);
    }
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one === undefined || one === null) continue;
        if (/\p{Cs}/u.test(String(one))) checked(name, one);
        search.append(name, String(one));
      }
    }
    const text = search.toString();
    return `${this.base}${route}${text === "" ? "" : `?${text}`}`;
  }

  /**
   * Returns a function that sends once, and rejects where the answer is a redirect. Throws where the arguments make no
   * request: that is the caller's fault, and no answer of a server that is away.
   */
  prepared(
    method: string, route: string, call: Call, headers: Record<string, string> = {},
  ): (signal: AbortSignal | undefined) => Promise<Response> {
    const { key, binding, request } = this.options;
    const isText = typeof call.body === "string" || call.body instanceof Uint8Array;
    const init: Record<string, unknown> = {
      method,
      headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers, ...call.headers },
      // Workers do not know "error".
      redirect: "manual",
    };
    if (call.body !== undefined) init["body"] = isText ? call.body : textOf(call.body);
    // Without it a call by a binding enters nowhere, and counts in the datacenter LOCAL.
    if (request?.cf !== undefined) init["cf"] = request.cf;
    const url = this.url(route, call.query);
    return async (signal) => {
      const made: Record<string, unknown> = { ...init, signal };
      const sent = this.options.fetch?.(url, made) ?? binding?.fetch(url, made) ?? fetch(url, made);
      const answer = (await sent) as Response;
      const redirect = redirectOf(this.base, answer);
      if (redirect !== undefined) throw redirect;
      return answer;
    };
  }

  /** Sends until it is answered, and resolves to the answer. Rejects with a {@link TallyError}. */
  answer(method: string, route: string, call: Call = {}): Promise<Response> {
    return this.read(method, route, call, (answer) => Promise.resolve(answer));
  }

  /** Sends until it is answered and the answer is read, and resolves to what was read. */
  async read<T>(method: string, route: string, asked: Call, reading: (answer: Response) => Promise<T>): Promise<T> {
    const call = { ...asked, signal: signalOf(asked.signal) };
    checkedNumber("deadline_ms", call.deadline_ms, 1);
    const key = idempotencyKeyOf(call.idempotencyKey) ?? (call.isWrite ? crypto.randomUUID() : undefined);
    const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
    const mayRepeat = key !== undefined || (call.isSafe ?? (method === "GET" && !COUNTING.test(route)));
    const send = this.prepared(method, route, call, headers);
    const tries = 1 + (call.retries ?? this.options.retries ?? RETRIES);
    const late_ms = performance.now() + (call.deadline_ms ?? Infinity);
    let wait_ms = PAUSE_MS_MIN;
    for (let attempt = 1; ; attempt += 1) {
      const { value, error } = await this.#attempt(send, call, late_ms, reading);
      if (error === undefined) return value as T;
      // What says `overloaded` counted nothing, so anything may be sent again.
      const isUnknown = error.status === 0 || error.status >= 500;
      const mayGoOn =
        (isUnknown && mayRepeat) || error.code === "overloaded" || (error.status === 429 && call.isWrite === true);
      if (!mayGoOn || error.code === "not-configured" || attempt >= tries) throw error;
      const pause_ms = pauseOf(error, wait_ms);
      if (performance.now() + pause_ms >= late_ms) throw error;
      await pause(pause_ms, call.signal);
      wait_ms = Math.min(PAUSE_MS_MAX, 2 * wait_ms);
    }
  }

  // One try: what was read, or why it was not.
  async #attempt<T>(
    send: (signal: AbortSignal | undefined) => Promise<Response>, call: Call, late_ms: number,
    reading: (answer: Response) => Promise<T>,
  ): Promise<{ value?: T; error?: TallyError }> {
    const end = new AbortController();
    const limit_ms = Math.min(this.options.timeout_ms ?? TIMEOUT_MS, Math.max(0, late_ms - performance.now()));
    const late = () => end.abort(new Error(`no answer within ${Math.ceil(limit_ms)} ms`));
    const timer = setTimeout(late, timerMs(limit_ms));
    const signal = call.signal === undefined ? end.signal : AbortSignal.any([call.signal, end.signal]);
    try {
      const answer = await until(signal, send(signal));
      if (answer.ok || call.answers?.includes(answer.status)) return { value: await until(signal, reading(answer)) };
      return { error: await until(signal, refusal(answer)) };
    } catch (cause) {
      // Nobody reads what is left of the answer.
      end.abort();
      if (call.signal?.aborted) throw call.signal.reason;
      if (cause instanceof TallyError) throw cause;
      const why =
        cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : String(cause);
      return { error: new TallyError(0, "no-answer", `${this.base} does not answer: ${why}`, { cause }) };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends until it is answered, and resolves to the JSON object of the answer. */
  json<T>(method: string, route: string, call: Call = {}): Promise<T> {
    return this.read(method, route, call, async (answer) => {
      const said = await jsonOf<T>(answer, this.parse);
      if (Array.isArray(said)) throw notTally(answer.status, "an object");
      return said;
    });
  }
}

/** Whether a call that was refused so is refused always. A redirect of a browser has no status. */
export function isFinal({ status, code }: TallyError): boolean {
  return code === "redirected" || (status > 0 && status < 500 && status !== 408 && status !== 429);
}

/** Returns how long to wait after an error: what the server says, else `wait_ms`, somewhat spread. */
export function pauseOf(error: TallyError, wait_ms: number): number {
  return Math.min(PAUSE_MS_MAX, Math.max(error.retry_after_ms ?? 0, wait_ms * (0.5 + Math.random())));
}

/** Returns when an answer says to ask again: in seconds, or at a time. Source: RFC 9110, sections 10.2.3 and 5.6.7. */
export function retryAfterMs({ headers }: Response): number | undefined {
  const text = headers.get("retry-after") ?? "";
  if (/^\d{1,15}$/.test(text)) return 1000 * Number(text);
  // The form of C has no zone, and means UTC as the others do.
  const time_ms = HTTP_DATE.test(text) ? Date.parse(`${text.replace(/ GMT$/, "")} GMT`) : NaN;
  return Number.isNaN(time_ms) ? undefined : Math.max(0, time_ms - Date.now());
}

/** Returns the error for an answer that lacks what Tally's answers have: another program gives it. */
export function notTally(status: number, lacks: string, text = "", cause?: unknown): TallyError {
  const shown = text === "" ? "" : `: ${text.slice(0, 200)}`;
  return new TallyError(status, "not-tally", `${status} without ${lacks}, so it is not Tally that answers${shown}`, { cause });
}

/** Returns the JSON object or list of an answer. Rejects with a {@link TallyError} where it has none. */
export async function jsonOf<T>(answer: Response, parse: (text: string) => unknown = JSON.parse): Promise<T> {
  const text = await answer.text();
  let said: unknown;
  try {
    said = parse(text);
  } catch (cause) {
    throw notTally(answer.status, "JSON", text, cause);
  }
  if (typeof said === "object" && said !== null) return said as T;
  throw notTally(answer.status, "an object", text);
}

// The beginning of an answer's text. What answers instead of Tally may never end.
async function beginningOf(answer: Response): Promise<string> {
  // Some hosts of `fetch` have no streams.
  if (answer.body === undefined) return answer.text();
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  while (reader !== undefined && bytes < REFUSAL_BYTES_MAX) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  return text;
}

/** Returns what a refusal says. */
export async function refusal(answer: Response): Promise<TallyError> {
  const text = await beginningOf(answer).catch(() => "");
  let problem: Problem | undefined;
  try {
    const said: unknown = JSON.parse(text);
    problem = typeof said === "object" && said !== null && !Array.isArray(said) ? (said as Problem) : undefined;
  } catch {
    problem = undefined;
  }
  const retry_after_ms = retryAfterMs(answer);
  // Another program's problem may have anything in their places.
  const { code, detail } = (problem ?? {}) as Record<string, unknown>;
  return new TallyError(
    answer.status, typeof code === "string" ? code : "unknown",
    typeof detail === "string" ? detail : `${answer.status} ${text.slice(0, 200)}`.trim(),
    {
      ...(problem === undefined ? {} : { problem }),
      ...(retry_after_ms === undefined ? {} : { retry_after_ms }),
    },
  );
}
