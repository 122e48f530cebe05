// What `make serve` and `make dev` take from the environment, checked before anything starts.
//
// Invariant: access is open only on a loopback address without keys. Any other address needs keys.

export const SERVE_PORT_DEFAULT = 8788;
export const HOST_DEFAULT = "127.0.0.1";
// One isolate each: 64 are many times what a machine has cores.
export const EDGES_MAX = 64;
const PORT_MAX = 65_535;

/** A setting that cannot be used. Its message says which one and what to do. */
export class SettingError extends Error {}

function whole(name, value, fallback, min, max) {
  if (value === undefined || value === "") return fallback;
  const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
  if (!(number >= min && number <= max)) {
    throw new SettingError(`${name} must be a whole number from ${min} to ${max}, not ${JSON.stringify(value)}`);
  }
  return number;
}

/** Returns a setting of the server: `TALLY_<name>`, or the short name, which `make serve` takes too. */
export const ownSetting = (env, name) => env[`TALLY_${name}`] || env[name];

/** Returns the port in `value`, or `fallback` where it is not set. 0 means: any free one. */
export function port(value, fallback) {
  return whole("TALLY_PORT", value, fallback, 0, PORT_MAX);
}

/** Returns whether a numeric address (as a resolver gives it) leads to this machine only. */
export function isLoopback(address) {
  return /^127(\.\d{1,3}){3}$/.test(address) || address === "::1";
}

/**
 * Returns the TALLY_ variables to hand to the Workers: those of the environment that are set, with
 * TALLY_ACCESS decided here, TALLY_STARTED_AT at each start, and TALLY_ROLE left to each Worker's own configuration.
 * TALLY_ACCESS=closed in the environment closes an instance that would be open; nothing opens one. What each of them
 * may be, the Workers know (crates/tally-wire/src/settings.rs), and say: see `ailment`.
 */
export function workerVariables(env, loopback) {
  const own = ["TALLY_ROLE", "TALLY_ACCESS", "TALLY_STARTED_AT", "TALLY_PORT", "TALLY_HOST", "TALLY_DATA"];
  const variables = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => name.startsWith("TALLY_") && value !== "" && !own.includes(name)),
  );
  const access = env.TALLY_ACCESS || "open";
  if (access !== "open" || (loopback && variables.TALLY_KEYS === undefined)) variables.TALLY_ACCESS = access;
  return variables;
}

/**
 * Resolves to what the Workers at `url` say of themselves: undefined where they are well, else `{ status, detail,
 * isFinal }`. It is final where a variable may not be as it is: `detail` is the sentence. Status 200 means that they
 * are well and of another process than the one that began at `startedAt`, unix milliseconds. Rejects where nothing
 * answers.
 */
export async function ailment(url, startedAt) {
  const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(5_000) });
  const { code, detail, started_at: began } = parsed(await answer.text());
  if (answer.status === 200) {
    const isOther = startedAt !== undefined && began !== undefined && began !== startedAt;
    return isOther ? { status: 200, isFinal: false } : undefined;
  }
  return { status: answer.status, detail, isFinal: code === "not-configured" };
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/**
 * Returns how many objects each of so many edges, for writes, and the aggregator, for reads and what was queued, may
 * have open at once: together they take half of the descriptors of workerd, three to an object, and a quarter of the
 * machine's memory, 280 KB to an object.
 */
export function openObjectsMax(descriptors, memoryBytes, edges) {
  const most = Math.min(descriptors / 2 / 3, memoryBytes / 4 / 280_000);
  return Math.max(1, Math.floor(most / (edges + 1)));
}

// What to change if keys are missing: by variables, or by options of `tally serve`.
const NEEDS_KEYS = {
  variables: (host) => [`TALLY_HOST=${host}`, "set TALLY_KEYS to the keys", "leave TALLY_HOST unset"],
  options: (host) => [`--host ${host}`, "add --keys keys.json", "leave --host out"],
};

/**
 * Returns the settings of `make serve`.
 * addresses: what TALLY_HOST resolves to, numeric. by: whether they come as `variables` or as `options`. Errors:
 * SettingError, its message for the user.
 */
export function serveSettings(env, addresses, by = "variables") {
  const host = ownSetting(env, "HOST") || HOST_DEFAULT;
  const loopback = addresses.length > 0 && addresses.every(isLoopback);
  const variables = workerVariables(env, loopback);
  if (!loopback && variables.TALLY_KEYS === undefined) {
    const [what, set, unset] = NEEDS_KEYS[by](host);
    throw new SettingError(
      `${what} can be reached from other machines, so keys are needed: ${set} (docs/operate/keys.md shows their form), or ${unset} to serve this machine only`,
    );
  }
  const edges = whole("SERVE_EDGES", env.SERVE_EDGES, 1, 1, EDGES_MAX);
  const first = port(ownSetting(env, "PORT"), SERVE_PORT_DEFAULT);
  if (first + edges - 1 > PORT_MAX) {
    throw new SettingError(`TALLY_PORT=${first} leaves no room for SERVE_EDGES=${edges}: the last port would be past ${PORT_MAX}`);
  }
  const header = env.CF_BLOB_HEADER || undefined;
  if (header !== undefined && !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header)) {
    throw new SettingError(`CF_BLOB_HEADER must be the name of a header, not ${JSON.stringify(header)}`);
  }
  // Without it nothing says where a request entered, and looking there costs each of them time.
  if (header === undefined) variables.TALLY_DATACENTERS ??= "one";
  // All objects share one thread here, so more limiters judge no faster, and fewer of them share fuller messages: with
  // four a check of one of 10,000 keys takes 24 % less time than with the 8 of a deployment, with two no less. Four
  // hold 400,000 keys at a time.
  variables.TALLY_LIMITERS ??= "4";
  // Plain workerd counts no calls of a request, so the memory of a bulk body bounds how many counters it names.
  variables.TALLY_SUBREQUESTS ??= "1000000";
  return {
    host,
    address: addresses[0],
    ports: Array.from({ length: edges }, (_, index) => (first === 0 ? 0 : first + index)),
    data: ownSetting(env, "DATA") || ".data",
    cfBlobHeader: header,
    variables,
  };
}
