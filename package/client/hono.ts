// Limits for Hono:  app.use("/api/*", limit(tally, { policy: "api", key: (c) => c.req.header("x-user") }))
import type { Tally } from "./index.ts";
import { judge, type LimitOptions } from "./limits.ts";

export type { LimitOptions } from "./limits.ts";

/** What of Hono's context is used: no type of Hono's is needed to install this package. */
export interface HonoContext {
  req: { header(name: string): string | undefined; method: string; raw: { signal?: AbortSignal } };
  header(name: string, value: string): void;
  json(body: unknown, status: number, headers?: Record<string, string>): Response;
  set(name: string, value: unknown): void;
  res: Response;
  finalized: boolean;
  executionCtx: { waitUntil(work: Promise<unknown>): void };
}

// How often it is looked whether the body of an answer that nobody has begun to read is still to be sent.
const LOOK_MS = 1_000;

/**
 * Returns middleware that asks the limit before each request. The verdict is `c.get("tally")`, undefined where Tally
 * does not answer. Without `key` the quota is that of `CF-Connecting-IP`, of IPv6 that of its network. What a request
 * holds is released when the body of its response has ended, or its client hangs up. An answer that other middleware
 * has given meanwhile, such as a time limit, is not touched.
 */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (context: any, next: () => Promise<void>): Promise<Response | void> => {
    const c = context as HonoContext;
    const judged = await judge(tally, options, context, () => c.req.header("cf-connecting-ip"));
    const { verdict, headers, refusal, release } = judged;
    const isAnswered = c.finalized;
    if (refusal !== undefined) {
      if (isAnswered) return;
      return c.json(refusal.body, refusal.status, { ...headers, "content-type": "application/problem+json" });
    }
    if (!isAnswered) for (const [name, value] of Object.entries(headers)) c.header(name, value);
    c.set("tally", verdict);
    if (release === undefined) return next();
    const over = () => lasting(c, release());
    try {
      await next();
    } catch (error) {
      over();
      throw error;
    }
    const { signal } = c.req.raw;
    // Nobody reads, or cancels, the body of an answer to HEAD, or to a client that has hung up.
    if (isAnswered || c.req.method === "HEAD" || signal?.aborted) return over();
    if (!heldByBody(c, over)) return over();
    signal?.addEventListener("abort", over, { once: true });
  };
}

// What is called when each body has ended that middleware of ours watches: a request may pass several.
const ends = new WeakMap<ReadableStream, Set<() => void>>();

// Has `over` called when the body of the answer has ended. Returns false where there is no body, or somebody else reads
// it already: a server reads the answer of a time limit while its handler still runs.
function heldByBody(c: HonoContext, over: () => void): boolean {
  const { body } = c.res;
  if (body === null || body.locked || c.res.bodyUsed) return false;
  const known = ends.get(body);
  if (known !== undefined) return known.add(over), true;
  const all = new Set([over]);
  const ended = () => all.forEach((one) => one());
  let isRead = false;
  c.res = new Response(watched(body, () => (isRead = true), ended), c.res);
  // Hono makes a response of its own of it.
  const own = c.res.body;
  if (own !== null) ends.set(own, all);
  const look = () => {
    if (isRead) return;
    // Middleware outside has put another answer there, or has given the first one before.
    if (c.res.body !== own || body.locked) return ended();
    lookLater();
  };
  const lookLater = () => {
    const timer: { unref?(): void } | number = setTimeout(look, LOOK_MS);
    if (typeof timer === "object") timer.unref?.();
  };
  lookLater();
  return true;
}

// Has a release outlive its request in Workers; elsewhere programs wait for it anyway.
function lasting(c: HonoContext, release: Promise<void>): void {
  try {
    c.executionCtx.waitUntil(release);
  } catch {
    // Hono throws where there is none.
  }
}

// The same body, which calls `begun` when somebody begins to read it, and `over` when it has ended, failed, or nobody
// reads it any more. Until then it leaves the body to others.
function watched(
  body: ReadableStream<Uint8Array>, begun: () => void, over: () => void,
): ReadableStream<Uint8Array> {
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const read = () => {
    begun();
    return (reader ??= body.getReader());
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await read().read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      over();
    },
    cancel(reason) {
      over();
      return read().cancel(reason);
    },
  }, { highWaterMark: 0 });
}
