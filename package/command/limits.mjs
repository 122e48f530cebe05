// `tally limits`.
import { path } from "../client/transport.ts";
import { clientOf } from "./client.mjs";
import { EXIT, Failure, number, table } from "./outcome.mjs";

function fieldsOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure(EXIT.usage, `--set is JSON, such as '{"limit":100,"window_seconds":60}': ${error.message}`);
  }
}

const policyText = (one) => [
  one.policy, `${number(one.limit)} in ${number(one.window_seconds)} s`, one.algorithm, one.scope,
  one.shadow ? "watches only" : "",
];
const verdictText = ({ allowed, remaining, limit, reset_after_ms, retry_after_ms }) =>
  `${allowed === false ? "refused" : "allowed"}, ${number(remaining)} of ${number(limit)} left${retry_after_ms > 0 ? `, come again in ${Math.ceil(retry_after_ms / 1000)} s` : reset_after_ms > 0 ? `, more in ${Math.ceil(reset_after_ms / 1000)} s` : ""}`;

/** Lists policies, or does to one, or to a key of it, what the options say. */
export async function limits({ args: [policy, key], options, screen }) {
  const client = clientOf(options);
  if (policy === undefined) {
    const policies = [];
    let cursor;
    do {
      const page = await client.request("GET", "/limits", { query: { cursor } });
      policies.push(...page.policies);
      cursor = page.cursor;
    } while (cursor);
    screen.show({ policies }, () =>
      policies.length === 0 ? "there are no policies" : table(policies.map(policyText)),
    );
    return EXIT.done;
  }
  const one = path("/limits/{policy}", policy);
  if (key === undefined) {
    const call =
      options.set !== undefined
        ? ["PUT", { body: fieldsOf(options.set), isSafe: true }]
        : options.delete
          ? ["DELETE", { isSafe: true }]
          : ["GET", {}];
    const answer = await client.request(call[0], one, call[1]);
    screen.show(answer, () => (options.delete ? `${policy} is no more` : table([policyText(answer)])));
    return EXIT.done;
  }
  if (options.reset) {
    const answer = await client.request("DELETE", path("/limits/{policy}/{key}", policy, key), { isSafe: true });
    screen.show(answer, () => `${key} may begin anew`);
    return EXIT.done;
  }
  const verdict = options.check
    ? await client.limit(policy, key, { cost: options.cost })
    : await client.peek(policy, key);
  screen.show(verdict, verdictText);
  return options.check && !verdict.allowed ? EXIT.limited : EXIT.done;
}
