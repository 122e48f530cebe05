// What middleware answers of a verdict, whatever the framework.
//
// Invariants: nothing here throws. Refused and unreachable are never confused: `onError` decides only if Tally does not
// answer in time, or answers 5xx. A request that is let through without a verdict is in the log. What a request holds
// is released once, when its response ends, however it ends.
import { clientKey } from "./address.ts";
import { guarded } from "./guards.ts";
import { TallyError, type HoldSpec, type LimitCheck, type Tally, type Verdict } from "./index.ts";
import { checked, isFinal } from "./transport.ts";

export interface LimitOptions<Context> {
  /** The name of the policy. */
  policy: string;
  /** Whose quota a request uses. Where it is left out, that of its address, of IPv6 that of its network. */
  key?: (context: Context) => string | undefined | Promise<string | undefined>;
  /** How much it uses (1). */
  cost?: number;
  /** The fields of a policy, where none is stored under that name. Not with `hold`. */
  check?: LimitCheck;
  /**
   * Holds quota while the response is under way, as a policy of `concurrency` needs it. The hold is released when the
   * response ends, or its client hangs up. `{}` holds 1.
   */
  hold?: HoldSpec;
  /**
   * While Tally does not answer, `open` lets requests through, and `closed` answers 503. If you leave it out, the
   * `on_error` of `check` or of an earlier answer decides. If neither is known, requests are let through.
   */
  onError?: "open" | "closed";
  /** If a request has no valid key, `refuse` (the default) answers 400; `share` counts all such requests together. */
  onBadKey?: "refuse" | "share";
  /** How long a check may take before `onError` decides (1,000). */
  deadline_ms?: number;
  /** How many bits of an IPv6 address tell clients apart (64). */
  ipv6Prefix?: number;
  /** Takes what the operator has to know, at most once a minute of each kind (`console.error`). */
  log?: (message: string) => void;
}

export interface Refusal {
  status: 400 | 429 | 500 | 503;
  body: { type: string; title: string; status: number; detail: string; code: string; "violated-policies"?: string[] };
}

export interface Judged {
  verdict: Verdict | undefined;
  /** The headers of the answer, whatever it is. */
  headers: Record<string, string>;
  /** What is answered instead; undefined where the request may go on. */
  refusal: Refusal | undefined;
  /** Releases what the request holds, once. Never rejects. Undefined where it holds nothing. */
  release?: () => Promise<void>;
}

/** The type of the problem of a refusal. Source: draft-ietf-httpapi-ratelimit-headers-11, section 5.1. */
const QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/** The key of all requests that have none. */
export const SHARED_KEY = "(no key)";

const LOG_EVERY_MS = 60_000;
const seconds = (ms: number) => String(Math.max(1, Math.ceil(ms / 1000) || 1));

// When each kind of message was logged last, by the options of the middleware.
const logged = new WeakMap<object, Map<string, number>>();

function log(options: LimitOptions<any>, kind: string, message: string): void {
  const kinds = logged.get(options) ?? new Map<string, number>();
  logged.set(options, kinds);
  const now_ms = Date.now();
  if (now_ms - (kinds.get(kind) ?? -Infinity) < LOG_EVERY_MS) return;
  kinds.set(kind, now_ms);
  // A log that fails must not fail the request, and there is no other log.
  const policy = typeof options.policy === "string" ? options.policy : `a ${typeof options.policy}`;
  const line = `tally: policy "${policy}": ${message}`;
  guarded("log", () => (options.log ?? console.error)(line), () => {});
}

function refused(
  status: Refusal["status"], code: string, title: string, detail: string, headers: Record<string, string> = {},
  more: Partial<Refusal["body"]> = {},
): Judged {
  // Pages of problems are Tally's, so the others have none.
  const type = code === "quota-exceeded" ? QUOTA_EXCEEDED : "about:blank";
  const body = { type, title, status, detail, code, ...more };
  return { verdict: undefined, headers, refusal: { status, body } };
}

/** Asks the limit, and says what to answer. `address` is that of the client. Never rejects. */
export async function judge<Context>(
  tally: Tally, options: LimitOptions<Context>, context: Context, address: () => unknown,
): Promise<Judged> {
  const given = typeof options === "object" && options !== null ? options : NO_OPTIONS;
  try {
    return await judged(tally, given, context, address);
  } catch (error) {
    return failed(given, error);
  }
}

// Of a middleware that was made without any, or with something else.
const NO_OPTIONS = {} as LimitOptions<any>;

async function judged<Context>(
  tally: Tally, options: LimitOptions<Context>, context: Context, address: () => unknown,
): Promise<Judged> {
  const key = await keyOf(options, context, address);
  if (key === undefined) {
    const detail = "the request has nothing that identifies its sender";
    return refused(400, "no-key", "The request does not say whose it is", detail);
  }
  const { policy, cost, hold } = options;
  if (hold !== undefined && hold !== null) return held(tally, options, key, hold);
  const check = options.check ?? {};
  const asked = cost === undefined ? check : { ...check, cost };
  return answerOf(options, await tally.limit(policy, key, asked, undefined, options.deadline_ms));
}

// Holds quota for a request.
async function held(tally: Tally, options: LimitOptions<any>, key: string, hold: HoldSpec): Promise<Judged> {
  const { policy, cost, deadline_ms = tally.check_ms } = options;
  const asked = cost === undefined ? hold : { amount: cost, ...hold };
  const reserved = await tally.reserve(policy, key, asked, {}, deadline_ms);
  const judged = answerOf(options, reserved);
  const id = reserved.hold?.id;
  if (id === undefined) return judged;
  let released: Promise<void> | undefined;
  const release = async () => {
    try {
      await tally.release(policy, key, id);
    } catch (error) {
      // Its time is over, and so is the hold.
      if (error instanceof TallyError && error.code === "hold-ended") return;
      log(options, "release", `a hold was not released, and lasts until its time ends: ${error}`);
    }
  };
  return { ...judged, release: () => (released ??= release()) };
}

// The key of a request; undefined where it has none and is refused for that.
async function keyOf<Context>(
  options: LimitOptions<Context>, context: Context, address: () => unknown,
): Promise<string | undefined> {
  const { ipv6Prefix } = options;
  let fault: string;
  try {
    const network = () => clientKey(address(), ipv6Prefix === undefined ? {} : { ipv6Prefix });
    return checked("key", options.key === undefined ? network() : await options.key(context));
  } catch (error) {
    fault = error instanceof Error ? error.message : String(error);
  }
  const what = options.key === undefined ? "the address of a client is not known; set `key`" : fault;
  const isShared = options.onBadKey === "share";
  const then = isShared ? "it shares the quota of all such requests" : 'it gets 400; `onBadKey: "share"` lets such requests share a quota';
  log(options, "key", `a request has no valid key: ${what}; ${then}`);
  return isShared ? SHARED_KEY : undefined;
}

function answerOf({ policy }: LimitOptions<any>, verdict: Verdict): Judged {
  const headers: Record<string, string> = {};
  if (typeof verdict.remaining === "number") {
    headers["ratelimit"] = `"${policy}";r=${verdict.remaining};t=${Math.ceil((verdict.reset_after_ms ?? 0) / 1000)}`;
  }
  if (verdict.allowed) return { verdict, headers, refusal: undefined };
  const after = seconds(verdict.retry_after_ms ?? 0);
  const detail = `the quota of "${policy}" is used up; try again in ${after} s`;
  const said = { ...headers, "retry-after": after };
  const more = { "violated-policies": [policy] };
  const judged = refused(429, "quota-exceeded", "The quota is used up", detail, said, more);
  return { ...judged, verdict };
}

// What a check without a verdict means. Its visitor has done nothing wrong.
function failed(options: LimitOptions<any>, error: unknown): Judged {
  const why = error instanceof Error ? error.message : String(error);
  if (error instanceof TallyError && error.status === 429) {
    log(options, "budget", `requests get 503: the budget of this program itself is used up: ${why}`);
    const headers = { "retry-after": seconds(error.retry_after_ms ?? 0) };
    return refused(503, "limiter-budget", "The limit cannot be checked", "try again soon", headers);
  }
  if (!(error instanceof TallyError) || isFinal(error)) {
    const isKey = error instanceof TallyError && [401, 403].includes(error.status);
    const hint = isKey ? "the key of this program is not valid here: " : "";
    log(options, "wrong", `requests get 500 until you correct this: ${hint}${why}`);
    const detail = "the operator of this site must correct the configuration of its limit";
    return refused(500, "limiter-misconfigured", "The limit cannot be checked", detail);
  }
  const onError = options.onError ?? error.on_error ?? "open";
  const headers = { "tally-on-error": onError };
  log(options, "away", `Tally does not answer, requests ${onError === "open" ? "are let through" : "get 503"}: ${why}`);
  if (onError === "open") return { verdict: undefined, headers, refusal: undefined };
  const after = { "retry-after": seconds(error.retry_after_ms ?? 0), ...headers };
  return refused(503, "limiter-unavailable", "The limit cannot be checked", "try again soon", after);
}
