// Finds the scripts of @upstash/ratelimit and of upstash-ratelimit for Python that Tally does not know:
// `node scripts/ratelimit-scripts.mjs FILE…`, where each file is a published version's program. Prints the SHA-1 and
// the first line of each, and ends with 1 where there are any.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const TABLE = new URL("../crates/tally-redis/src/scripts/table.rs", import.meta.url);
// What a script's text is told by, and the only name that a published script takes from the program around it.
const CALL = "redis.call";
const TAKEN = { tokenBucketIdentifierNotFound: -1 };

/** The SHA-1 and the text of each script that stands in a program, and of each that the program names by its SHA-1. */
export function scriptsOf(program) {
  const found = new Map();
  for (const [, js, python] of program.matchAll(/`((?:[^`\\]|\\.)*)`|"""((?:[^"\\]|\\.|"(?!""))*)"""/gs)) {
    const text = js ?? python;
    if (!text.includes(CALL)) continue;
    const filled = text.replaceAll(/\$\{(\w+)\}/g, (_, name) => TAKEN[name] ?? `\${${name}}`);
    const script = filled.replaceAll(/\\(.)/gs, (_, character) => ({ n: "\n", t: "\t" })[character] ?? character);
    found.set(createHash("sha1").update(script).digest("hex"), script);
  }
  for (const [, sha] of program.matchAll(/hash: "([0-9a-f]{40})"/g)) {
    if (!found.has(sha)) {
      found.set(sha, "named by its SHA-1");
    }
  }
  return found;
}

/** Those of these programs that are not in the table. */
export function unknownScripts(programs) {
  const known = new Set([...readFileSync(TABLE, "utf8").matchAll(/"([0-9a-f]{40})"/g)].map(([, sha]) => sha));
  return programs.flatMap((program) => [...scriptsOf(program)]).filter(([sha]) => !known.has(sha));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const unknown = unknownScripts(process.argv.slice(2).map((file) => readFileSync(file, "utf8")));
  for (const [sha, text] of unknown) console.log(`${sha} ${text.trim().split("\n")[0]}`);
  process.exitCode = unknown.length > 0 ? 1 : 0;
}
