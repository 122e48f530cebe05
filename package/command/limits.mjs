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

const policyText = (one) => [
  one.policy, `${number(one.limit)} in ${number(one.window_seconds)} s`, one.algorithm, one.scope,
  one.shadow ? "watches only" : "",
];
const verdictText = ({ allowed, remaining, limit, reset_after_ms, retry_after_ms }) =>
  `${allowed === false ? "refused" : "allowed"}, ${limit === null ? "no limit" : `${number(remaining)} of ${number(limit)} left`}${retry_after_ms > 0 ? `, try again in ${Math.ceil(retry_after_ms / 1000)} s` : reset_after_ms > 0 ? `, more in ${Math.ceil(reset_after_ms / 1000)} s` : ""}`;

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
    screen.show(await client.peek(policy, key), verdictText);
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

/** Forgets what a key has used. */
export async function reset({ args: [policy, key], options, screen }) {
  const call = path("/limits/{policy}/{key}", policy, key);
  const answer = await clientOf(options).request("DELETE", call, { isSafe: true });
  screen.show(answer, () => `${key} may begin anew`);
  return EXIT.done;
}
