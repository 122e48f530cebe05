// Runs every check of `make check` but the tests, each as one line: name, result, seconds.
// node scripts/check.mjs [name…]: those alone, such as `tidy prose rooms formatting`.
//
// Invariants: one failed check does not hide the next (all run, then the exit code tells), a failure
// prints its output and what to do, and a check that could not run says "skip" and why. The Wasm is built meanwhile,
// mostly on one core, and the checks that need it come last.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compatibilityDate as workerdDate } from "workerd";
import { WASM_GZIP_BYTES_MAX, wasmGzipBytes } from "../benches/wasm-size.mjs";
import { featureSets, features, gatesAmiss } from "./features.mjs";
import { allowedOf, pagesOf, wrongs } from "./prose.mjs";
import { findingsOf, roomsAllowed, wrongs as roomWrongs } from "./rooms.mjs";
import { tidy } from "./tidy.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const WASM = "wasm32-unknown-unknown";
// A fetch that takes longer than this counts as out of reach.
const FETCH_MS_MAX = 60_000;
// Enough for the last messages of a compiler, short enough to read.
const OUTPUT_LINES_MAX = 60;

class Failed extends Error {}
class Skipped extends Error {}

// Runs a program in the project's folder. Resolves to its output; `status` is null for a timeout.
function attempt(program, args, { env = {}, timeout } = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: ROOT,
    encoding: "utf8",
    timeout,
    // The default of 1 MiB would end a compiler with many messages.
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, PATH: `${ROOT}node_modules/.bin:${process.env.PATH}`, ...env },
  });
  return { status, stdout: stdout ?? "", output: `${stdout ?? ""}${stderr ?? ""}${error ? `${error.message}\n` : ""}` };
}

function run(program, args, options) {
  const { status, output } = attempt(program, args, options);
  if (status !== 0) throw new Failed(output);
  return "";
}

function clippy(...args) {
  return run("cargo", ["clippy", "--locked", ...args, "--", "-D", "warnings"]);
}

// Some features without the others, and none; a test asks the service of none for what it lacks.
function featuresOff() {
  const amiss = gatesAmiss(ROOT);
  if (amiss.length > 0) throw new Failed(`a gate names one feature, and stands in no other's room:\n${amiss.join("\n")}\n`);
  const sets = featureSets(features(ROOT));
  for (const set of sets) {
    // What a set leaves unused is an error: the rooms of a feature are left out with it. The compiler says so; clippy
    // would take a third longer. A set is compiled once: what another run could go on from would cost a fifth of the
    // time.
    run("cargo", [
      "check", "--locked", "--quiet", "-p", "tally", "--lib", "--target", WASM, "--no-default-features", "--features",
      set.join(","),
    ], { env: { CARGO_INCREMENTAL: "0", RUSTC_WORKSPACE_WRAPPER: join(ROOT, "scripts/rustc-strict.sh") } });
  }
  run("cargo", [
    "test", "--locked", "--quiet", "-p", "tally-simulation", "--no-default-features", "--test", "features",
  ]);
  return `${sets.length} sets`;
}

// Without std, as who builds them for a platform that has none; the sketch with its other feature and without.
function cratesAlone() {
  const crates = ["-p", "tally-limit", "-p", "tally-sketch", "--lib", "--no-default-features"];
  clippy(...crates, "--target", WASM);
  return clippy(...crates, "--target", WASM, "--features", "tally-sketch/redis");
}

// With these rustdoc takes what clippy has compiled with the same features: cargo-clippy sets them. If they differ, it
// compiles for itself.
const AS_CLIPPY = {
  RUSTC_WORKSPACE_WRAPPER: "clippy-driver",
  CLIPPY_ARGS: "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
};

function rustdoc(env, ...args) {
  return run("cargo", ["doc", "--locked", "--no-deps", ...args], { env: { ...env, RUSTDOCFLAGS: "-D warnings" } });
}

function deny(...args) {
  return run(join(ROOT, ".tools/bin/cargo-deny"), ["--all-features", "--locked", "check", ...args]);
}

// The database is on GitHub: where that cannot be reached there is nothing to compare with.
function advisories() {
  const fetched = attempt(join(ROOT, ".tools/bin/cargo-deny"), ["fetch", "db"], { timeout: FETCH_MS_MAX });
  if (fetched.status !== 0) throw new Skipped("the advisory database could not be fetched from github.com");
  return deny("--disable-fetch", "advisories");
}

function npmAudit() {
  const { stdout, output } = attempt("npm", ["audit", "--json"], { timeout: FETCH_MS_MAX });
  let found;
  try {
    found = JSON.parse(stdout).metadata?.vulnerabilities;
  } catch {
    found = undefined;
  }
  if (found === undefined) throw new Skipped("the npm registry gave no audit");
  if (found.high + found.critical > 0) throw new Failed(output);
  return `${found.total} findings, none high or critical`;
}

// Begins to build the Wasm. Returns what waits for it.
function beginBuild() {
  const folder = mkdtempSync(join(tmpdir(), "tally-build-"));
  const path = join(folder, "log");
  const log = openSync(path, "w");
  const child = spawn("scripts/build.sh", { cwd: ROOT, stdio: ["ignore", log, log] });
  const ended = once(child, "close").catch((error) => [error.message]);
  return async () => {
    const [status] = await ended;
    closeSync(log);
    const output = readFileSync(path, "utf8");
    rmSync(folder, { recursive: true, force: true });
    if (status !== 0) throw new Failed(`${output}the build ended with ${status}\n`);
    return "";
  };
}

function wasmSize() {
  const bytes = wasmGzipBytes(ROOT);
  const sentence = `${bytes.toLocaleString("en")} of ${WASM_GZIP_BYTES_MAX.toLocaleString("en")} bytes gzipped`;
  if (bytes > WASM_GZIP_BYTES_MAX) throw new Failed(`${sentence}\n`);
  return sentence;
}

function dryRun(config) {
  const folder = mkdtempSync(join(tmpdir(), "tally-dry-run-"));
  try {
    const args = ["deploy", "--dry-run", "-c", config, "--outdir", folder];
    return run(process.execPath, ["node_modules/wrangler/bin/wrangler.js", ...args], {
      env: { WRANGLER_SEND_METRICS: "false", CI: "1" },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function tidiness() {
  const findings = tidy(ROOT, workerdDate);
  if (findings.length > 0) throw new Failed(`${findings.join("\n")}\n`);
  return "";
}

function prose() {
  const wrong = wrongs(pagesOf(ROOT), allowedOf(ROOT));
  if (wrong.length > 0) throw new Failed(`${wrong.join("\n")}\n`);
  return "";
}

function rooms() {
  const wrong = roomWrongs(findingsOf(ROOT), roomsAllowed(ROOT));
  if (wrong.length > 0) throw new Failed(`${wrong.join("\n")}\n`);
  return "";
}

const FIX_LINTS = "fix what is shown above; a lint that is wrong here gets #[expect(…, reason = \"…\")]";
const asked = process.argv.slice(2);
const building = asked.length === 0 ? beginBuild() : () => beginBuild()();
const CHECKS = [
  ["tidy", tidiness, "each line above names the file, the line and the rule (scripts/tidy.mjs)"],
  ["prose", prose, "rewrite each sentence above; node scripts/prose.mjs --all <page> shows all of a page"],
  ["rooms", rooms, "divide a file, or turn an import around (scripts/rooms.mjs); what is allowed only shrinks"],
  ["formatting", () => run("cargo", ["fmt", "--check"]), "run cargo fmt"],
  ["clippy native", () => clippy("--all-targets"), FIX_LINTS],
  ["clippy of the tool", () => clippy("-p", "tally-openapi", "--all-targets"), FIX_LINTS],
  ["clippy wasm32", () => clippy("-p", "tally", "--lib", "--target", WASM), FIX_LINTS],
  ["features left out", featuresOff, "code that needs a feature of Cargo.toml must say so: #[cfg(feature = …)]"],
  ["clippy of crates alone", cratesAlone, FIX_LINTS],
  ["examples of crates, wasm32", () => clippy("-p", "tally-limit", "-p", "tally-sketch", "--examples", "--target", WASM), FIX_LINTS],
  ["docs native", () => rustdoc({}, "--workspace", "--lib", "--document-private-items"), "fix the documentation shown above"],
  ["docs wasm32", () => rustdoc(AS_CLIPPY, "-p", "tally", "--lib", "--target", WASM, "--document-private-items"), "fix the documentation shown above"],
  ["openapi.json", () => run("cargo", ["run", "--locked", "--quiet", "-p", "tally-openapi", "--", "--check"]), "run make openapi, and commit what it writes"],
  ["types of the client", () => run(process.execPath, ["package/package.mjs", "--types"]), "fix package/client; its api.ts follows from crates/tally-api/openapi.json"],
  ["licences, bans, sources", () => deny("licenses", "bans", "sources"), "replace the crate, or allow it in deny.toml with a reason"],
  ["advisories of crates", advisories, "update the crate (cargo update -p name), or ignore it in deny.toml with a reason"],
  ["advisories of npm", npmAudit, "update the package in package.json, then run npm install"],
  ["the Wasm, built meanwhile", building, "fix what is shown above, then make build"],
  ["Wasm size", wasmSize, "find what grew; the budget stands in benches/wasm-size.mjs"],
  ["dry run aggregator", () => dryRun("wrangler.aggregator.jsonc"), "fix wrangler.aggregator.jsonc"],
  ["dry run edge", () => dryRun("wrangler.jsonc"), "fix wrangler.jsonc"],
];

async function checkAll() {
  const unknown = asked.filter((name) => !CHECKS.some(([known]) => known === name));
  if (unknown.length > 0) {
    console.error(`check: there is no check "${unknown[0]}". There are: ${CHECKS.map(([name]) => name).join("; ")}`);
    return 2;
  }
  const checks = asked.length === 0 ? CHECKS : CHECKS.filter(([name]) => asked.includes(name));
  let failures = 0;
  for (const [name, check, remedy] of checks) {
    const began = performance.now();
    const report = (result, more) => {
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      console.log(`${result.padEnd(5)} ${name.padEnd(24)} ${seconds.padStart(6)} s  ${more}`.trimEnd());
    };
    try {
      report("ok", await check());
    } catch (error) {
      if (error instanceof Skipped) {
        report("skip", error.message);
        continue;
      }
      failures += 1;
      const output = error instanceof Failed ? error.message : error.stack;
      report("FAIL", `what to do: ${remedy}`);
      console.log(output.trimEnd().split("\n").slice(-OUTPUT_LINES_MAX).map((line) => `      ${line}`).join("\n"));
    }
  }
  const all = asked.length === 0 ? "All checks" : "These checks";
  console.log(failures === 0 ? `${all} passed.` : `${failures} of ${checks.length} checks failed.`);
  return failures === 0 ? 0 : 1;
}

process.exit(await checkAll());
