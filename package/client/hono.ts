// Limits for Hono:  app.use("/api/*", limit(tally, { policy: "api", key: (c) => c.req.header("x-user") }))
import type { Tally } from "./index.ts";
import { judge, type LimitOptions } from "./limits.ts";

export type { LimitOptions } from "./limits.ts";

/** What of Hono's context is used: no type of Hono's is needed to install this package. */
export interface HonoContext {
  req: { header(name: string): string | undefined };
  header(name: string, value: string): void;
  json(body: unknown, status: number, headers?: Record<string, string>): Response;
  set(name: string, value: unknown): void;
}

/**
 * Returns middleware that asks the limit before each request. The verdict is `c.get("tally")`, undefined where Tally
 * does not answer. Without `key` the quota is that of `CF-Connecting-IP`, of IPv6 that of its network.
 */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (context: any, next: () => Promise<void>): Promise<Response | void> => {
    const c = context as HonoContext;
    const judged = await judge(tally, options, context, () => c.req.header("cf-connecting-ip"));
    const { verdict, headers, refusal } = judged;
    if (refusal !== undefined) {
      return c.json(refusal.body, refusal.status, { ...headers, "content-type": "application/problem+json" });
    }
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    c.set("tally", verdict);
    await next();
  };
}
