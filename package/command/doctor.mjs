// `tally doctor`: what could be wrong, looked at one by one, each with what to do.
import { createRequire } from "node:module";
import { accessSync, constants, existsSync } from "node:fs";
import { resolve } from "node:path";
import { addressOf, clientOf } from "./client.mjs";
import { EXIT } from "./outcome.mjs";
import { nodeFault, PACKAGE, ROOT } from "./place.mjs";

// TALLY warns at this offset of clocks: times of events are refused beyond 5 s.
const CLOCK_MS_MAX = 2_000;

/** Returns the check of a version of Node. */
export function nodeCheck(node) {
  const fault = nodeFault(node);
  if (fault !== undefined) return ["node", "wrong", fault];
  return ["node", "ok", `Node ${node}`];
}

// Reading a counter creates none. Its slashes are what proxies decode, the first one too.
const PROBE_ID = "/tally-doctor/of/a/proxy";
const MACHINE_PAGE = "see \"Behind a proxy\" in docs/operate/machine.md";

/**
 * Returns the check of what a proxy in front did with the `%2F` of an id, by the refusal of a read of the counter
 * `id`; of none, the counter exists.
 */
export function pathCheck(id, refusal) {
  const wrong = (what) => ["path", "wrong", `${what}: ${MACHINE_PAGE}`];
  if (refusal === undefined) return ["path", "ok", "ids with %2F arrive as they are sent"];
  const { status, code, message } = refusal;
  if (code === "counter-not-found") {
    if (message.includes(JSON.stringify(id))) return pathCheck(id);
    if (message.includes(encodeURIComponent(id))) return wrong("the proxy encodes % again, so an id with a slash counts under another id");
  }
  if (["counter-not-found", "not-found"].includes(code)) return wrong("the proxy decodes %2F, so /blog counts as blog, and deeper ids are 404");
  if ([401, 403].includes(status) && code !== "unknown") return ["path", "differs", "this key may not read an id with %2F, so this check cannot see what a proxy does with it"];
  if (code === "unknown") return wrong(`the proxy answers a path with %2F itself, with ${status}`);
  return ["path", "wrong", `an id with %2F is answered with ${status} ${code}: ${message}`];
}

function machine() {
  const checks = [];
  checks.push(nodeCheck(process.versions.node));
  try {
    const { version } = createRequire(`${ROOT}/`)("workerd/package.json");
    checks.push(["workerd", "ok", `workerd ${version}`]);
  } catch {
    checks.push(["workerd", "wrong", "workerd is not installed: npm install workerd, with its optional dependencies"]);
  }
  checks.push(existsSync(`${ROOT}/build/index_bg.wasm`) ? ["build", "ok", `tally ${PACKAGE.version}`] : ["build", "wrong", "the built Worker is missing: install the package again, or run make build in the source"]);
  const data = resolve(process.env.TALLY_DATA || process.env.DATA || "tally-data");
  if (existsSync(data)) {
    try {
      accessSync(data, constants.W_OK);
      checks.push(["data", "ok", data]);
    } catch {
      checks.push(["data", "wrong", `${data} cannot be written by this user`]);
    }
  }
  return checks;
}

async function deployment(options) {
  const client = clientOf(options, { retries: 1 });
  const address = addressOf(options);
  const checks = [];
  let health;
  try {
    const began = Date.now();
    health = await client.answer("GET", "/healthz");
    checks.push(["answers", "ok", `${address}, in ${Date.now() - began} ms`]);
    const date = Date.parse(health.headers.get("date") ?? "");
    const offset_ms = Math.abs(date - Date.now());
    if (!Number.isNaN(date)) checks.push(offset_ms <= CLOCK_MS_MAX ? ["clock", "ok", "this machine's clock and the server's agree"] : ["clock", "wrong", `the clocks differ by ${Math.round(offset_ms / 1000)} s: set them with NTP`]);
  } catch (error) {
    checks.push(["answers", "wrong", error.status === 0 ? `${error.message}: start it (tally serve), or pass its address with --url` : `/healthz answers ${error.status} ${error.code}: ${error.message}`]);
    return checks;
  }
  const described = await client.request("GET", "/openapi.json").catch(() => undefined);
  const version = described?.info?.version;
  if (version !== undefined) checks.push(version === PACKAGE.version ? ["version", "ok", version] : ["version", "differs", `the deployment is ${version}, this package ${PACKAGE.version}: see docs/operate/upgrade.md`]);
  try {
    await client.list({ limit: 1 });
    checks.push(["key", "ok", "counters may be read"]);
  } catch (error) {
    const what = { 401: "no key was sent, or an unknown one: set TALLY_KEY", 403: "the key may not list all counters, which is right for a key with a prefix" }[error.status] ?? error.message;
    checks.push(["key", error.status === 403 ? "differs" : "wrong", what]);
  }
  checks.push(pathCheck(PROBE_ID, await client.get(PROBE_ID).then(() => undefined, (error) => error)));
  return checks;
}

/** Prints each check. The exit code is 0 where nothing is wrong, else 1, or 5 where the deployment does not answer. */
export async function doctor({ options, screen }) {
  const checks = [...machine(), ...(await deployment(options))];
  const rows = checks.map(([name, result, detail]) => ({ check: name, result, detail }));
  const style = { ok: "green", differs: "yellow", wrong: "red" };
  screen.show({ ok: rows.every(({ result }) => result !== "wrong"), checks: rows }, () =>
    rows.map(({ check, result, detail }) => `${screen.paint(style[result], result.padEnd(8))}${check.padEnd(10)}${detail}`).join("\n"),
  );
  const wrong = rows.filter(({ result }) => result === "wrong");
  if (wrong.length === 0) return EXIT.done;
  return wrong.some(({ check }) => check === "answers") ? EXIT.unavailable : EXIT.failed;
}
