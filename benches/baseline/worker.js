// The baseline of the benchmark: counters the way Cloudflare documents them. One Durable Object per
// counter, called by RPC once per request, one SQL upsert per increment. Nothing is joined or cached.
//
// It answers the same paths as Tally with as much as the benchmark looks at, and checks no input:
// that makes it faster, never slower. The class is `Counter`, the binding `COUNTERS`.
// Source: developers.cloudflare.com/durable-objects/examples/build-a-counter (RPC methods,
// `getByName`) and …/durable-objects/api/sqlite-storage-api (`sql.exec` with a cursor).
import { DurableObject } from "cloudflare:workers";

export class Counter extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.sql.exec("CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)");
  }

  // The platform holds the answer back until the write is durable (output gate).
  increment(delta) {
    return this.sql
      .exec(
        `INSERT INTO counter (id, value) VALUES (1, ?)
         ON CONFLICT (id) DO UPDATE SET value = value + excluded.value RETURNING value`,
        delta,
      )
      .one().value;
  }

  value() {
    return this.sql.exec("SELECT value FROM counter").toArray()[0]?.value ?? 0;
  }
}

/**
 * Rate limits the way Cloudflare documents them: one object per key, in memory alone, called by RPC for each request;
 * an alarm refills its tokens. Source: developers.cloudflare.com/durable-objects/examples/build-a-rate-limiter
 */
export class RateLimiter extends DurableObject {
  static ms_per_request = 0.001;
  static ms_for_updates = 5_000;
  static capacity = 1_000_000_000;

  constructor(ctx, env) {
    super(ctx, env);
    this.tokens = RateLimiter.capacity;
  }

  async millisecondsToNextRequest() {
    await this.refillSoon();
    if (this.tokens === 0) return RateLimiter.ms_per_request;
    this.tokens -= 1;
    return 0;
  }

  async refillSoon() {
    if ((await this.ctx.storage.getAlarm()) === null) {
      await this.ctx.storage.setAlarm(Date.now() + RateLimiter.ms_for_updates);
    }
  }

  alarm() {
    this.tokens = Math.min(RateLimiter.capacity, this.tokens + RateLimiter.ms_for_updates / RateLimiter.ms_per_request);
  }
}

/** The same kept on disk, as what must survive a restart is: one row a request. A fixed window. */
export class StoredLimiter extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.sql.exec("CREATE TABLE IF NOT EXISTS used (id INTEGER PRIMARY KEY, until INTEGER NOT NULL, count INTEGER NOT NULL)");
  }

  check(limit, window_ms) {
    const now = Date.now();
    const { count } = this.sql
      .exec(
        `INSERT INTO used (id, until, count) VALUES (1, ?1 + ?2, 1) ON CONFLICT (id) DO UPDATE SET
           count = CASE WHEN until <= ?1 THEN 1 ELSE count + 1 END,
           until = CASE WHEN until <= ?1 THEN ?1 + ?2 ELSE until END
         RETURNING count`,
        now,
        window_ms,
      )
      .one();
    return count <= limit;
  }
}

// One object call per counter of the batch, with its sum; all calls at once.
async function events(request, env) {
  const sums = new Map();
  let accepted = 0;
  for (const line of (await request.text()).split("\n")) {
    if (line === "") continue;
    const { id, delta = 1 } = JSON.parse(line);
    sums.set(id, (sums.get(id) ?? 0) + delta);
    accepted += 1;
  }
  await Promise.all([...sums].map(([id, sum]) => env.COUNTERS.getByName(id).increment(sum)));
  return Response.json({ accepted, rejected: 0, errors: [] });
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/healthz") return Response.json({ status: "ok" });
    if (pathname === "/events") return events(request, env);
    if (pathname.startsWith("/limits/")) {
      const [, , policy, key] = pathname.split("/");
      if (policy === "stored") {
        return Response.json({ allowed: await env.STORED_LIMITERS.getByName(key).check(1_000_000_000, 60_000) });
      }
      return Response.json({ allowed: (await env.LIMITERS.getByName(key).millisecondsToNextRequest()) === 0 });
    }
    const [, , name, action] = pathname.split("/");
    const id = decodeURIComponent(name);
    const counter = env.COUNTERS.getByName(id);
    if (action === "increment") {
      const text = await request.text();
      const delta = text === "" ? 1 : JSON.parse(text).delta;
      return Response.json({ id, delta, value: await counter.increment(delta), status: "ok" });
    }
    return Response.json({ id, value: await counter.value() });
  },
};
