// Types of the entrypoint `Tally`, which Workers bind as a service.
//
//   import type { TallyRpc } from "edgetally/worker";
//   interface Env { TALLY: TallyRpc }
//   const { value } = await env.TALLY.increment("likes", { key: env.TALLY_KEY, cf: request.cf });
//
// Bodies, queries and answers are those of the OpenAPI document (api.ts, generated).
import type { components, operations } from "./api.ts";
import type { Binding, HoldSpec, LimitCheck, Reserved, Top, Verdict } from "./index.ts";

type Schemas = components["schemas"];
type Query<Operation extends keyof operations> = NonNullable<operations[Operation]["parameters"]["query"]>;

/** Of every call. */
export interface RpcOptions {
  /** A key of the deployment. Where it is left out, `props.key` of the binding; without that, the call has no key. */
  key?: string | undefined;
  /** The `cf` of the visitor's request, which says where the call counts. Without it, all calls count in `LOCAL`. */
  cf?: unknown;
}

/** Of a call that changes something. */
export interface RpcWriteOptions extends RpcOptions {
  /** Names the write, so that a repeat counts nothing twice. */
  idempotencyKey?: string | undefined;
}

/** Of a call that can be made on condition. */
export interface RpcConditions extends RpcWriteOptions {
  /** The `If-Match` of the call: a version in quotes, or `*`. */
  ifMatch?: string | undefined;
}

/** Of a call about numbers that may pass 2^53 - 1. */
export interface RpcNumbers {
  /** `string` returns numbers above 2^53 - 1 as text. */
  numbers?: "string" | undefined;
}

/** A board: what `board()` returns. Its calls may be made before it has arrived. */
export interface TallyBoardRpc {
  /** Writes a score, or adds to it, or hides the member. */
  write(
    member: string, change: (Schemas["BoardWrite"] | Schemas["BoardHidden"]) & RpcConditions,
  ): Promise<Schemas["BoardWritten"]>;
  /** Reads a member: score, rank, percentile. */
  get(member: string, query?: Query<"readMember"> & RpcOptions): Promise<Schemas["BoardMember"]>;
  /** Reads members in their order. */
  members(query?: Omit<Query<"listMembers">, "format"> & RpcOptions): Promise<Schemas["BoardRows"]>;
}

/**
 * The entrypoint `Tally` of `tally-edge`. A refusal is thrown: an `Error` whose `name` is `TallyError`, with `code`,
 * `status`, `retry_after_ms` and `problem` as those of the client. Nothing else is thrown.
 */
export interface TallyRpc extends Binding {
  /** Adds to a counter (1). */
  increment(id: string, change?: Schemas["Change"] & RpcConditions & RpcNumbers): Promise<Schemas["Written"]>;
  /** Takes from a counter (1). */
  decrement(id: string, change?: Schemas["Decrease"] & RpcConditions & RpcNumbers): Promise<Schemas["Written"]>;
  /** Reads a counter. */
  get(id: string, query?: Query<"readCounter"> & RpcOptions): Promise<Schemas["Counter"]>;
  /** Reads which counters have most. */
  top(query?: Query<"readTop"> & RpcOptions): Promise<Top>;
  /** Checks a limit, and consumes. A refusal is an answer: `allowed` is false. */
  limit(policy: string, key: string, check?: LimitCheck & RpcWriteOptions): Promise<Verdict>;
  /** Holds an amount before the work. A refusal is an answer: `allowed` is false, and there is no `hold`. */
  hold(policy: string, key: string, hold?: HoldSpec & RpcWriteOptions): Promise<Reserved>;
  /** Settles a hold by what was used, all of it where `amount` is left out. */
  settle(
    policy: string, key: string, hold: string, used?: { amount?: number } & RpcWriteOptions,
  ): Promise<Schemas["SettledHold"]>;
  /** Releases a hold: all of it comes back. */
  release(policy: string, key: string, hold: string, options?: RpcWriteOptions): Promise<Schemas["SettledHold"]>;
  /** Returns a board. `shared`: options of all its calls. */
  board(board: string, shared?: RpcOptions): Promise<TallyBoardRpc> & TallyBoardRpc;
}
