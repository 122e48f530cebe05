// Puts the files that are served as they stand at the end of build/index.js, as text: the dashboard's, the
// script for pages, and the API's description.
//
// Invariant: what stands before the mark is left as scripts/build.sh made it, so running this again replaces its own
// work only. The files are those of the folder `dashboard` and of the chart library, as they are: nothing is
// bundled or rewritten, so what a browser shows as source is what stands in this project. The script for pages alone is
// made shorter, and the shorter one is committed: no native build needs Node. `--script` writes it. Both
// serve the same bytes: tests/e2e/platform/dashboard.spec.mjs compares each file on both.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { features as featuresOf, withNeeds } from "./features.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MARK = "\n//! The files that are served as they stand, by scripts/dashboard.mjs.\n";
/** What is served as `/tally.js`, and what it is made of. */
export const SCRIPT = { made: "crates/tally-edge/tally.js", source: "crates/tally-edge/src/tally.js" };
const SERVED = /\.(html|css|js|svg)$/;

/** Returns the files by the names that they are served under, below `/dashboard/`. root: the project's folder. */
export function dashboardFiles(root = ROOT) {
  const text = (path) => readFileSync(join(root, path), "utf8");
  const own = readdirSync(join(root, "dashboard")).filter((name) => SERVED.test(name));
  const files = new Map(own.sort().map((name) => [name, text(`dashboard/${name}`)]));
  // Its licence wants its notice in every copy.
  const notice = text("node_modules/uplot/LICENSE").trim();
  if (notice.includes("*/")) throw new Error("the licence of uplot would end the comment that it is put in");
  files.set("uPlot.js", `/*\n${notice}\n*/\n${text("node_modules/uplot/dist/uPlot.iife.min.js")}`);
  files.set("uPlot.css", `/*\n${notice}\n*/\n${text("node_modules/uplot/dist/uPlot.min.css")}`);
  return files;
}

/**
 * Returns the API's description with the calls of a build alone. features: the names that it was built with; all where
 * it is undefined.
 */
export function described(root, features) {
  const text = readFileSync(join(root, "crates/tally-api/openapi.json"), "utf8");
  if (features === undefined) return text;
  const built = withNeeds(features, featuresOf(root));
  const api = JSON.parse(text);
  const table = readFileSync(join(root, "crates/tally-api/src/routes/table.rs"), "utf8");
  const groups = [...table.matchAll(/#\[cfg\(feature = "(\w+)"\)\] \{\n([\s\S]*?)\n {12}\}\n/g)];
  const rows = groups.flatMap(([, feature, group]) =>
    built.includes(feature) ? [] : [...group.matchAll(/^ {16}\w+(?:\([^)]*\))?\s+"(\w+)"\s+"([^"]+)"/gm)],
  );
  for (const [, method, path] of rows) {
    if (api.paths[path] === undefined) continue;
    delete api.paths[path][method.toLowerCase()];
    if (!["get", "post", "put", "patch", "delete"].some((one) => one in api.paths[path])) delete api.paths[path];
  }
  return `${JSON.stringify(api, null, 2)}\n`;
}

// The features of the build that stands there; undefined where it has all.
function featuresBuilt(root) {
  const path = join(root, "build/.features");
  const built = existsSync(path) ? readFileSync(path, "utf8").trim() : "default";
  return built.split(",").includes("default") ? undefined : built.split(",");
}

/** Returns the script for pages without comments and long names: it is a part of every page that uses it. */
export function shortScript(root = ROOT) {
  const source = readFileSync(join(root, SCRIPT.source), "utf8");
  return transformSync(source, { minify: true, target: "es2022" }).code;
}

/** Returns the entity tag of a file: strong, and the same on every machine and every host, as the text decides. */
export function etagOf(text) {
  return `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`;
}

/**
 * Returns all files that are served as they stand, by the names
 * that `crates/tally-edge/src/pages/files.rs` finds them by.
 * root: the project's folder.
 */
export function servedFiles(root = ROOT) {
  const dashboard = [...dashboardFiles(root)].map(([name, text]) => [`dashboard/${name}`, text]);
  const script = readFileSync(join(root, SCRIPT.made), "utf8");
  return new Map([...dashboard, ["tally.js", script], ["openapi.json", described(root, featuresBuilt(root))]]);
}

/** Returns the module with the files in it, whether or not it had some. */
export function withFiles(module, files) {
  const entries = [...files].map(([name, text]) => [name, { text, etag: etagOf(text) }]);
  const [before] = module.split(MARK);
  return `${before}${MARK}{const files=new Map(${JSON.stringify(entries)});globalThis.tallyFile=(name)=>files.get(name);}\n`;
}

function main(args) {
  if (args.includes("--script")) {
    writeFileSync(join(ROOT, SCRIPT.made), shortScript());
    return 0;
  }
  const path = join(ROOT, "build/index.js");
  if (!existsSync(path)) {
    console.error("dashboard: there is no build/index.js: run make build, which calls this");
    return 1;
  }
  const before = readFileSync(path, "utf8");
  const after = withFiles(before, servedFiles());
  if (after === before) return 0;
  // Whoever reads the module meanwhile reads one of both whole.
  writeFileSync(`${path}.new`, after);
  renameSync(`${path}.new`, path);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(main(process.argv.slice(2)));
