// The verdict of a limit, as an answer of HTTP has it.
import type { components } from "./api.ts";
import { jsonOf, notTally, refusal, retryAfterMs } from "./transport.ts";

type Verdict = components["schemas"]["LimitVerdict"];
type LimitCheck = components["schemas"]["LimitCheck"];

/**
 * Returns the verdict of an answer to a check or a hold. A refusal is a problem document, and says the rest in headers:
 * `"login";r=0;t=12`. Rejects with a {@link TallyError} where nothing was judged.
 */
export async function verdictOf(policy: string, check: LimitCheck, answer: Response): Promise<Verdict> {
  if (answer.status !== 429) {
    const verdict = await jsonOf<Verdict>(answer);
    if (typeof verdict.allowed === "boolean") return verdict;
    throw notTally(answer.status, "a verdict");
  }
  const copy = answer.clone();
  const problem = (await answer.json().catch(() => null)) as { allowed?: boolean; override?: string } | null;
  // An address without a key that asks too often: nothing was judged.
  if (problem?.allowed !== false) throw await refusal(copy);
  const number = (header: string, name: string) =>
    Number((answer.headers.get(header) ?? "").match(new RegExp(`;\\s*${name}=(\\d+)`))?.[1] ?? NaN);
  const whole = (value: number, fallback: number) => (Number.isFinite(value) ? value : fallback);
  return {
    allowed: false,
    policy,
    ...(typeof problem.override === "string" ? { override: problem.override } : {}),
    limit: whole(number("ratelimit-policy", "q"), check.limit ?? 0),
    remaining: whole(number("ratelimit", "r"), 0),
    reset_after_ms: whole(1000 * number("ratelimit", "t"), 0),
    retry_after_ms: retryAfterMs(answer) ?? 0,
  } as Verdict;
}
