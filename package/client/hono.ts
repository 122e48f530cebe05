// Limits for Hono:  app.use("/api/*", limit(tally, { policy: "api", key: (c) => c.req.header("x-user") ?? "nobody" }))
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

/** Returns middleware that asks the limit before each request. The verdict is `c.get("tally")`. */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (context: any, next: () => Promise<void>): Promise<Response | void> => {
    const c = context as HonoContext;
    const key = options.key === undefined ? addressOf(c) : await options.key(context);
    const { verdict, headers, refusal } = await judge(tally, options, key);
    if (refusal !== undefined) {
      return c.json(refusal.body, refusal.status, { ...headers, "content-type": "application/problem+json" });
    }
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    c.set("tally", verdict);
    await next();
  };
}

function addressOf(c: HonoContext): string {
  const address = c.req.header("cf-connecting-ip");
  if (address === undefined) throw new TypeError("no `cf-connecting-ip`: say by `key` whose quota a request uses");
  return address;
}
