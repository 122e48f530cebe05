// `tally limits`: one function for each of its verbs.
import { path } from "../client/transport.ts";
import { clientOf } from "./client.mjs";
import { EXIT, Failure, number, table } from "./outcome.mjs";

/** Parses fields that are given as JSON. */
export function fieldsOf(text, example = '{"limit":100,"window_seconds":60}') {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure(EXIT.usage, `the fields are JSON, such as '${example}': ${error.message}`);
  }
}

const amountText = ({ limit, window_seconds, ttl_seconds }) =>
  window_seconds === undefined
    ? `${number(limit)} at once, ${number(ttl_seconds)} s`
    : `${number(limit)} in ${number(window_seconds)} s`;
const policyText = (one) => [one.policy, amountText(one), one.algorithm, one.scope, one.shadow ? "watches only" : ""];
const heldText = ({ held, holds, oldest_at }) =>
  holds > 0 ? `, ${number(held)} held by ${number(holds)} since ${new Date(oldest_at).toISOString()}` : "";
const secondsText = (text, ms) => `, ${text} in ${Math.ceil(ms / 1000)} s`;
const waitText = ({ reset_after_ms, retry_after_ms }) => {
  if (retry_after_ms > 0) return secondsText("try again", retry_after_ms);
  return reset_after_ms > 0 ? secondsText("more", reset_after_ms) : "";
};
const quotaText = ({ remaining, limit, ...times }) =>
  `${limit === null ? "no limit" : `${number(remaining)} of ${number(limit)} left`}${waitText(times)}`;
const verdictText = (one) => `${one.allowed === false ? "refused" : "allowed"}, ${quotaText(one)}`;

/** Lists policies. */
export async function list({ options, screen }) {
  const client = clientOf(options);
  const policies = [];
  let cursor;
  do {
    const page = await client.request("GET", "/limits", { query: { cursor } });
    policies.push(...page.entries);
    cursor = page.cursor;
  } while (cursor);
  const text = () => (policies.length === 0 ? "there are no policies" : table(policies.map(policyText)));
  screen.show({ entries: policies }, text);
  return EXIT.done;
}

/** Shows a policy, or the quota of a key of it. */
export async function show({ args: [policy, key], options, screen }) {
  const client = clientOf(options);
  if (key === undefined) {
    screen.show(await client.request("GET", path("/limits/{policy}", policy)), (one) => table([policyText(one)]));
  } else {
    screen.show(await client.peek(policy, key), (one) => `next check ${verdictText(one)}${heldText(one)}`);
  }
  return EXIT.done;
}

/** Makes or changes a policy. */
export async function set({ args: [policy, fields], options, screen }) {
  const call = { body: fieldsOf(fields), isSafe: true };
  const answer = await clientOf(options).request("PUT", path("/limits/{policy}", policy), call);
  screen.show(answer, (one) => table([policyText(one)]));
  return EXIT.done;
}

/** Deletes a policy. */
export async function remove({ args: [policy], options, screen }) {
  const answer = await clientOf(options).request("DELETE", path("/limits/{policy}", policy), { isSafe: true });
  screen.show(answer, () => `${policy} is no more`);
  return EXIT.done;
}

/** Takes from a key's quota; the exit code says whether the limit allows it. */
export async function check({ args: [policy, key], options, screen }) {
  const verdict = await clientOf(options).limit(policy, key, { cost: options.cost });
  screen.show(verdict, verdictText);
  return verdict.allowed ? EXIT.done : EXIT.limited;
}

/** Holds an amount before the work; the exit code says whether the limit allows it. */
export async function reserve({ args: [policy, key], options, screen }) {
  const { amount, ttl: ttl_seconds, onExpiry: on_expiry } = options;
  const given = Object.entries({ amount, ttl_seconds, on_expiry }).filter(([, value]) => value !== undefined);
  const spec = Object.fromEntries(given);
  const reserved = await clientOf(options).reserve(policy, key, spec);
  const { allowed, hold } = reserved;
  const idText = () => hold?.id ?? "the limiter does not answer, and the policy is open: there is nothing to settle";
  screen.show(reserved, () => (allowed ? idText() : verdictText(reserved)));
  return allowed ? EXIT.done : EXIT.limited;
}

const settledText = ({ settled, returned, over, remaining, limit }) =>
  `${number(settled)} used, ${number(returned)} returned${over > 0 ? `, ${number(over)} more than there was room for` : ""}, ${number(remaining)} of ${number(limit)} left`;

/** Ends a hold by what was used: all of it, unless `--amount` names less or more. */
export async function settle({ args: [policy, key, hold], options, screen }) {
  screen.show(await clientOf(options).settle(policy, key, hold, options.amount), settledText);
  return EXIT.done;
}

/** Gives back all of a hold. */
export async function release({ args: [policy, key, hold], options, screen }) {
  screen.show(await clientOf(options).release(policy, key, hold), settledText);
  return EXIT.done;
}

/** Forgets what a key has used. */
export async function reset({ args: [policy, key], options, screen }) {
  const call = path("/limits/{policy}/{key}", policy, key);
  const answer = await clientOf(options).request("DELETE", call, { isSafe: true });
  screen.show(answer, () => `${key} may begin anew`);
  return EXIT.done;
}
