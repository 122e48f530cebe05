// What middleware answers of a verdict, whatever the framework.
//
// Invariant: where Tally does not answer, calls are let through or refused as `onError` says, and never left hanging.
import { TallyError, type LimitCheck, type Tally, type Verdict } from "./index.ts";

export interface LimitOptions<Context> {
  /** The name of the policy. */
  policy: string;
  /** Whose quota a request uses. Where it is left out, that of its address. */
  key?: (context: Context) => string | Promise<string>;
  /** How much it uses (1). */
  cost?: number;
  /** The fields of a policy, where none is stored under that name. */
  check?: LimitCheck;
  /** `open` (the default) lets requests through while Tally does not answer; `closed` answers 503. */
  onError?: "open" | "closed";
}

export interface Refusal {
  status: 429 | 503;
  body: { type: string; title: string; status: number; detail: string; code: string };
}

export interface Judged {
  verdict: Verdict | undefined;
  /** The headers of the answer, whatever it is. */
  headers: Record<string, string>;
  /** What is answered instead; undefined where the request may go on. */
  refusal: Refusal | undefined;
}

const seconds = (ms: number) => String(Math.max(1, Math.ceil(ms / 1000)));

/** Asks the limit, and says what to answer. */
export async function judge(
  tally: Tally, options: { policy: string; check?: LimitCheck; cost?: number; onError?: "open" | "closed" },
  key: string,
): Promise<Judged> {
  const { policy, cost, check = {}, onError = "open" } = options;
  let verdict: Verdict;
  try {
    verdict = await tally.limit(policy, key, cost === undefined ? check : { ...check, cost });
  } catch (error) {
    // A policy that does not exist, or a key without the right, is a fault of the program.
    if (error instanceof TallyError && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    if (onError === "open") return { verdict: undefined, headers: { "tally-on-error": "open" }, refusal: undefined };
    const body = {
      type: "about:blank", title: "The limit cannot be asked", status: 503, detail: "come again soon",
      code: "limiter-unavailable",
    };
    return {
      verdict: undefined, headers: { "retry-after": "1", "tally-on-error": "closed" }, refusal: { status: 503, body },
    };
  }
  const headers: Record<string, string> = { ratelimit: `"${policy}";r=${verdict.remaining ?? 0};t=${Math.ceil(verdict.reset_ms / 1000)}` };
  if (verdict.allowed) return { verdict, headers, refusal: undefined };
  headers["retry-after"] = seconds(verdict.retry_after_ms);
  const detail = `the quota of "${policy}" is used up; come again in ${headers["retry-after"]} s`;
  const body = {
    type: "/problems/quota-exceeded", title: "The quota is used up", status: 429, detail,
    code: "quota-exceeded",
  };
  return { verdict, headers, refusal: { status: 429, body } };
}
