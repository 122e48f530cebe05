// `tally limits overrides` and its kin: other limits for some keys of a policy.
import { path } from "../client/transport.ts";
import { clientOf } from "./client.mjs";
import { fieldsOf } from "./limits.mjs";
import { EXIT, number, table } from "./outcome.mjs";

const effectOf = ({ unlimited, blocked, limit, window_seconds, ttl_seconds, burst }) => {
  if (unlimited) return "unlimited";
  if (blocked) return "blocked";
  const named = { limit, "window of s": window_seconds, "holds of s": ttl_seconds, burst };
  const set = Object.entries(named).filter(([, value]) => value !== undefined);
  return set.map(([name, value]) => `${name} ${number(value)}`).join(", ");
};
const overrideText = (one) => [
  one.pattern, effectOf(one), one.ends_at === undefined ? "" : `until ${new Date(one.ends_at).toISOString()}`,
];

/** Lists the overrides of a policy. */
export async function list({ args: [policy], options, screen }) {
  const client = clientOf(options);
  const entries = [];
  let cursor;
  do {
    const page = await client.overrides(policy, { cursor, limit: 1_000 });
    entries.push(...page.entries);
    cursor = page.cursor;
  } while (cursor);
  const text = () => (entries.length === 0 ? `${policy} has no overrides` : table(entries.map(overrideText)));
  screen.show({ entries }, text);
  return EXIT.done;
}

/** Makes or changes an override. */
export async function set({ args: [policy, pattern, fields], options, screen }) {
  const answer = await clientOf(options).putOverride(policy, pattern, fieldsOf(fields, '{"limit":1000}'));
  screen.show(answer, (one) => table([overrideText(one)]));
  return EXIT.done;
}

/** Deletes an override. */
export async function remove({ args: [policy, pattern], options, screen }) {
  const call = path("/limits/{policy}/overrides/{pattern}", policy, pattern);
  const answer = await clientOf(options).request("DELETE", call, { isSafe: true });
  screen.show(answer, () => `${policy} has no override ${pattern} any more`);
  return EXIT.done;
}
