// What a load needs before it runs: counters that hold something, spread over so many shards.
//
// Invariant: what a counter holds afterwards is known to the unit, and a counter of n shards has a cell in
// each of them (the setting alone makes none: a shard appears with its first write).
import { BenchError } from "./load.mjs";

// By chance one shard gets none of 2,000 elements once in e^(2,000 / 64) = 4 × 10^13 times, one of 64 once
// in 6 × 10^11 times.
const ELEMENTS = 2_000;
// The first batch of an edge goes to one shard: only its answer says that there are more. A native server of two
// threads has two edges. Counters of one shard get as many, so that reads differ in shards alone.
const BATCHES = 3;
// First byte of a version.
const VERSION_FORMAT = 1;

async function send(method, url, body, content_type) {
  const answer = await fetch(url, { method, body, headers: { "content-type": content_type } });
  const text = await answer.text();
  if (answer.status !== 200 && answer.status !== 201) throw new BenchError(`${url} answers ${answer.status}: ${text}`);
  return JSON.parse(text);
}

/**
 * Returns how many cells a version names, up to 127. version: of a read with consistency=strong.
 * Errors: BenchError for a version of another format. Source: crates/tally-wire/src/version.rs (a byte of the
 * format, then postcard: the length of the list first, one byte up to 127).
 */
export function cellsOf(version) {
  const [format, cells] = Buffer.from(version, "base64url");
  if (format !== VERSION_FORMAT || !(cells <= 127)) throw new BenchError(`version ${version} is of an unknown format`);
  return cells;
}

async function spread(url, id, shards) {
  await send("PUT", `${url}/counters/${id}`, JSON.stringify({ shards }), "application/json");
  const line = (_, index) => `{"id":"${id}","delta":1,"unique":"element-${index}"}\n`;
  const lines = Array.from({ length: ELEMENTS }, line);
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const { accepted } = await send("POST", `${url}/events`, lines.join(""), "application/x-ndjson");
    if (accepted !== ELEMENTS) throw new BenchError(`${id}: ${accepted} of ${ELEMENTS} events were accepted`);
  }
  const answer = await fetch(`${url}/counters/${id}?consistency=strong`);
  const cells = cellsOf((await answer.json()).version);
  if (cells !== shards) throw new BenchError(`${id} has cells in ${cells} shards and not in ${shards}`);
  return BATCHES * ELEMENTS;
}

// Counters of which the directory has been told all: it is told of a counter that nobody writes any more within 8 s.
const SETTLED_MS_MAX = 120_000;
const LOOK_EVERY_MS = 500;

async function name(url, prefix, count) {
  const lines = Array.from({ length: count }, (_, index) => `{"id":"${prefix}${index}","delta":${index + 1}}\n`);
  await send("POST", `${url}/events`, lines.join(""), "application/x-ndjson");
  const sum = (count * (count + 1)) / 2;
  for (const begun = Date.now(); Date.now() - begun < SETTLED_MS_MAX; ) {
    const top = await (await fetch(`${url}/top?prefix=${prefix}&by=count&limit=1`)).json();
    if (top.counters === count && top.total === sum) return;
    await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
  }
  throw new BenchError(`the directory was not told of ${count} counters ${prefix}… within ${SETTLED_MS_MAX} ms`);
}

// Lines of one body of scores.
const LINES_EACH = 5_000;

// One object, so that a run is not of a board that is being spread. Members are named as wrk draws them, from key-1 on.
async function rank(url, board, members) {
  const keep = board.endsWith("-sums") ? "sum" : "set";
  await send("PUT", `${url}/boards/${board}`, JSON.stringify({ shards: 1, keep }), "application/json");
  for (let from = 1; from <= members; from += LINES_EACH) {
    const line = (_, index) => `{"member":"mkey-${from + index}","delta":${((from + index) * 7_919) % 10_007}}\n`;
    const lines = Array.from({ length: Math.min(LINES_EACH, members - from + 1) }, line);
    const { rejected } = await send("POST", `${url}/boards/${board}/members`, lines.join(""), "application/x-ndjson");
    if (rejected !== 0) throw new BenchError(`${board}: ${rejected} lines were rejected`);
  }
}

// Gives so many keys of a policy a limit of their own, by 64 clients.
async function override(url, policy, count) {
  let next = 0;
  const client = async () => {
    for (let number = next++; number < count; number = next++) {
      await send("PUT", `${url}/limits/${policy}/overrides/customer-${number}`, '{"limit":1000}', "application/json");
    }
  };
  await Promise.all(Array.from({ length: 64 }, client));
}

/** Makes a key by a call, and resolves to the `Authorization` of whoever has it. */
export async function keyOf(url, wanted) {
  const { key } = await send(
    "POST", `${url}/keys`, JSON.stringify({ name: "bench", scopes: ["write"], ...wanted }), "application/json",
  );
  return `Bearer ${key}`;
}

/**
 * Resolves to what each counter of a load holds then. prepare: undefined (0), {add} (so much, in one
 * increment), {shards} (4,000, with a cell in each of so many shards), {named, count} (0; so many counters whose names
 * begin so, of which the directory has been told), {board, members} (0; a board of so many members), or {policy, spent,
 * overrides} (0; the policy of that name is made, its quota for the key `spent` used up, and so many keys overridden).
 * Errors: BenchError where the server refuses, or a shard stays without a cell.
 */
export async function prepare(url, { counters, prepare: wanted }) {
  if (wanted === undefined) return 0;
  if (wanted.policy !== undefined) {
    const { name, ...policy } = wanted.policy;
    await send("PUT", `${url}/limits/${name}`, JSON.stringify(policy), "application/json");
    if (wanted.overrides !== undefined) await override(url, name, wanted.overrides);
    if (wanted.spent !== undefined) {
      await send(
        "POST", `${url}/limits/${name}/${wanted.spent}`, JSON.stringify({ cost: policy.limit }), "application/json",
      );
    }
    return 0;
  }
  if (wanted.named !== undefined) {
    await name(url, wanted.named, wanted.count);
    return 0;
  }
  if (wanted.board !== undefined) {
    await rank(url, wanted.board, wanted.members);
    return 0;
  }
  let held = 0;
  for (const id of counters) {
    if (wanted.shards !== undefined) {
      held = await spread(url, id, wanted.shards);
      continue;
    }
    held = wanted.add;
    await send("POST", `${url}/counters/${id}/increment`, JSON.stringify({ delta: held }), "application/json");
  }
  return held;
}
