// Tally for JavaScript and TypeScript: in browsers, Node and Workers.
//
//   import { Tally } from "edgetally";
//   const tally = new Tally({ url: "https://tally.example.com", key });
//   await tally.increment("downloads");
//
// Types are those of the OpenAPI document (api.ts, generated).
import type { components, operations } from "./api.ts";
import { Batch, sendEvents, type BatchOptions, type Event, type Report } from "./batch.ts";
import { checkedList } from "./guards.ts";
import { counterStore, watch, type CounterStore, type LiveCounters } from "./live.ts";
import {
  TallyError, Transport, checked, jsonOf, notTally, path, type Call, type TransportOptions,
} from "./transport.ts";
import { verdictOf } from "./verdict.ts";

export { clientAddress, clientKey, type ClientKeyOptions } from "./address.ts";
export type { components, operations, paths } from "./api.ts";
export type { BatchOptions, Event, Report } from "./batch.ts";
export type { CounterStore, LiveCounter, LiveCounters } from "./live.ts";
export {
  TallyError, type Binding, type Fetch, type Problem, type RejectedEvent, type TransportOptions,
} from "./transport.ts";

type Schemas = components["schemas"];
type Query<Operation extends keyof operations> = NonNullable<operations[Operation]["parameters"]["query"]>;

export type Change = Schemas["Change"];
/** The time to live of a counter that an increment creates: `fixed` from its creation, `sliding` from each write. */
export type TimeToLive = Pick<Change, "ttl_seconds" | "ttl_mode">;
export type Written = Schemas["Written"];
export type Counter = Schemas["Counter"];
export type Top = Schemas["Top"];
export type Verdict = Schemas["LimitVerdict"];
export type LimitCheck = Schemas["LimitCheck"];
export type HoldSpec = Schemas["HoldSpec"];
export type SettledHold = Schemas["SettledHold"];
export type OverrideSpec = Schemas["OverrideSpec"];
export type Override = Schemas["Override"];
export type Overrides = Schemas["Overrides"];
/** The answer to a reservation: a verdict, and the hold if there is one. */
export type Reserved = Verdict & { hold?: Schemas["Hold"] };

/** Of a call: the write's own key, and a signal that ends it. */
export interface CallOptions {
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export interface TallyOptions extends TransportOptions {
  /** How `count()` joins increments. */
  batch?: BatchOptions;
}

const CHECK_MS = 1_000;

// Returns the parts of a page of a list, without `entries` where it is none.
function pageOf(page: unknown): { entries?: Schemas["Page"]["entries"]; cursor?: string | null } {
  const { entries, cursor = null } = page as Partial<Schemas["Page"]>;
  return Array.isArray(entries) && (cursor === null || typeof cursor === "string") ? { entries, cursor } : {};
}

// What a caller wrote of a change. What is no object is an amount, which the server judges: nothing is counted as 1
// that was meant as something else.
function bodyOf<T extends object>(change: T | number | undefined): T {
  if (typeof change === "object" && change !== null) return { ...change };
  if (change === undefined) return {} as T;
  const amount = ["number", "string", "bigint"].includes(typeof change) ? change : null;
  return { delta: typeof amount === "bigint" ? String(amount) : amount } as unknown as T;
}

export class Tally {
  readonly #transport: Transport;
  readonly #batch: Batch;
  readonly #stores = new Map<string, CounterStore>();
  // Stored policies that are closed, as answers said: no more than the server stores.
  readonly #closed = new Set<string>();
  readonly #options: TallyOptions;

  constructor(options: TallyOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.#batch = new Batch(this.#transport, options.batch);
  }

  /** How long a check of a limit may take. */
  get check_ms(): number {
    return this.#options.check_ms ?? CHECK_MS;
  }

  /**
   * Returns the same client for a visitor's request of your Worker: its `cf`, and for visitors its address and user
   * agent, go along.
   */
  for(request: NonNullable<TransportOptions["request"]>): Tally {
    return new Tally({ ...this.#options, request });
  }

  /** Calls any path: `request("GET", "/healthz")`. Resolves to its JSON; of `/gate` to undefined, as 204 has none. */
  request<T = unknown>(method: string, route: string, call: Call = {}): Promise<T> {
    const isGate = /^\/gate\//.test(route);
    return this.#transport.read(method, route, call, (answer) =>
      isGate && answer.status === 204 ? (Promise.resolve() as Promise<T>) : jsonOf<T>(answer, this.#transport.parse),
    );
  }

  /** The same, resolving to the response. */
  answer(method: string, route: string, call: Call = {}): Promise<Response> {
    return this.#transport.answer(method, route, call);
  }

  #write<T>(
    method: string, route: string, body: unknown, options: CallOptions, query?: Record<string, unknown>,
  ): Promise<T> {
    return this.#transport.json<T>(method, route, { body, query, isWrite: true, ...options });
  }

  #read<T>(route: string, query: object = {}, signal?: AbortSignal): Promise<T> {
    return this.#transport.json<T>("GET", route, { query: query as Record<string, unknown>, signal });
  }

  // A visitor's request says whom a write is about.
  #about<T extends { unique?: unknown; ip?: unknown; user_agent?: unknown }>(change: T): T {
    const { request } = this.#transport.options;
    if (request === undefined || change.unique !== "auto") return change;
    const ip = request.headers.get("cf-connecting-ip") ?? undefined;
    const user_agent = request.headers.get("user-agent") ?? undefined;
    return { ip, user_agent, ...change };
  }

  /**
   * Adds to a counter (1 where `change` says nothing), once, however often it has to be sent. `ttl_seconds` and
   * `ttl_mode` are the time to live of a counter that this write creates. An existing counter keeps its own.
   */
  async increment(
    id: string, change: number | Change = {}, { ttl_seconds, ttl_mode, ...options }: CallOptions & TimeToLive = {},
  ): Promise<Written> {
    const body = bodyOf<Change>(change);
    if (ttl_seconds !== undefined) body.ttl_seconds = ttl_seconds;
    if (ttl_mode !== undefined) body.ttl_mode = ttl_mode;
    return this.#write("POST", path("/counters/{id}/increment", id), this.#about(body), options);
  }

  /** Takes from a counter. */
  async decrement(id: string, change: number | Schemas["Decrease"] = {}, options: CallOptions = {}): Promise<Written> {
    const body = this.#about(bodyOf<Schemas["Decrease"]>(change));
    return this.#write("POST", path("/counters/{id}/decrement", id), body, options);
  }

  /**
   * Adds to a counter soon, with others in one body. `flush()` waits for all of them. An id that is not valid is
   * reported to `batch.onError`; without it this throws.
   */
  count(id: string, change: number | Omit<Event, "id"> = {}): void {
    this.#batch.add(this.#about({ id, ...bodyOf<Omit<Event, "id">>(change) }));
  }

  /**
   * Sends what `count()` has collected, and resolves once each event was counted or told to `batch.onError`. Without
   * `onError` it rejects, with the refused events as `events` of the error. What could not be sent stays for the next
   * call.
   */
  flush(): Promise<void> {
    return this.#batch.flush();
  }

  /** Counts many events in one body. Rejects where none was counted: the error's `problem` has the report. */
  async events(events: Event[], { idempotencyKey, signal }: CallOptions = {}): Promise<Report> {
    checkedList("events", events);
    return sendEvents(this.#transport, events.map((event) => this.#about(event)), idempotencyKey, signal);
  }

  /** Counts the lines of a log: one body, at most 32 MiB. */
  ingest(query: Query<"ingestLog">, lines: string | Uint8Array, options: CallOptions = {}): Promise<Report> {
    return this.#write("POST", "/ingest", lines, options, query as Record<string, unknown>);
  }

  /** Reads a counter. */
  async get(id: string, query: Query<"readCounter"> = {}, signal?: AbortSignal): Promise<Counter> {
    return this.#read(path("/counters/{id}", id), query, signal);
  }

  /** Counts one by `GET`, as a page does that came from CountAPI or Abacus. A repeat counts again. */
  async hit(id: string): Promise<Written> {
    return this.#transport.json<Written>("GET", path("/hit/{id}", id), {});
  }

  /** Sets the value. */
  async set(id: string, value: number | string, options: CallOptions = {}): Promise<Counter> {
    return this.#write("PUT", path("/counters/{id}/value", id), { value }, options);
  }

  /** Sets the value to 0. */
  async reset(id: string, options: CallOptions = {}): Promise<Counter> {
    return this.set(id, 0, options);
  }

  /** Replaces the settings; creates the counter if it does not exist. */
  async configure(id: string, settings: Schemas["Settings"], options: CallOptions = {}): Promise<Counter> {
    return this.#write("PUT", path("/counters/{id}", id), settings, options);
  }

  /** Ends a counter. */
  async delete(id: string, options: CallOptions = {}): Promise<Schemas["Deleted"]> {
    return this.#write("DELETE", path("/counters/{id}", id), undefined, options);
  }

  /** What was counted when. */
  async history(id: string, query: Query<"readHistory"> = {} as Query<"readHistory">): Promise<Schemas["History"]> {
    return this.#read(path("/counters/{id}/history", id), query);
  }

  /** What was counted of each value of a dimension. */
  async breakdown(id: string, query: Query<"readBreakdown">): Promise<Schemas["Breakdown"]> {
    return this.#read(path("/counters/{id}/breakdown", id), query);
  }

  /** The first entries of several boards, and with `member` its ranks among all of them. */
  async boardsTop(
    boards: string[], query: Pick<Query<"readTop">, "member" | "limit" | "period" | "consistency"> = {},
  ): Promise<Schemas["BoardsTop"]> {
    checkedList("boards", boards);
    const parted = boards.find((board) => checked("boards", board).includes(","));
    if (parted !== undefined) throw new TallyError(400, "invalid-id", `\`boards\` has a name with a comma: ${parted}`);
    return this.#read("/top", { boards: boards.join(","), ...query });
  }

  /** Which counters have most. */
  top(query: Query<"readTop"> = {}): Promise<Top> {
    return this.#read("/top", query);
  }

  /** The sum of all counters whose ids begin with `prefix`. */
  async aggregate(prefix: string, query: Query<"aggregate"> = {}): Promise<Schemas["Aggregate"]> {
    return this.#read(path("/counters/{prefix}*/aggregate", prefix), query);
  }

  /** One page of the names of counters. */
  list(query: Query<"listCounters"> = {}): Promise<Schemas["Page"]> {
    return this.#read("/counters", query);
  }

  /** All counters whose ids begin with `prefix`, page by page. */
  async *counters(prefix = "", query: Query<"listCounters"> = {}): AsyncGenerator<Schemas["Page"]["entries"][number]> {
    let cursor: string | null | undefined;
    do {
      const { entries, cursor: next } = pageOf(await this.list({ prefix, ...query, ...(cursor ? { cursor } : {}) }));
      // Another program may give the same page for ever.
      if (entries === undefined || (next && next === cursor)) {
        throw notTally(200, "a page");
      }
      yield* entries;
      cursor = next;
    } while (cursor);
  }

  /**
   * Asks a limit for `cost` (1), and consumes it. A refusal is an answer: `allowed` is false. With the fields of a
   * policy in `check` no stored one is needed. It is sent once: a repeat would consume again, so only `overloaded`,
   * which consumed nothing, is sent again. After `deadline_ms` (`check_ms` of the client) it rejects, and `on_error` of
   * the error is what the policy says of that.
   */
  async limit(
    policy: string, key: string, check: LimitCheck = {}, signal?: AbortSignal, deadline_ms?: number,
  ): Promise<Verdict> {
    const route = path("/limits/{policy}/{key}", policy, key);
    const call = { body: check, answers: [429], signal, deadline_ms: deadline_ms ?? this.check_ms };
    try {
      return await this.#transport.read("POST", route, call, async (answer) => {
        const verdict = await verdictOf(policy, check, answer);
        if (check.limit === undefined) this.#learn(policy, answer.headers.get("ratelimit-policy") ?? "");
        return verdict;
      });
    } catch (error) {
      if (error instanceof TallyError) error.on_error = this.#onErrorOf(policy, check, error);
      throw error;
    }
  }

  // Remembers whether a stored policy is closed.
  #learn(policy: string, header: string): void {
    if (/;tally-on-error=closed/.test(header)) this.#closed.add(policy);
    else this.#closed.delete(policy);
  }

  // What a policy says of a check without a verdict: by the server, by the check, or by an earlier answer.
  #onErrorOf(policy: string, check: LimitCheck, { code }: TallyError): "open" | "closed" | undefined {
    if (code === "limiter-unavailable") return "closed";
    if (check.on_error) return check.on_error;
    if (typeof check.limit === "number") return check.scope === "global" ? "closed" : "open";
    return this.#closed.has(policy) ? "closed" : undefined;
  }

  /** Gives back what a check consumed, once, however often it has to be sent. */
  async refund(policy: string, key: string, cost = 1, options: CallOptions = {}): Promise<Verdict> {
    return this.#write("POST", path("/limits/{policy}/{key}/refund", policy, key), { cost }, options);
  }

  /**
   * Holds an amount (1) before the work, once, however often it has to be sent. A refusal is an answer: `allowed` is
   * false, and there is no `hold`. There is none either where no limiter answers and the policy is open. `deadline_ms`
   * is how long all tries together may take.
   */
  async reserve(
    policy: string, key: string, hold: HoldSpec = {}, options: CallOptions = {}, deadline_ms?: number,
  ): Promise<Reserved> {
    const route = path("/limits/{policy}/{key}/holds", policy, key);
    const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
    const call = { body: hold, answers: [429], deadline_ms, ...options, idempotencyKey };
    try {
      return await this.#transport.read("POST", route, call, async (answer) => {
        const verdict = await verdictOf(policy, {}, answer);
        this.#learn(policy, answer.headers.get("ratelimit-policy") ?? "");
        return verdict;
      });
    } catch (error) {
      if (error instanceof TallyError) error.on_error = this.#onErrorOf(policy, {}, error);
      throw error;
    }
  }

  /** Settles a hold by what was used, all of it where `amount` is left out. The rest comes back. */
  async settle(
    policy: string, key: string, hold: string, amount?: number, options: CallOptions = {},
  ): Promise<SettledHold> {
    const body = amount === undefined ? {} : { amount };
    return this.#write("POST", path("/limits/{policy}/{key}/holds/{hold}/settle", policy, key, hold), body, options);
  }

  /** Releases a hold: all of it comes back. */
  async release(policy: string, key: string, hold: string, options: CallOptions = {}): Promise<SettledHold> {
    return this.#write("DELETE", path("/limits/{policy}/{key}/holds/{hold}", policy, key, hold), undefined, options);
  }

  /**
   * Holds an amount while `work` runs. `use(amount)` says how much was used so far; the hold is settled by the last of
   * these. Without one it is settled at its amount, or released if `work` fails. Rejects with `quota-exceeded` where
   * nothing can be held; `work` does not run then.
   */
  async withHold<Result>(
    policy: string, key: string, hold: HoldSpec, work: (use: (amount: number) => void) => Result | Promise<Result>,
  ): Promise<Result> {
    const reserved = await this.reserve(policy, key, hold);
    if (!reserved.allowed) {
      const detail = `policy ${policy} cannot hold this now; try again in ${reserved.retry_after_ms} ms`;
      throw new TallyError(429, "quota-exceeded", detail);
    }
    const id = reserved.hold?.id;
    let used: number | undefined;
    // Whatever becomes of the settlement, the result counts for the caller: the hold ends by itself.
    const end = async (amount?: number) => {
      if (id !== undefined) await this.settle(policy, key, id, amount).catch(() => undefined);
    };
    try {
      const result = await work((amount) => (used = amount));
      await end(used);
      return result;
    } catch (error) {
      await end(used ?? 0);
      throw error;
    }
  }

  /** Gives some keys of a policy another limit, none, or a block. `pattern` is a key, or a prefix and a star. */
  async putOverride(
    policy: string, pattern: string, spec: OverrideSpec, options: CallOptions = {},
  ): Promise<Override> {
    return this.#write("PUT", path("/limits/{policy}/overrides/{pattern}", policy, pattern), spec, options);
  }

  /** Deletes an override. */
  async deleteOverride(policy: string, pattern: string, options: CallOptions = {}): Promise<void> {
    await this.#write("DELETE", path("/limits/{policy}/overrides/{pattern}", policy, pattern), undefined, options);
  }

  /** A page of the overrides of a policy: of keys, then of prefixes. Send the `cursor` back to get the next page. */
  async overrides(policy: string, query: Query<"listOverrides"> = {}): Promise<Overrides> {
    return this.#read(path("/limits/{policy}/overrides", policy), query);
  }

  /** Looks at a limit, and consumes nothing. */
  async peek(policy: string, key: string): Promise<Verdict> {
    return this.#read(path("/limits/{policy}/{key}", policy, key));
  }

  /** Calls `onUpdate` with these counters at each change. Returns the function that ends it. */
  watch(
    ids: string | string[], onUpdate: (counters: LiveCounters) => void, onError?: (error: unknown) => void,
  ): () => void {
    return watch(this.#transport, [ids].flat(), onUpdate, onError);
  }

  /**
   * A counter as a store: `subscribe(onChange)` and `getSnapshot()`. Frameworks take it as it is: React by
   * `useSyncExternalStore` (see `edgetally/react`), Svelte, Vue and Solid by a few lines.
   */
  useCounter(id: string): CounterStore {
    let store = this.#stores.get(id);
    if (store === undefined) this.#stores.set(id, (store = counterStore(this.#transport, id)));
    return store;
  }
}

export default Tally;
