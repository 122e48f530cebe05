// `tally keys`: keys of a deployment by `/keys`, or those of a file for the secret TALLY_KEYS.
//
// Invariant: a key is printed once, when it is made, and never again. A key of a deployment is named by its id, or by
// its name where no other is called so. A file that holds keys is readable by its owner alone.
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { writePrivate } from "../../scripts/private-files.mjs";
import { path } from "../client/transport.ts";
import { clientOf, newCall } from "./client.mjs";
import { EXIT, Failure, table } from "./outcome.mjs";
import { readText } from "./text.mjs";

const SCOPES = ["read", "write", "refund", "admin"];

// As many as a page may have.
const PAGE = 1000;

/** Returns a key that nobody guesses. */
export const newKey = () => randomBytes(24).toString("hex");

/** Returns the keys of a file; none where it does not exist. */
export function readKeys(file) {
  if (!existsSync(file)) return { keys: [], public: [] };
  try {
    const read = JSON.parse(readText(file));
    return { ...read, keys: read.keys ?? [] };
  } catch (error) {
    throw new Failure(EXIT.failed, `${file} is no JSON as docs/operate/keys.md shows it: ${error.message}`);
  }
}

/** Writes the keys of a file. */
export function writeKeys(file, keys) {
  writePrivate(file, `${JSON.stringify(keys, null, 2)}\n`);
}

function scopesOf(text) {
  const scopes = text.split(",");
  const unknown = scopes.find((scope) => !SCOPES.includes(scope));
  if (unknown !== undefined) throw new Failure(EXIT.usage, `--scopes: ${unknown} is none of ${SCOPES.join(", ")}`);
  return scopes;
}

/** Returns unix seconds. */
function endOf(expires) {
  if (expires === undefined) return undefined;
  const end = Date.parse(expires);
  if (Number.isNaN(end)) throw new Failure(EXIT.usage, `--expires ${expires} is no date: write it as 2027-01-31`);
  return Math.floor(end / 1_000);
}

const isGiven = ([, value]) => value !== undefined;

/** Returns all keys of the deployment that the caller may see. */
async function keysOf(client) {
  const keys = [];
  for (let cursor = ""; cursor !== null;) {
    const page = await newCall(
      client, "keys of its own: use --file", "GET", `/keys?limit=${PAGE}${cursor === "" ? "" : `&cursor=${cursor}`}`,
    );
    keys.push(...page.entries);
    ({ cursor } = page);
  }
  return keys;
}

/** Returns the key of the deployment that a text names. */
async function named(client, text) {
  const keys = await keysOf(client);
  const found = keys.filter(({ id }) => id === text);
  if (found.length === 0) found.push(...keys.filter(({ name }) => name === text));
  if (found.length === 0) throw new Failure(EXIT.notFound, `there is no key called ${text}; tally keys list shows them`);
  if (found.length > 1) throw new Failure(EXIT.failed, `${found.length} keys are called ${text}: name one by its id, ${found.map(({ id }) => id).join(" or ")}`);
  return found[0];
}

const called = (file, name) => new Failure(EXIT.notFound, `${file} has no key called ${name}; tally keys list --file ${file} shows them`);

function printed(screen, made, file) {
  // The key alone goes to stdout, so that `> ops.key` makes a file for --key-file.
  screen.show(made, ({ key }) => screen.paint("bold", key));
  if (!screen.isJson) screen.note(`This is the key "${made.name}". It is not shown again.`);
  if (file !== undefined && !screen.isJson)
    screen.note(
      `${file} is changed. Set it as the secret: npx wrangler secret put TALLY_KEYS -c <edge configuration> < ${file}`,
    );
}

/** Makes a key. */
export async function add({ args: [name], options, screen }) {
  const scopes = scopesOf(options.scopes);
  const { file, prefix: prefixes = [], ratePerMinute, expires } = options;
  const bounds = Object.fromEntries(
    Object.entries({ rate_per_minute: ratePerMinute, expires_at: endOf(expires) }).filter(isGiven),
  );
  if (file === undefined) {
    const body = { name, scopes, ...(prefixes.length > 0 ? { prefixes } : {}), ...bounds };
    const what = "keys of its own: use --file, and set the secret TALLY_KEYS";
    const made = await newCall(clientOf(options), what, "POST", "/keys", { body, isWrite: true });
    printed(screen, { name, ...made });
    return EXIT.done;
  }
  const keys = readKeys(file);
  if (keys.keys.some((one) => one.name === name)) throw new Failure(EXIT.failed, `${file} has a key called ${name} already: tally keys rotate ${name} --file ${file} makes it anew`);
  const key = newKey();
  keys.keys.push({ name, key, scopes, ...(prefixes.length > 0 ? { prefixes } : {}), ...bounds });
  writeKeys(file, keys);
  printed(screen, { name, key, scopes, prefixes }, file);
  return EXIT.done;
}

/** Lists keys by their names, without the keys. */
export async function list({ options, screen }) {
  const { file } = options;
  const keys =
    file === undefined ? await keysOf(clientOf(options)) : readKeys(file).keys.map(({ key: _, ...entry }) => entry);
  const day = (time) => new Date(time).toISOString().slice(0, 10);
  const row = ({ id, name, scopes, prefix, prefixes, rate_per_minute: rate, expires_at: end, last_used_at: used }) => [
    ...(id === undefined ? [] : [id]),
    name ?? "",
    (scopes ?? []).join(","),
    prefix ?? (prefixes ?? [""]).map((one) => one || "all counters").join(" "),
    rate ? `${rate} a minute` : "",
    end ? `until ${day(end)}` : "",
    used ? `used ${day(used)}` : "",
  ];
  screen.show({ entries: keys }, () => (keys.length === 0 ? "there are no keys" : table(keys.map(row))));
  return EXIT.done;
}

/** Ends a key. */
export async function revoke({ args: [name], options, screen }) {
  const { file } = options;
  if (file === undefined) {
    const client = clientOf(options);
    const { id } = await named(client, name);
    await client.answer("DELETE", path("/keys/{id}", id), { isSafe: true });
  } else {
    const keys = readKeys(file);
    const left = keys.keys.filter((one) => one.name !== name);
    if (left.length === keys.keys.length) throw called(file, name);
    writeKeys(file, { ...keys, keys: left });
  }
  screen.show(
    { name, status: "revoked" },
    () => `${name} is revoked${file === undefined ? "" : ` in ${file}: set the secret TALLY_KEYS again`}`,
  );
  return EXIT.done;
}

/** Makes a key anew. */
export async function rotate({ args: [name], options, screen }) {
  const { file, keep } = options;
  if (file === undefined) {
    const client = clientOf(options);
    const { id } = await named(client, name);
    const body = keep === undefined ? {} : { keep_seconds: keep };
    printed(screen, await client.request("POST", path("/keys/{id}/rotate", id), { body, isWrite: true }));
    return EXIT.done;
  }
  const keys = readKeys(file);
  const mine = keys.keys.filter((one) => one.name === name);
  if (mine.length === 0) throw called(file, name);
  const key = newKey();
  const made = mine.map((one) => ({ ...one, key }));
  // A file knows no time: the old key stays under another name until it is revoked.
  const old = keep > 0 ? mine.map((one) => ({ ...one, name: `${name}, old` })) : [];
  writeKeys(file, { ...keys, keys: [...keys.keys.filter((one) => one.name !== name), ...made, ...old] });
  printed(screen, { name, key }, file);
  if (old.length > 0 && !screen.isJson) screen.note(`the old one is called "${name}, old": revoke it once it is not used any more`);
  return EXIT.done;
}
