// The house rules that no compiler checks: which folder may use which, how long a file may be, what
// must not be called, which versions and dates go together.
//
// Invariant: a rule looks at code only. Comments and literals are blanked first, line by line, so a
// pure module may speak of the edge in its documentation, and line numbers stay true.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

const LINES_MAX = 400;
// Files that may be longer, each with its own limit: path from the root → lines.
const LONGER = {};
const CODE = /\.(rs|mjs|js|ts|sh|capnp)$/;

// Each folder of src with the folders that it must not use. One that is missing here has no layer.
const SHELLS = ["objects", "edge", "aggregator"];
const ABOVE_PURE = ["protocol", "host", "platform", ...SHELLS];
const LAYERS = {
  counter: ABOVE_PURE,
  sketch: ABOVE_PURE,
  limit: ABOVE_PURE,
  cluster: ABOVE_PURE,
  protocol: ["host", "platform", ...SHELLS],
  host: ["platform", ...SHELLS],
  // The platform itself: it carries the shells, and nobody names it.
  "host/workers": [],
  platform: SHELLS,
  objects: ["edge"],
  edge: ["objects"],
  aggregator: [],
  "handlers.js": [],
  "recovery.js": [],
};
// The platform, the clock and randomness come as arguments to a pure module, and by the host's traits to the shells: one place
// alone names what is there on Workers only.
const GLUE = "host/workers";
const ONLY_GLUE = /\b(worker|worker_sys|js_sys|web_sys|wasm_bindgen|wasm_bindgen_futures|getrandom)\s*(::|;)/;
const FORBIDDEN_CALLS = [
  [/\bInstant\s*::\s*now\b/, "Instant::now panics on wasm32 and makes tests depend on a clock: take the time as an argument"],
  [/\bSystemTime\s*::\s*now\b/, "SystemTime::now panics on wasm32 and makes tests depend on a clock: take the time as an argument"],
  [/\bSqlCursor\s*::\s*one\b|\.one\s*::\s*</, "SqlCursor::one lets a JavaScript exception past Rust's Err: use to_array"],
];

/** Returns Rust source with comments and literals blanked by spaces; line breaks stay. */
export function codeOnly(source) {
  const token =
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|\bb?r(#*)"[\s\S]*?"\1|b?"(?:\\[\s\S]|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'/g;
  return source.replace(token, (found) => found.replace(/[^\n]/g, " "));
}

const lineOf = (text, index) => text.slice(0, index).split("\n").length;

// Returns the top-level modules that a `use crate::…;` names, groups opened: [[name, index]…].
function modulesUsed(code) {
  const found = [];
  for (const match of code.matchAll(/\b(?:crate|tally)\s*::\s*(\w+)/g)) found.push([match[1], match.index]);
  for (const match of code.matchAll(/\b(?:crate|tally)\s*::\s*\{([^;]*)\}\s*;/g)) {
    let depth = 0;
    let start = true;
    for (const [word] of match[1].matchAll(/\w+|[{},]/g)) {
      if (word === "{") depth += 1;
      else if (word === "}") depth -= 1;
      else if (word === ",") start = true;
      else if (start && depth === 0) {
        found.push([word, match.index]);
        start = false;
      }
    }
  }
  return found;
}

// Returns the modules that chains of `super` name beside the file's own folder: [[name, index]…].
// `levels` is how many of them lead from the file to the crate. A module inside the file needs one
// more, so a longer chain counts as well.
function modulesByParent(code, levels) {
  return [...code.matchAll(/\b((?:super\s*::\s*)+)(\w+)/g)]
    .filter((match) => match[1].split("super").length - 1 >= levels)
    .map((match) => [match[2], match.index]);
}

/** Returns what is wrong with one Rust file under src: "path:line: sentence" each. */
export function layering(path, source) {
  const parts = path.split("/").slice(1);
  const folder = path.startsWith(`src/${GLUE}/`) ? GLUE : parts[0].replace(/\.rs$/, "");
  if (folder === "lib") return [];
  const forbidden = LAYERS[folder];
  if (forbidden === undefined) return [`${path}:1: src/${folder} has no layer: name it in LAYERS of scripts/tidy.mjs`];
  const code = codeOnly(source);
  const levels = parts.at(-1) === "mod.rs" || parts.length === 1 ? parts.length - 1 || 1 : parts.length;
  const findings = [...modulesUsed(code), ...modulesByParent(code, levels)]
    .filter(([name]) => forbidden.includes(name))
    .map(([name, index]) => `${path}:${lineOf(code, index)}: ${folder} must not use ${name}: dependencies point one way`);
  if (folder !== GLUE) {
    code.split("\n").forEach((line, index) => {
      const found = line.match(ONLY_GLUE);
      if (found) findings.push(`${path}:${index + 1}: ${folder} must not use ${found[1]}: only src/${GLUE} knows it`);
    });
  }
  return findings;
}

/** Returns the forbidden calls of one Rust file: "path:line: sentence" each. */
export function forbiddenCalls(path, source) {
  return codeOnly(source)
    .split("\n")
    .flatMap((line, index) =>
      FORBIDDEN_CALLS.filter(([call]) => call.test(line)).map(([, why]) => `${path}:${index + 1}: ${why}`),
    );
}

/** Returns a finding where a file is longer than it may be. */
export function tooLong(path, source) {
  const lines = source.split("\n").length - (source.endsWith("\n") ? 1 : 0);
  const max = LONGER[path] ?? LINES_MAX;
  return lines > max ? [`${path}:${max + 1}: ${lines} lines, ${max} at most: split it by subject`] : [];
}

// Returns the version of a crate in the text of Cargo.lock.
function locked(lock, name) {
  return lock.match(new RegExp(`name = "${name}"\\nversion = "([^"]+)"`))?.[1];
}

/** Returns what does not go together, given the texts of the files named. */
export function versions({ lock, bindgenLock, edge, aggregator, workerdDate }) {
  const findings = [];
  const [crate, tool] = [locked(lock, "wasm-bindgen"), locked(bindgenLock, "wasm-bindgen-cli-support")];
  if (crate === undefined || tool !== crate) {
    findings.push(`wasm-bindgen is ${crate} in Cargo.lock, and tools/bindgen is of ${tool}: set tools/bindgen/Cargo.toml to the same`);
  }
  const date = (text) => text.match(/^compatibility_date = "([\d-]+)"$/m)?.[1];
  if (date(edge) === undefined || date(edge) !== date(aggregator)) {
    findings.push(`compatibility_date differs: ${date(edge)} in wrangler.toml, ${date(aggregator)} in wrangler.aggregator.toml`);
  } else if (date(edge) > workerdDate) {
    findings.push(`compatibility_date ${date(edge)} is later than workerd's own ${workerdDate}: it would refuse to start`);
  }
  return findings;
}

function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Returns every finding in the project at `root`; empty when it is tidy. workerdDate: of the installed workerd. */
export function tidy(root, workerdDate) {
  const read = (path) => readFileSync(join(root, path), "utf8");
  const paths = ["src", "tests", "scripts", "benches", "dashboard", "tools"].flatMap((folder) => filesBelow(join(root, folder)));
  const findings = paths
    .map((path) => relative(root, path))
    .filter((path) => CODE.test(path) && !path.startsWith("tests/fixtures/"))
    .flatMap((path) => {
      const source = read(path);
      return [
        ...tooLong(path, source),
        ...(path.endsWith(".rs") ? forbiddenCalls(path, source) : []),
        ...(path.startsWith("src/") ? layering(path, source) : []),
      ];
    });
  const locks = { lock: read("Cargo.lock"), bindgenLock: read("tools/bindgen/Cargo.lock") };
  const texts = { ...locks, edge: read("wrangler.toml"), aggregator: read("wrangler.aggregator.toml") };
  return [...findings, ...versions({ ...texts, workerdDate })];
}
