// Builds all mutations as one program of each kind, in a copy of the tree.
//
// Invariants: the tree itself is never touched; a file of the copy is written only if it changes, so that cargo builds
// again what changed; a mutation that does not compile is left out of the programs and named.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rootWithSwitch, schemata } from "./schemata.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const TREE = join(ROOT, "target/mutants/tree");
const TARGET = join(ROOT, "target/mutants/build");
const MESSAGES_BYTES_MAX = 1 << 30;

function bytesOf(file) {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

function put(name, bytes) {
  const file = join(TREE, name);
  if (bytesOf(file)?.equals(bytes)) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, bytes);
}

/** The files of the tree, without those that git ignores. */
function filesOf() {
  const listed = spawnSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], { cwd: ROOT, encoding: "utf8" });
  const isFile = (name) => statSync(join(ROOT, name), { throwIfNoEntry: false })?.isFile();
  return listed.stdout.split("\0").filter((name) => name !== "" && isFile(name));
}

const crateOf = (file) => file.slice(0, file.indexOf("/src/"));

/** Returns the sources that hold mutations, by their names, with the lines of each mutation. */
function mutated(mutations) {
  const sources = new Map();
  for (const [file, ofFile] of Map.groupBy(mutations, (mutation) => mutation.file)) {
    sources.set(file, schemata(readFileSync(join(ROOT, file), "utf8"), ofFile));
  }
  return sources;
}

/** Makes the copy, with the mutations in it. */
function copy(sources, files) {
  const roots = new Set([...sources.keys()].map((file) => `${crateOf(file)}/src/lib.rs`));
  for (const name of files) {
    let text = sources.get(name)?.source;
    if (roots.has(name)) text = rootWithSwitch(text ?? readFileSync(join(ROOT, name), "utf8"));
    put(name, text === undefined ? readFileSync(join(ROOT, name)) : Buffer.from(text));
  }
}

/** Removes what a tree from before had. */
function removeOthers(files) {
  const listed = bytesOf(join(TREE, ".files"))?.toString().split("\n") ?? [];
  const known = new Set(files);
  for (const name of listed.filter((one) => !known.has(one))) rmSync(join(TREE, name), { force: true });
  writeFileSync(join(TREE, ".files"), files.join("\n"));
}

function cargo(options) {
  const { status, stdout, stderr, error } = spawnSync("cargo", [
    "test", "--locked", "--no-run", "--message-format=json", ...options,
  ], {
    cwd: TREE, encoding: "utf8", maxBuffer: MESSAGES_BYTES_MAX, stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, CARGO_TARGET_DIR: TARGET },
  });
  const lines = (stdout ?? "").split("\n").filter((line) => line.startsWith("{"));
  return { isWell: status === 0, messages: lines.map((line) => JSON.parse(line)), rest: `${stderr}${error ?? ""}` };
}

/** The mutations that a message of the compiler is about. */
function blamed(message, sources) {
  const arms = message.spans.filter((span) => span.is_primary).flatMap((span) => {
    const of = [...sources].find(([file]) => span.file_name.endsWith(file))?.[1].arms ?? [];
    return of.filter(({ lines: [from, to] }) => from <= span.line_start && span.line_end <= to);
  });
  return arms.map(({ number }) => number);
}

/**
 * Builds the programs of tests that show mutations.
 * @param mutations { number, file, text, instead } each
 * @param options of cargo: packages and tests
 * @returns `programs` by "package/test", and `wrong`: why a mutation is in none of them, by its number
 */
export function build(mutations, options) {
  const files = filesOf();
  const wrong = new Map();
  mkdirSync(TREE, { recursive: true });
  removeOthers(files);
  for (;;) {
    const sources = mutated(mutations.filter(({ number }) => !wrong.has(number)));
    for (const { apart } of sources.values()) for (const { number, why } of apart) wrong.set(number, why);
    copy(sources, files);
    const { isWell, messages, rest } = cargo(options);
    if (isWell) return { programs: programsOf(messages), wrong };
    const errors = messages.filter(({ reason, message }) => reason === "compiler-message" && message.level === "error");
    const before = wrong.size;
    for (const { message } of errors) {
      for (const number of blamed(message, sources)) wrong.set(number, `it does not compile: ${message.message}`);
    }
    if (wrong.size === before) {
      throw new Error(`the copy does not compile:\n${errors.map(({ message }) => message.rendered).join("\n")}${rest}`);
    }
  }
}

/** Returns the programs of tests that cargo has built. */
function programsOf(messages) {
  const built = messages.filter(({ reason, executable }) => reason === "compiler-artifact" && executable);
  return new Map(built.map(({ manifest_path: manifest, target, executable }) => {
    const folder = dirname(manifest);
    const name = relative(TREE, folder).split("/").at(-1);
    return [`${name}/${target.name}`, { executable, folder }];
  }));
}
