// Increments that are sent together: one body of /events for many.
//
// Invariant: each increment is in one body, and a body is sent under one key until it is answered. So it counts once.
import type { components } from "./api.ts";
import { Transport } from "./transport.ts";

export type Event = components["schemas"]["Event"];
export type Report = components["schemas"]["Report"];

export interface BatchOptions {
  /** A body goes when it has so many events (1,000). */
  events_max?: number | undefined;
  /** Or when its first one has waited so long (1,000). */
  wait_ms?: number | undefined;
  /** Is told of what could not be counted. Without it such an error rejects `flush()`. */
  onError?: ((error: unknown, events: Event[]) => void) | undefined;
}

const EVENTS_MAX = 1_000;
const WAIT_MS = 1_000;

export class Batch {
  readonly #transport: Transport;
  readonly #options: BatchOptions;
  #events: Event[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sent: Promise<Report>[] = [];

  constructor(transport: Transport, options: BatchOptions = {}) {
    this.#transport = transport;
    this.#options = options;
  }

  /** Adds an event. It is sent later: call `flush()` before the program ends. */
  add(event: Event): void {
    this.#events.push(event);
    if (this.#events.length >= (this.#options.events_max ?? EVENTS_MAX)) return this.#go();
    this.#timer ??= setTimeout(() => this.#go(), this.#options.wait_ms ?? WAIT_MS);
  }

  #go(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const events = this.#events;
    if (events.length === 0) return;
    this.#events = [];
    const sent = sendEvents(this.#transport, events);
    this.#sent.push(sent);
    const { onError } = this.#options;
    sent.then(
      () => (this.#sent = this.#sent.filter((one) => one !== sent)),
      (error) => {
        if (onError === undefined) return;
        this.#sent = this.#sent.filter((one) => one !== sent);
        onError(error, events);
      },
    );
  }

  /** Sends what waits, and resolves once all of it is counted. */
  async flush(): Promise<void> {
    this.#go();
    const sent = this.#sent;
    this.#sent = [];
    const outcomes = await Promise.allSettled(sent);
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined && this.#options.onError === undefined) throw failed.reason;
  }
}

/** Counts events in one body, under one key. */
export function sendEvents(transport: Transport, events: Event[], idempotencyKey?: string, signal?: AbortSignal): Promise<Report> {
  const body = events.map((event) => JSON.stringify(event)).join("\n");
  return transport.json<Report>("POST", "/events", {
    body,
    headers: { "content-type": "application/x-ndjson" },
    isWrite: true,
    idempotencyKey,
    signal,
  });
}
