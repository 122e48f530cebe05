// The client of the command: where Tally is, and by which key.
import { Tally, TallyError } from "../client/index.ts";
import { baseOf } from "../client/transport.ts";
import { EXIT, Failure, parsed } from "./outcome.mjs";
import { readText } from "./text.mjs";

export const URL_DEFAULT = "http://127.0.0.1:8788";

// Somebody waits for the answer.
const RETRIES = 2;

/** Returns the address that the options or the environment name, without a slash at its end. */
export function addressOf({ url }) {
  const name = url === undefined ? "TALLY_URL" : "--url";
  try {
    return baseOf(url ?? process.env.TALLY_URL ?? URL_DEFAULT, name);
  } catch (error) {
    throw new Failure(EXIT.usage, error.message);
  }
}

/** Returns a client. `more`: options of the client. */
export function clientOf(options, more = {}) {
  const file = options.keyFile ?? process.env.TALLY_KEY_FILE;
  const key =
    options.key ?? process.env.TALLY_KEY ?? (file === undefined ? undefined : readText(file).trim());
  return new Tally({ url: addressOf(options), retries: RETRIES, parse: parsed, ...(key ? { key } : {}), ...more });
}

/**
 * Returns the error of a command; of a call that is not known, what is wrong with the address if Tally does not answer
 * there.
 */
export async function explained(error, options) {
  const isUnknown = error.status === 404 && ["not-found", "unknown"].includes(error.code);
  if (!isUnknown && error.exit !== EXIT.unknownCall) return error;
  const look = clientOf(options, { retries: 0 }).request("GET", "/healthz");
  const { status, code } = await look.then(() => ({}), (fault) => fault);
  if (status !== 404 && code !== "not-tally") return error;
  const remedy = "set --url or TALLY_URL to the address at which Tally itself answers";
  return new Failure(EXIT.failed, `${addressOf(options)} is not Tally, because it has no /healthz of Tally: ${remedy}`);
}

/**
 * Calls what a deployment of an earlier build may not know, and says so then. Resolves to the JSON of the answer, or to
 * the answer itself with `how` "answer".
 */
export async function newCall(client, what, method, route, call, how = "request") {
  try {
    return await client[how](method, route, call);
  } catch (error) {
    if (!(error instanceof TallyError)) throw error;
    if (
      ["not-found", "method-not-allowed"].includes(error.code) ||
      (error.status === 404 && error.code === "unknown")
    ) {
      throw new Failure(
        EXIT.unknownCall,
        `this deployment does not know ${what} (${method} ${route.split("?")[0]}): upgrade it, see docs/operate/upgrade.md`,
        { cause: error.code },
      );
    }
    throw error;
  }
}
