// Limits for Express:  app.use("/api", limit(tally, { policy: "api", key: (request) => request.user.id }))
import type { Tally } from "./index.ts";
import { judge, type LimitOptions } from "./limits.ts";

export type { LimitOptions } from "./limits.ts";

interface ExpressResponse {
  set(headers: Record<string, string>): unknown;
  status(status: number): { type(type: string): { send(body: string): unknown } };
  locals: Record<string, unknown>;
  once(event: "close", then: () => void): unknown;
  closed: boolean;
  headersSent: boolean;
}

/**
 * Returns middleware that asks the limit before each request. The verdict is `response.locals.tally`, undefined where
 * Tally does not answer. Without `key` the quota is that of `request.ip`, of IPv6 that of its network: set Express's
 * `trust proxy` behind a proxy. What a request holds is released when its response is closed.
 */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (request: any, answer: any, next: (error?: unknown) => void): Promise<void> => {
    const response = answer as ExpressResponse;
    const { verdict, headers, refusal, release } = await judge(tally, options, request, () => request.ip);
    // A client may have hung up meanwhile.
    if (response.closed) void release?.();
    else if (release !== undefined) response.once("close", release);
    try {
      // An answer that other middleware has given, such as a time limit, is not touched.
      if (!response.headersSent) response.set(headers);
      if (refusal !== undefined) {
        if (response.headersSent) return;
        return void response.status(refusal.status).type("application/problem+json").send(JSON.stringify(refusal.body));
      }
      response.locals["tally"] = verdict;
    } catch (error) {
      return next(error);
    }
    next();
  };
}
