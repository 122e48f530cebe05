// Counters as they change: server-sent events read by `fetch`, so that a key can be sent, which `EventSource` cannot.
import type { components } from "./api.ts";
import { guarded } from "./guards.ts";
import { TallyError, checked, isFinal, refusal, type Transport } from "./transport.ts";

export type LiveCounter = components["schemas"]["LiveCounter"];
export type LiveCounters = Record<string, LiveCounter | null>;

const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 30_000;
// The server sends a ping every 15 s: a stream without a word for three of them is dead.
const SILENCE_MS_MAX = 45_000;

/**
 * Calls `onUpdate` with the newest state of all these counters at each change, until the returned function is called. A
 * counter that does not exist is `null`. A stream that ends is opened again; `onError` is told why, and what is refused
 * for good ends it.
 */
export function watch(
  transport: Transport,
  ids: string[],
  onUpdate: (counters: LiveCounters) => void,
  onError: (error: unknown) => void = () => {},
): () => void {
  const end = new AbortController();
  // A counter may be called `__proto__`.
  const counters = new Map<string, LiveCounter | null>();
  // What the caller's functions throw must not end the stream.
  const tell = (error: unknown) => guarded("onError", () => onError(error));
  void follow();
  return () => end.abort();

  async function follow(): Promise<void> {
    let last: string | undefined;
    let pause_ms = PAUSE_MS_MIN;
    while (!end.signal.aborted) {
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      try {
        for (const id of ids) checked("id", id);
        const headers = { accept: "text/event-stream", ...(last === undefined ? {} : { "last-event-id": last }) };
        const send = transport.prepared("GET", "/live", { query: { id: ids } }, headers);
        const answer = await send(AbortSignal.any([end.signal, silence.signal]));
        if (!answer.ok || answer.body === null) throw await refusal(answer);
        for await (const { id, data } of messages(answer.body)) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
          pause_ms = PAUSE_MS_MIN;
          last = id ?? last;
          const message = transport.parse(data) as { type: string; counters?: LiveCounters };
          if (message.type !== "update" || end.signal.aborted) continue;
          for (const [name, state] of Object.entries(message.counters ?? {})) counters.set(name, state);
          guarded("onUpdate", () => onUpdate(Object.fromEntries(counters)), tell);
        }
        throw new TallyError(0, "no-answer", `${transport.base} has ended the stream`);
      } catch (error) {
        if (end.signal.aborted) return;
        tell(error);
        if (error instanceof TallyError && isFinal(error)) return;
        const after_ms = error instanceof TallyError ? (error.retry_after_ms ?? 0) : 0;
        pause_ms = Math.min(PAUSE_MS_MAX, Math.max(after_ms, pause_ms));
      } finally {
        clearTimeout(timer);
        // Nobody reads what is left of the stream.
        silence.abort();
      }
      await new Promise<void>((done) => {
        const go = () => (clearTimeout(wait), end.signal.removeEventListener("abort", go), done());
        const wait = setTimeout(go, pause_ms);
        end.signal.addEventListener("abort", go);
      });
      pause_ms = Math.min(PAUSE_MS_MAX, 2 * pause_ms);
    }
  }
}

/** Yields the messages of a stream of server-sent events. Source: HTML standard, section 9.2.6. */
async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string | undefined; data: string }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let id: string | undefined;
  let data: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const lines = rest.split(/\r\n|\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { id, data: data.join("\n") };
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      else if (line.startsWith("id:")) id = line.slice(3).trim();
    }
  }
}

/** A counter that is watched while somebody looks: what React calls an external store. */
export interface CounterStore {
  /** Calls back at each change, until the returned function is called. */
  subscribe(onChange: () => void): () => void;
  /** The newest state; `undefined` before the first update, `null` while the counter does not exist. */
  getSnapshot(): LiveCounter | null | undefined;
}

/** Returns a store of one counter. One stream serves all who subscribe, and ends with the last of them. */
export function counterStore(transport: Transport, id: string): CounterStore {
  const listeners = new Set<() => void>();
  let state: LiveCounter | null | undefined;
  let stop: (() => void) | undefined;
  return {
    subscribe(onChange) {
      listeners.add(onChange);
      stop ??= watch(transport, [id], (counters) => {
        state = counters[id];
        for (const listener of listeners) guarded("subscribe", listener);
      });
      return () => {
        listeners.delete(onChange);
        if (listeners.size > 0) return;
        stop?.();
        stop = undefined;
      };
    },
    getSnapshot: () => state,
  };
}
