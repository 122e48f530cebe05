// Limits for Express:  app.use("/api", limit(tally, { policy: "api", key: (request) => request.user.id }))
import type { Tally } from "./index.ts";
import { judge, type LimitOptions } from "./limits.ts";

export type { LimitOptions } from "./limits.ts";

interface ExpressResponse {
  set(headers: Record<string, string>): unknown;
  status(status: number): { type(type: string): { send(body: string): unknown } };
  locals: Record<string, unknown>;
}

/**
 * Returns middleware that asks the limit before each request. The verdict is `response.locals.tally`. Without `key` the
 * quota is that of `request.ip`.
 */
export function limit(tally: Tally, options: LimitOptions<any>) {
  return async (request: any, answer: any, next: (error?: unknown) => void): Promise<void> => {
    const response = answer as ExpressResponse;
    try {
      const key = options.key === undefined ? String(request.ip) : await options.key(request);
      const { verdict, headers, refusal } = await judge(tally, options, key);
      response.set(headers);
      if (refusal !== undefined) {
        return void response.status(refusal.status).type("application/problem+json").send(JSON.stringify(refusal.body));
      }
      response.locals["tally"] = verdict;
    } catch (error) {
      return next(error);
    }
    next();
  };
}
