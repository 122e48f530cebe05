// How specs write calls, and read what is told.

/** Returns the numbers from 0, so many. */
export const numbers = (length) => Array.from({ length }, (_, index) => index);

/** Returns the options of a call with an idempotency key. */
export const keyed = (key, more = {}) => ({ ...more, headers: { "idempotency-key": key, ...more.headers } });

/** Returns whether an answer is that of an earlier call with the same key. */
export const isReplay = (answer) => answer.headers.get("idempotency-replayed") === "true";

/** Returns the options of a call with an API key. */
export const bearer = (key, more = {}) => ({ ...more, headers: { authorization: `Bearer ${key}`, ...more.headers } });

/** Returns all entries of a list, page by page; a list that does not end is none. */
export async function entriesOf(world, path, options = {}) {
  const all = [];
  for (let cursor = ""; cursor !== null; ) {
    const after = cursor === "" ? "" : `${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`;
    const page = await world.well("GET", `${path}${after}`, options);
    all.push(...page.entries);
    if (page.cursor === cursor) throw new Error(`${path} stays at ${cursor}`);
    ({ cursor } = page);
  }
  return all;
}

/** Returns what is told of one datacenter. */
export const partOf = (answer, colo) => answer.datacenters.find(({ id }) => id === colo);
