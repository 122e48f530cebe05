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
  executionCtx: { waitUntil(work: Promise<unknown>): void };
}

/**
 * Returns middleware that asks the limit before each request. The verdict is `c.get("tally")`, undefined where Tally
 * does not answer. Without `key` the quota is that of `CF-Connecting-IP`, of IPv6 that of its network. What a request
 * holds is released when the body of its response has ended, or its client hangs up.
 */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (context: any, next: () => Promise<void>): Promise<Response | void> => {
    const c = context as HonoContext;
    const judged = await judge(tally, options, context, () => c.req.header("cf-connecting-ip"));
    const { verdict, headers, refusal, release } = judged;
    if (refusal !== undefined) {
      return c.json(refusal.body, refusal.status, { ...headers, "content-type": "application/problem+json" });
    }
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    c.set("tally", verdict);
    if (release === undefined) return next();
    const over = () => lasting(c, release());
    try {
      await next();
    } catch (error) {
      over();
      throw error;
    }
    const { body } = c.res;
    const { signal } = c.req.raw;
    // Nobody reads, or cancels, the body of an answer to HEAD, or to a client that has hung up.
    if (body === null || c.req.method === "HEAD" || signal?.aborted) return over();
    signal?.addEventListener("abort", over, { once: true });
    c.res = new Response(watched(body, over), c.res);
  };
}

// Has a release outlive its request in Workers; elsewhere programs wait for it anyway.
function lasting(c: HonoContext, release: Promise<void>): void {
  try {
    c.executionCtx.waitUntil(release);
  } catch {
    // Hono throws where there is none.
  }
}

// The same body, which calls `over` when it has ended, failed, or nobody reads it any more.
function watched(body: ReadableStream<Uint8Array>, over: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      over();
    },
    cancel(reason) {
      over();
      return reader.cancel(reason);
    },
  });
}
