// Increments that are sent together: one body of /events for many.
//
// Invariant: each event is counted once, or told to the caller: to `onError`, or to `flush()`. A body is sent under one
// key until each of its events has an answer. While an attempt may have counted something that no answer says, the same
// bytes are sent again; else what was refused for now alone. Life: add → body → sent → read the report → settled.
import type { components } from "./api.ts";
import { checkedNumber, guarded, timerMs } from "./guards.ts";
import {
  TallyError, checked, isFinal, notTally, pause, pauseOf, textOf, type Call, type Problem, type RejectedEvent,
  type Transport,
} from "./transport.ts";

export type Event = components["schemas"]["Event"];
export type Report = components["schemas"]["Report"];

export interface BatchOptions {
  /** A body goes when it has so many events (1,000; at most 4,000). */
  events_max?: number | undefined;
  /** Or when its first one has waited so long (1,000). */
  wait_ms?: number | undefined;
  /** How long events are sent again, before the caller is told that they wait (60,000). */
  flush_ms?: number | undefined;
  /** How many events may wait (100,000). Further ones are refused. */
  queue_max?: number | undefined;
  /** Is told what was refused for good, with `events`, and what could not be sent yet. Without it `flush()` rejects. */
  onError?: ((error: TallyError) => void) | undefined;
}

const EVENTS_MAX = 1_000;
// A body of more might be counted in sections, and half of it could not be sent again apart.
const EVENTS_MAX_MAX = 4_000;
const BYTES_MAX = 4 * 1024 * 1024;
const WAIT_MS = 1_000;
const FLUSH_MS = 60_000;
const QUEUE_MAX = 100_000;
// Refused events that `flush()` names where nobody listens to `onError`.
const REJECTED_MAX = 1_000;
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 10_000;
// Codes of events that may count later. Of all but the first nothing was counted.
const LATER = new Set(["unavailable", "overloaded", "too-many-counters", "quota-exceeded"]);

interface Waiting {
  event: Event;
  line: string;
  /** Whether it has a key of its own, so that it may be sent in any body. */
  isKeyed: boolean;
  /** Whether it was counted, or told to the caller. */
  isDone: boolean;
}

interface Body {
  key: string;
  waiting: Waiting[];
  bytes: number;
  /** Whether an attempt may have counted something that no answer says. */
  isUnknown: boolean;
  /** Whether there was ever such an attempt. */
  wasUnknown: boolean;
}

// Lines as a report names them, such as 3,5-6.
const LINES = /^\d+(-\d+)?(,\d+(-\d+)?)*$/;

// Whether what says which records were rejected has the form of a report. Another program may answer anything.
function isReported({ rejected_lines = [], errors = [] }: Partial<Report>): boolean {
  const isRun = (run: Partial<NonNullable<Report["rejected_lines"]>[number]> | null) =>
    typeof run?.code === "string" && typeof run.lines === "string" && LINES.test(run.lines);
  const isReason = (reason: Partial<Report["errors"][number]> | null) =>
    typeof reason?.line === "number" && typeof reason.detail === "string";
  const areLists = Array.isArray(rejected_lines) && Array.isArray(errors);
  return areLists && rejected_lines.every(isRun) && errors.every(isReason);
}

/** Returns the numbers, from 1 to `most`, of rejected records and their codes. */
function rejectedOf({ rejected_lines = [] }: Pick<Report, "rejected_lines">, most: number): Map<number, string> {
  const codes = new Map<number, string>();
  for (const { code, lines } of rejected_lines) {
    for (const run of lines.split(",")) {
      const [first = 0, last = first] = run.split("-").map(Number);
      for (let line = first; line <= Math.min(last, most); line += 1) codes.set(line, code);
    }
  }
  return codes;
}

// A body of which nothing was counted is refused by a problem that has the report.
function reportOf(problem: Problem | undefined): Report | undefined {
  const report = problem as Partial<Report> | undefined;
  return Array.isArray(report?.rejected_lines) && isReported(report) ? (report as Report) : undefined;
}

export class Batch {
  readonly #transport: Transport;
  readonly #options: BatchOptions;
  #open: Body | undefined;
  #bodies: Body[] = [];
  #count = 0;
  #rejected: RejectedEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(transport: Transport, options: BatchOptions = {}) {
    this.#transport = transport;
    this.#options = options;
    checkedNumber("events_max", options.events_max, 1);
    checkedNumber("wait_ms", options.wait_ms, 0);
    checkedNumber("flush_ms", options.flush_ms, 0);
    checkedNumber("queue_max", options.queue_max, 0);
  }

  /** Adds an event. It is sent later: call `flush()` before the program ends. */
  add(event: Event): void {
    const body = (this.#open ??= newBody());
    let waiting;
    try {
      waiting = this.#waiting(event, body);
    } catch (cause) {
      const isKnown = cause instanceof TallyError;
      const error = isKnown ? cause : new TallyError(400, "invalid-body", `the event is no JSON: ${String(cause)}`);
      if (this.#options.onError === undefined) throw error;
      return this.#refuse([{ event, code: error.code, detail: error.message }]);
    }
    const most = this.#options.queue_max ?? QUEUE_MAX;
    if (this.#count >= most) {
      const detail = `${most} events wait already: Tally does not answer, or events come faster than it takes them`;
      return this.#refuse([{ event, code: "queue-full", detail }]);
    }
    body.waiting.push(waiting);
    body.bytes += waiting.line.length;
    this.#count += 1;
    const events_max = Math.min(EVENTS_MAX_MAX, this.#options.events_max ?? EVENTS_MAX);
    if (body.waiting.length >= events_max || body.bytes >= BYTES_MAX) void this.#go();
    else this.#timer ??= setTimeout(() => void this.#go(), timerMs(this.#options.wait_ms ?? WAIT_MS));
  }

  // Whether an event may be counted is not always the same: not for a caller whom budgets judge event by event, not for
  // a visitor whose day's salt is not known, and not for an old time. Such an event needs a key of its own.
  #waiting(event: Event, body: Body): Waiting {
    checked("id", event.id);
    const needsKey = this.#transport.options.key === undefined || event.unique === "auto" || event.at !== undefined;
    const own = event.idempotency_key ?? (needsKey ? `${body.key}-${body.waiting.length}` : undefined);
    const line = textOf(own === undefined ? event : { ...event, idempotency_key: own });
    return { event, line, isKeyed: own !== undefined, isDone: false };
  }

  // Sends without being asked: what stays is told to `onError`, or to the next `flush()`, which meets it again.
  async #go(): Promise<void> {
    try {
      await this.#send();
    } catch (error) {
      this.#tell(error);
    }
  }

  #goAgain(): void {
    if (this.#timer !== undefined) return;
    const timer: { unref?(): void } | number = setTimeout(() => void this.#go(), PAUSE_MS_MAX);
    if (typeof timer === "object") timer.unref?.();
    this.#timer = timer as ReturnType<typeof setTimeout>;
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#open !== undefined && this.#open.waiting.length > 0) this.#bodies.push(this.#open);
    this.#open = undefined;
  }

  /**
   * Sends what waits, and resolves once each event was counted or told to `onError`. Without `onError` it rejects: with
   * `events` for those that were refused for good. What could not be sent stays, for the next call.
   */
  async flush(): Promise<void> {
    try {
      await this.#send();
    } catch (error) {
      if (!this.#tell(error)) throw error;
    }
    const rejected = this.#rejected;
    this.#rejected = [];
    if (rejected.length > 0) throw refusalOf(rejected);
  }

  // Tells the caller, whose function must not harm what is sent. Returns whether there is one to tell.
  #tell(error: unknown): boolean {
    const { onError } = this.#options;
    guarded("batch.onError", () => onError?.(error as TallyError));
    return onError !== undefined;
  }

  #refuse(rejected: RejectedEvent[]): void {
    if (rejected.length === 0 || this.#tell(refusalOf(rejected))) return;
    this.#rejected.push(...rejected.slice(0, REJECTED_MAX - this.#rejected.length));
  }

  #send(): Promise<void> {
    this.#close();
    const sent = this.#sending.then(async () => {
      const late_ms = performance.now() + (this.#options.flush_ms ?? FLUSH_MS);
      for (let body = this.#bodies[0]; body !== undefined; body = this.#bodies[0]) {
        await this.#deliver(body, late_ms);
        if (body === this.#bodies[0]) this.#bodies.shift();
      }
    });
    this.#sending = sent.catch(() => this.#goAgain());
    return sent;
  }

  // Sends a body until each of its events is settled. Rejects where some could not be sent in time: they stay in it.
  async #deliver(body: Body, late_ms: number): Promise<void> {
    let wait_ms = PAUSE_MS_MIN;
    for (;;) {
      const before = openOf(body).length;
      const error = await this.#attempt(body, late_ms);
      const open = openOf(body);
      if (open.length === 0 || error === undefined) return;
      if (reportOf(error.problem) === undefined) {
        // More than a budget ever has at once, or than a proxy lets through: nothing was counted.
        const isTooMuch = error.code === "cost-exceeds-limit" || (error.status === 413 && !body.wasUnknown);
        if (isTooMuch && open.length > 1) return this.#halve(open);
        if (isFinal(error)) {
          const { code, message: detail } = error;
          return this.#settle(open, open.map(({ event }) => ({ event, code, detail })));
        }
      }
      if (open.length < before) wait_ms = PAUSE_MS_MIN;
      const pause_ms = pauseOf(error, wait_ms);
      wait_ms = Math.min(PAUSE_MS_MAX, 2 * wait_ms);
      if (performance.now() + pause_ms >= late_ms) throw this.#late(error);
      await pause(pause_ms, undefined);
    }
  }

  #late({ status, code, message, retry_after_ms }: TallyError): TallyError {
    const detail = `${this.#count} events wait for the next \`flush()\`: ${message}`;
    return new TallyError(status, code, detail, retry_after_ms === undefined ? {} : { retry_after_ms });
  }

  // Sends once, and settles what the answer says. Resolves to why the rest waits.
  async #attempt(body: Body, late_ms: number): Promise<TallyError | undefined> {
    if (!body.isUnknown) body.waiting = openOf(body);
    const text = body.waiting.map(({ line }) => line).join("\n");
    const deadline_ms = Math.max(1, late_ms - performance.now());
    let failure: TallyError | undefined;
    let report: Report | undefined;
    try {
      report = await sendBody(this.#transport, text, { idempotencyKey: body.key, retries: 0, deadline_ms });
    } catch (error) {
      failure = error instanceof TallyError ? error : new TallyError(0, "no-answer", String(error), { cause: error });
      report = reportOf(failure.problem);
    }
    if (report !== undefined) {
      const why = this.#read(body, report);
      // A refusal says when to come again.
      return why !== undefined && failure !== undefined && LATER.has(failure.code) ? failure : why;
    }
    // What says `overloaded` counted nothing. Of others that do not answer, nobody knows.
    if (failure?.status === 0 || (failure !== undefined && failure.status >= 500 && failure.code !== "overloaded")) {
      body.isUnknown = body.wasUnknown = openOf(body).some(({ isKeyed }) => !isKeyed);
    }
    return failure;
  }

  // Settles what a report says. Returns the first reason of those that wait.
  #read(body: Body, report: Report): TallyError | undefined {
    const codes = rejectedOf(report, body.waiting.length);
    const details = new Map((report.errors ?? []).map(({ line, detail }) => [line, detail]));
    const settled: Waiting[] = [];
    const rejected: RejectedEvent[] = [];
    let isUnknown = false;
    let why: TallyError | undefined;
    body.waiting.forEach((waiting, index) => {
      const code = codes.get(index + 1);
      if (waiting.isDone) return;
      const detail = details.get(index + 1) ?? `the event was refused: ${code}`;
      if (code !== undefined && LATER.has(code)) {
        isUnknown ||= code === "unavailable" && !waiting.isKeyed;
        why ??= new TallyError(code === "quota-exceeded" ? 429 : 503, code, detail);
        return;
      }
      settled.push(waiting);
      // The key of a body is this client's alone: an attempt whose answer was lost has counted such an event.
      const isCounted = code === "idempotency-key-reused" && !waiting.isKeyed && body.wasUnknown;
      if (code !== undefined && !isCounted) rejected.push({ event: waiting.event, code, detail });
    });
    body.isUnknown = isUnknown;
    body.wasUnknown ||= isUnknown;
    this.#settle(settled, rejected);
    return why;
  }

  #settle(settled: Waiting[], rejected: RejectedEvent[]): void {
    for (const waiting of settled) waiting.isDone = true;
    this.#count -= settled.length;
    this.#refuse(rejected);
  }

  // Parts a body that needs more of a budget than there ever is at once.
  #halve(open: Waiting[]): void {
    const middle = Math.ceil(open.length / 2);
    const halves = [open.slice(0, middle), open.slice(middle)].map((waiting) => ({ ...newBody(), waiting }));
    this.#bodies.splice(0, 1, ...halves);
  }
}

function newBody(): Body {
  return { key: crypto.randomUUID(), waiting: [], bytes: 0, isUnknown: false, wasUnknown: false };
}

function openOf({ waiting }: Body): Waiting[] {
  return waiting.filter(({ isDone }) => !isDone);
}

function refusalOf(events: RejectedEvent[]): TallyError {
  const [{ code, detail } = { code: "unknown", detail: "" }] = events;
  const others = events.length === 1 ? "" : ` (and ${events.length - 1} more)`;
  const id: unknown = events[0]?.event.id;
  const shown = typeof id === "string" ? JSON.stringify(id) : `a ${typeof id}`;
  return new TallyError(400, code, `an event of ${shown} was refused: ${detail}${others}`, { events });
}

async function sendBody(transport: Transport, body: string, call: Partial<Call>): Promise<Report> {
  const report = await transport.json<Report>("POST", "/events", {
    body, headers: { "content-type": "application/x-ndjson" }, isWrite: true, ...call,
  });
  // Another program that answers has counted nothing.
  if (typeof report.accepted === "number" && isReported(report)) return report;
  throw notTally(200, "a report");
}

/** Counts events in one body, under one key. */
export function sendEvents(
  transport: Transport, events: Event[], idempotencyKey?: string, signal?: AbortSignal,
): Promise<Report> {
  return sendBody(transport, events.map(textOf).join("\n"), { idempotencyKey, signal });
}
