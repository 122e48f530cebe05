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
  /** Is told why a body could not be sent. It is sent again with the next one, under the same key. */
  onError?: ((error: unknown) => void) | undefined;
}

const EVENTS_MAX = 1_000;
const WAIT_MS = 1_000;

interface Body {
  key: string;
  events: Event[];
}

export class Batch {
  readonly #transport: Transport;
  readonly #options: BatchOptions;
  #events: Event[] = [];
  #bodies: Body[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(transport: Transport, options: BatchOptions = {}) {
    this.#transport = transport;
    this.#options = options;
  }

  /** Adds an event. It is sent later: call `flush()` before the program ends. */
  add(event: Event): void {
    this.#events.push(event);
    if (this.#events.length >= (this.#options.events_max ?? EVENTS_MAX)) void this.#go();
    else this.#timer ??= setTimeout(() => void this.#go(), this.#options.wait_ms ?? WAIT_MS);
  }

  #go(): Promise<void> {
    this.#close();
    return this.flush().catch((error) => this.#options.onError?.(error));
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#events.length > 0) this.#bodies.push({ key: crypto.randomUUID(), events: this.#events });
    this.#events = [];
  }

  /**
   * Sends what waits, and resolves once all of it is counted. Rejects where a body could not be sent: it stays, for the
   * next call.
   */
  flush(): Promise<void> {
    this.#close();
    const sent = this.#sending.then(async () => {
      for (let body = this.#bodies[0]; body !== undefined; body = this.#bodies[0]) {
        await sendEvents(this.#transport, body.events, body.key);
        this.#bodies.shift();
      }
    });
    this.#sending = sent.catch(() => {});
    return sent;
  }
}

/** Counts events in one body, under one key. */
export function sendEvents(
  transport: Transport, events: Event[], idempotencyKey?: string, signal?: AbortSignal,
): Promise<Report> {
  const body = events.map((event) => JSON.stringify(event)).join("\n");
  return transport.json<Report>("POST", "/events", {
    body,
    headers: { "content-type": "application/x-ndjson" },
    isWrite: true,
    idempotencyKey,
    signal,
  });
}
