// `tally keys`: keys of a deployment by `/keys`, or those of a file for the secret TALLY_KEYS.
//
// Invariant: a key is printed once, when it is made, and never again. A file that holds keys is readable by its owner alone.
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { path } from "../client/transport.ts";
import { clientOf, newCall } from "./client.mjs";
import { EXIT, Failure, table } from "./outcome.mjs";

const SCOPES = ["read", "write", "refund", "admin"];

/** Returns a key that nobody guesses. */
export const newKey = () => randomBytes(24).toString("hex");

/** Returns the keys of a file; none where it does not exist. */
export function readKeys(file) {
  if (!existsSync(file)) return { keys: [], public: [] };
  try {
    const read = JSON.parse(readFileSync(file, "utf8"));
    return { ...read, keys: read.keys ?? [] };
  } catch (error) {
    throw new Failure(EXIT.failed, `${file} is no JSON as docs/operate/keys.md shows it: ${error.message}`);
  }
}

/** Writes the keys of a file. */
export function writeKeys(file, keys) {
  writeFileSync(`${file}.new`, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  chmodSync(`${file}.new`, 0o600);
  renameSync(`${file}.new`, file);
}

function scopesOf(text) {
  const scopes = text.split(",");
  const unknown = scopes.find((scope) => !SCOPES.includes(scope));
  if (unknown !== undefined) throw new Failure(EXIT.usage, `--scopes: ${unknown} is none of ${SCOPES.join(", ")}`);
  return scopes;
}

const called = (file, name) => new Failure(EXIT.notFound, `${file} has no key called ${name}; tally keys list --file ${file} shows them`);

function printed(screen, made, file) {
  screen.show(made, ({ name, key }) => `${screen.paint("bold", key)}\n${screen.paint("dim", `This is the key "${name}". It is not shown again.`)}`);
  if (file !== undefined && !screen.isJson) screen.note(`${file} is changed. Set it as the secret: npx wrangler secret put TALLY_KEYS -c <edge configuration> < ${file}`);
}

/** Makes a key. */
export async function add({ args: [name], options, screen }) {
  const scopes = scopesOf(options.scopes);
  const { file, prefix: prefixes = [], ratePerMinute, expires } = options;
  if (file === undefined) {
    const body = { name, scopes, ...(prefixes.length > 0 ? { prefixes } : {}), ...(ratePerMinute === undefined ? {} : { rate_per_minute: ratePerMinute }), ...(expires === undefined ? {} : { expires_at: Date.parse(expires) }) };
    const answer = await newCall(clientOf(options), "keys of its own: use --file, and set the secret TALLY_KEYS", "POST", "/keys", { body, isWrite: true });
    printed(screen, { name, ...(await answer.json()) });
    return EXIT.done;
  }
  if (ratePerMinute !== undefined || expires !== undefined) throw new Failure(EXIT.usage, "--rate-per-minute and --expires are for keys of a deployment: leave --file out");
  const keys = readKeys(file);
  if (keys.keys.some((one) => one.name === name)) throw new Failure(EXIT.failed, `${file} has a key called ${name} already: tally keys rotate ${name} --file ${file} makes it anew`);
  const key = newKey();
  // An entry has one prefix: of several there is one entry each, with the same key.
  for (const prefix of prefixes.length > 0 ? prefixes : [undefined]) keys.keys.push({ name, key, scopes, ...(prefix === undefined ? {} : { prefix }) });
  writeKeys(file, keys);
  printed(screen, { name, key, scopes, prefixes }, file);
  return EXIT.done;
}

/** Lists keys by their names, without the keys. */
export async function list({ options, screen }) {
  const { file } = options;
  const keys =
    file === undefined
      ? (await (await newCall(clientOf(options), "keys of its own: use --file", "GET", "/keys")).json()).keys
      : readKeys(file).keys.map(({ key: _, ...entry }) => entry);
  screen.show({ keys }, () =>
    keys.length === 0 ? "there are no keys" : table(keys.map((one) => [one.name ?? "", (one.scopes ?? []).join(","), one.prefix ?? (one.prefixes ?? ["all counters"]).join(" ")])),
  );
  return EXIT.done;
}

/** Ends a key. */
export async function revoke({ args: [name], options, screen }) {
  const { file } = options;
  if (file === undefined) await newCall(clientOf(options), "keys of its own: use --file", "DELETE", path("/keys/{name}", name), { isSafe: true });
  else {
    const keys = readKeys(file);
    const left = keys.keys.filter((one) => one.name !== name);
    if (left.length === keys.keys.length) throw called(file, name);
    writeKeys(file, { ...keys, keys: left });
  }
  screen.show({ name, status: "revoked" }, () => `${name} is revoked${file === undefined ? "" : ` in ${file}: set the secret TALLY_KEYS again`}`);
  return EXIT.done;
}

/** Makes a key anew. */
export async function rotate({ args: [name], options, screen }) {
  const { file, keep } = options;
  if (file === undefined) {
    const answer = await newCall(clientOf(options), "keys of its own: use --file", "POST", path("/keys/{name}/rotate", name), { body: { keep_seconds: keep }, isWrite: true });
    printed(screen, { name, ...(await answer.json()) });
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
  if (old.length > 0 && !screen.isJson) screen.note(`the old one is called "${name}, old": revoke it once nobody uses it`);
  return EXIT.done;
}
