// The house rules that no compiler checks: how long a function and a line may be, what a type may be called, what must
// not be called, which versions and dates go together.
//
// Invariant: a rule looks at code only. Comments and literals are blanked first, line by line, so a
// pure module may speak of the edge in its documentation, and line numbers stay true.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import ts from "typescript";

const FUNCTION_LINES_MAX = 70;
// Whose lines and functions are measured.
const MEASURED = /\.(rs|mjs|js|ts)$/;
const COLUMNS_MAX = 120;
// The largest file of the repository, bytes: pictures and a log have up to 465,000. More is a dump, or a build.
const FILE_BYTES_MAX = 1_000_000;
// What is made of openapi.json when the client is packed, and the script that pages load.
const GENERATED = ["package/client/api.ts", "crates/tally-edge/tally.js"];
// A literal of so many columns may end its line wherever it ends.
const LITERAL_COLUMNS_MIN = 60;
// So many public types may share a name, where their folders tell them apart.
const NAMESAKES_MAX = 2;
// What is public, be it to a part of a crate, and what is public to all.
const PUBLIC = /^pub(?:\([^)]*\))? (?:struct|enum|trait|type|union) (\w+)/;
const PUBLIC_TO_ALL = /^pub (?:struct|enum|trait|type|union) (\w+)/;
// Files that may look at the machine's clock: they measure how long it takes, show what a program does with it, or are
// the clock of a platform.
const CLOCKS = [
  "crates/tally-limit/examples/limit.rs", "crates/tally-server/src/clock.rs",
  "simulation/src/bin/board_figures.rs", "simulation/src/bin/top_figures.rs", "simulation/tests/worlds/soak.rs",
];
const CODE = /\.(rs|mjs|js|ts|sh|capnp)$/;

const FORBIDDEN_CALLS = [
  [/\bInstant\s*::\s*now\b/, "Instant::now panics on wasm32 and makes tests depend on a clock: take the time as an argument"],
  [/\bSystemTime\s*::\s*now\b/, "SystemTime::now panics on wasm32 and makes tests depend on a clock: take the time as an argument"],
  [/\bSqlCursor\s*::\s*one\b|\.one\s*::\s*</, "SqlCursor::one lets a JavaScript exception past Rust's Err: use to_array"],
];

// Comments and literals of Rust.
const RUST =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|\bb?r(#*)"[\s\S]*?"\1|b?"(?:\\[\s\S]|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'/g;
// Comments and literals of JavaScript. A template within a template ends it: that is as good for lines.
const SCRIPT =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|(["'])(?:\\.|(?!\1)[^\\\n])*\1|`(?:\\[\s\S]|[^`\\])*`|(?<=[(,=:[!&|?{;]\s*)\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+\//g;

/** Returns Rust source with comments and literals blanked by spaces; line breaks stay. */
export function codeOnly(source) {
  return source.replace(RUST, (found) => found.replace(/[^\n]/g, " "));
}

const lineOf = (text, index) => text.slice(0, index).split("\n").length;

/** Returns the forbidden calls of one Rust file: "path:line: sentence" each. */
export function forbiddenCalls(path, source) {
  if (CLOCKS.includes(path)) return [];
  return codeOnly(source)
    .split("\n")
    .flatMap((line, index) =>
      FORBIDDEN_CALLS.filter(([call]) => call.test(line)).map(([, why]) => `${path}:${index + 1}: ${why}`),
    );
}

// Returns the functions of a formatted Rust file: { name, first, length } each, `first` a line from 1.
function rustFunctions(source) {
  const lines = codeOnly(source).split("\n").map((line) => line.trimEnd());
  return lines.flatMap((line, first) => {
    const [, indent, name] = line.match(/^( *)(?:[a-z]+(?:\([\w: ]+\))? )*fn (\w+)/) ?? [];
    if (name === undefined) return [];
    const opens = lines.findIndex((one, at) => at >= first && /[{};]$/.test(one));
    if (!lines[opens]?.endsWith("{")) return [];
    return [{ name, first: first + 1, length: lines.indexOf(`${indent}}`, opens) - first + 1 }];
  });
}

// Returns whether a function only holds functions: what describe() is given is a suite of tests, each of which is
// measured by itself, and a function that is called where it stands, as a statement of its file, is that file's scope.
function isScope(node) {
  const outer = ts.isParenthesizedExpression(node.parent) ? node.parent : node;
  const call = outer.parent;
  if (!ts.isCallExpression(call)) return false;
  if (call.expression === outer) return ts.isExpressionStatement(call.parent) && ts.isSourceFile(call.parent.parent);
  // describe(), describe.skipIf(…)(), describe.each(…)().
  let callee = call.expression;
  while (!ts.isIdentifier(callee) && callee.expression !== undefined) callee = callee.expression;
  return callee.text === "describe";
}

// Returns the functions of a file of JavaScript or TypeScript, likewise. One without a name that is an argument has the
// name of what it is given to.
function scriptFunctions(path, source) {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  const lineAt = (position) => file.getLineAndCharacterOfPosition(position).line + 1;
  const nameOf = ({ name, parent }) =>
    (name ?? parent.name ?? (ts.isCallExpression(parent) ? parent.expression : undefined))?.getText() ?? "a function";
  const found = [];
  const visit = (node) => {
    if (ts.isFunctionLike(node) && node.body !== undefined && !isScope(node)) {
      const first = lineAt(node.getStart());
      found.push({ name: nameOf(node), first, length: lineAt(node.end) - first + 1 });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Returns a finding for each function of a file that is longer than a screen. */
export function longFunctions(path, source) {
  const functions = path.endsWith(".rs") ? rustFunctions(source) : scriptFunctions(path, source);
  return functions
    .filter(({ length }) => length > FUNCTION_LINES_MAX)
    .map(
      ({ name, first, length }) =>
        `${path}:${first}: ${name} has ${length} lines, ${FUNCTION_LINES_MAX} at most: split it by meaning`,
    );
}

/**
 * Returns a finding for each line that is too long. Rows of tables are left alone, in comments and between brackets,
 * and so are lines that a long literal fills, which nobody can break.
 */
export function longLines(path, source) {
  const filled = new Set();
  for (const { 0: found, index } of source.matchAll(path.endsWith(".rs") ? RUST : SCRIPT)) {
    const lines = found.split("\n");
    if (/^\/[/*]/.test(found) || (lines.length === 1 && found.length < LITERAL_COLUMNS_MIN)) continue;
    const first = lineOf(source, index);
    lines.forEach((_, at) => filled.add(first + at));
  }
  return source.split("\n").flatMap((line, index) => {
    if (line.length <= COLUMNS_MAX || filled.has(index + 1)) return [];
    if (/^\s*\/\/[/!]? *\||^\s*[{[].*[}\]],$/.test(line)) return [];
    return [`${path}:${index + 1}: ${line.length} columns, ${COLUMNS_MAX} at most: break the line`];
  });
}

/** Returns the types that a Rust file defines outside of functions and that are public so: [[name, line]…]. */
export function publicTypes(source, visibility = PUBLIC) {
  return codeOnly(source)
    .split("\n")
    .flatMap((line, index) => {
      const [, name] = line.match(visibility) ?? [];
      return name === undefined ? [] : [[name, index + 1]];
    });
}

/** Returns a finding for each public type whose name stands for too much. files: [path, source] of each. */
export function namesakes(files) {
  const places = new Map();
  for (const [path, source] of files) {
    for (const [name, line] of publicTypes(source)) places.set(name, [...(places.get(name) ?? []), { path, line }]);
  }
  const folder = ({ path }) => path.replace("/src/", "/").split("/").slice(0, -1).slice(0, 3).join("/");
  return [...places].flatMap(([name, all]) => {
    const folders = new Set(all.map(folder));
    if (all.length <= NAMESAKES_MAX && folders.size === all.length) return [];
    const [{ path, line }, ...others] = all;
    return [`${path}:${line}: ${name} is a type of ${others.map((one) => `${one.path}:${one.line}`).join(" and ")} too: give each a name of its own`];
  });
}

/**
 * Returns a finding for each two types that share a name and are public to all, unless the comment that one of their
 * modules opens with tells of the other, as `module::Name`. files: [path, source] of each.
 */
export function undocumentedNamesakes(files) {
  const places = new Map();
  for (const [path, source] of files) {
    const module = path.replace(/(\/mod|\/lib)?\.rs$/, "").split("/").at(-1);
    const [opening] = source.match(/^(?:\/\/!.*\n)*/);
    for (const [name, line] of publicTypes(source, PUBLIC_TO_ALL)) {
      places.set(name, [...(places.get(name) ?? []), { path, line, module, opening }]);
    }
  }
  const tells = (one, other, name) => one.opening.includes(`${other.module}::${name}`);
  return [...places].flatMap(([name, all]) =>
    all.flatMap((one, at) =>
      all
        .slice(at + 1)
        .filter((other) => !tells(one, other, name) && !tells(other, one, name))
        .map(({ path, line, module }) =>
          `${path}:${line}: ${name} is a type of ${one.path}:${one.line} too: give it a name of its own, or let that module's opening comment tell of ${module}::${name}`,
        ),
    ),
  );
}

/**
 * Returns a finding for each module of a Rust file that the table at its head lacks, and for each name there that the
 * file does not have. A file without such a table has none.
 */
export function moduleTable(path, source) {
  const [opening] = source.match(/^(?:\/\/!.*\n)*/);
  const rows = opening.split("\n").map((line, index) => [line.match(/^\/\/! \|([^|]*)\|/)?.[1], index + 1]);
  const head = rows.findIndex(([cell]) => cell?.trim() === "module");
  if (head < 0) return [];
  const end = rows.findIndex(([cell], at) => at > head && cell === undefined);
  const entries = rows
    .slice(head + 1, end < 0 ? undefined : end)
    .flatMap(([cell, line]) => [...cell.matchAll(/`(?:mod@)?(\w+)`/g)].map(([, name]) => [name, line]));
  const code = codeOnly(source.slice(opening.length));
  const lacks = [...code.matchAll(/^(?:pub(?:\([^)]*\))? )?mod (\w+);/gm)]
    .filter(([, name]) => !entries.some(([one]) => one === name))
    .map(([, name]) => `${path}:${head + 1}: the table of modules lacks ${name}`);
  const gone = entries
    .filter(([name]) => !new RegExp(`\\b${name}\\b`).test(code))
    .map(([name, line]) => `${path}:${line}: there is no module ${name}`);
  return [...lacks, ...gone];
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
  const date = (text) => text.match(/"compatibility_date": "([\d-]+)"/)?.[1];
  if (date(edge) === undefined || date(edge) !== date(aggregator)) {
    findings.push(`compatibility_date differs: ${date(edge)} in wrangler.jsonc, ${date(aggregator)} in wrangler.aggregator.jsonc`);
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

/**
 * Returns the files of the repository that are too large to be sources. root: the project's folder. A folder that is no
 * repository has none.
 */
export function largeFiles(root) {
  const { stdout } = spawnSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" });
  return (stdout ?? "").split("\0").filter((path) => path !== "" && existsSync(join(root, path))).flatMap((path) => {
    const { size } = statSync(join(root, path));
    return size > FILE_BYTES_MAX ? [`${path}: ${size} bytes; a file has at most ${FILE_BYTES_MAX}`] : [];
  });
}

/** Returns every finding in the project at `root`; empty when it is tidy. workerdDate: of the installed workerd. */
export function tidy(root, workerdDate) {
  const read = (path) => readFileSync(join(root, path), "utf8");
  const paths = ["src", "crates", "tests", "scripts", "benches", "dashboard", "simulation", "tools", "package"].flatMap(
    (folder) => filesBelow(join(root, folder)),
  );
  const findings = paths
    .map((path) => relative(root, path))
    .filter((path) => CODE.test(path) && !path.startsWith("tests/fixtures/") && !GENERATED.includes(path))
    .flatMap((path) => {
      const source = read(path);
      return [
        ...(path.endsWith(".rs") ? [...forbiddenCalls(path, source), ...moduleTable(path, source)] : []),
        ...(MEASURED.test(path) ? [...longFunctions(path, source), ...longLines(path, source)] : []),
      ];
    });
  const shipped = paths
    .map((path) => relative(root, path))
    .filter((path) => /^(src|crates\/[\w-]+\/src)\/.*\.rs$/.test(path));
  const sources = shipped.map((path) => [path, read(path)]);
  findings.push(...namesakes(sources), ...undocumentedNamesakes(sources));
  const locks = { lock: read("Cargo.lock"), bindgenLock: read("tools/bindgen/Cargo.lock") };
  const texts = { ...locks, edge: read("wrangler.jsonc"), aggregator: read("wrangler.aggregator.jsonc") };
  return [...findings, ...largeFiles(root), ...versions({ ...texts, workerdDate })];
}
