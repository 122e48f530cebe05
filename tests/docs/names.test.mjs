// The documents that explain the code, and comments, name files, functions and types that are there.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { ROOT, documents, read } from "./pages.mjs";

// What stands before a file in a document, and where it lies; the first that has it is taken.
const BASES = ["", "src/", "crates/tally-core/src/", "simulation/src/", "simulation/tests/", "tests/e2e/"];
const CRATE_NAMES = [
  "aggregator", "api", "core", "edge", "host", "limit", "objects", "redis", "shared", "sketch", "wire",
];
const CRATES = CRATE_NAMES.map((name) => [new RegExp(`^(?:tally-)?${name}/`), `crates/tally-${name}/src/`]);
const CRATE_MODULE = new RegExp(`^(${CRATE_NAMES.join("|")})\\b`);
const FILE = /\.(?:rs|mjs|js|sh|toml|css|html)$/;
const SOURCE = /\.(?:rs|mjs|js)$/;
// Files that a build makes, and names of the platform.
const BUILT = /^build\//;
const FOREIGN = ["Env::var", "worker::Cf::colo"];
// The documents for those who change the code.
const CHAPTERS = /^(?:ARCHITECTURE|CONTRIBUTING|docs\/glossary|docs\/internals\/.*)\.md$/;

const FILES = spawnSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" }).stdout
  .split("\0")
  .filter((path) => path !== "" && existsSync(join(ROOT, path)));
const BASENAMES = new Set(FILES.map((path) => basename(path)));
const SOURCES = FILES.filter((path) => SOURCE.test(path)).map((path) => [path, read(path)]);
const RUST = SOURCES.filter(([path]) => path.endsWith(".rs"));
const WORDS = new Set(SOURCES.flatMap(([, source]) => source.replace(/^\s*\/\/.*$/gm, "").match(/\w+/g) ?? []));

/** Returns the file of the project that a text names; undefined where there is none. A `*` stands for any name. */
function named(path, bases = BASES) {
  const ofCrates = CRATES.filter(([short]) => short.test(path)).map(([short, long]) => path.replace(short, long));
  const isThere = (one) =>
    one.includes("*")
      ? FILES.find((file) => new RegExp(`^${one.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}`).test(file))
      : existsSync(join(ROOT, one));
  return [...ofCrates, ...bases.map((base) => `${base}${path}`)].find(isThere);
}

/** Returns `file:line: sentence` for each finding in the chapters. wrong: returns what is wrong with one line. */
function findings(wrong) {
  return documents()
    .filter((path) => CHAPTERS.test(path))
    .flatMap((page) =>
      read(page)
        .split("\n")
        .flatMap((text, index) => wrong(text).map((what) => `${page}:${index + 1}: ${what}`)),
    );
}

/** Returns the bodies of all functions of this name in a Rust file that rustfmt has formatted, as one text. */
function bodies(source, name) {
  const lines = source.split("\n");
  const found = lines.flatMap((line, first) => {
    const [, indent] = line.match(new RegExp(`^( *)(?:[a-z]+(?:\\([\\w: ]+\\))? )*fn ${name}\\b`)) ?? [];
    if (indent === undefined) return [];
    const end = lines.findIndex((one, at) => at > first && one === `${indent}}`);
    return lines.slice(first + 1, end);
  });
  return found.join("\n");
}

/** Returns whether the module or type before the last `::` has what stands behind it. */
function has(path) {
  const parts = path.split("::");
  const [owner, member] = parts.slice(-2);
  if (/^[A-Z]/.test(owner)) {
    const owns = new RegExp(`\\b(?:struct|enum|trait|union|impl\\b[^\\n{]*) ${owner}\\b`);
    const field = `^ +(?:pub(?:\\([\\w: ]+\\))? )?${member}\\b ?[:,({]`;
    const isMember = new RegExp(`\\b(?:fn|const|type) ${member}\\b|${field}`, "m");
    return RUST.some(([, source]) => owns.test(source) && isMember.test(source));
  }
  const folder = parts.slice(0, -1).join("/").replace(CRATE_MODULE, "tally-$1/src");
  const isOfModule = new RegExp(`(?:^|/)${folder}(?:/(?:mod|lib))?\\.rs$`);
  const item = "fn|struct|enum|trait|type|union|const|static|mod|macro_rules!|use .*";
  const isDefined = new RegExp(`\\b(?:${item}) ${member}\\b`);
  return RUST.some(([file, source]) => isOfModule.test(file) && isDefined.test(source));
}

/** Returns the steps of the walks: `{ walk, line, path, functions }` each. */
function steps() {
  const lines = read("ARCHITECTURE.md").split("\n");
  const begin = lines.findIndex((text) => /^## \w+ walks, by names$/.test(text));
  let walk = 0;
  return lines.flatMap((text, index) => {
    const [, number, path, rest] = index > begin ? (text.match(/^(\d+)\. `([^`]+\.rs)`: (.*)$/) ?? []) : [];
    if (path === undefined) return [];
    if (number === "1") walk += 1;
    return [{ walk, line: index + 1, path, functions: [...rest.matchAll(/`(\w+)`/g)].map(([, name]) => name) }];
  });
}

test("the walks name functions of the files that they name", () => {
  const all = steps();
  assert.ok(all.length >= 55, `${all.length} steps`);
  const wrong = all.flatMap(({ line, path, functions }) => {
    const file = named(path);
    if (file === undefined) return [`ARCHITECTURE.md:${line}: ${path} is not there`];
    const source = read(file);
    return functions
      .filter((name) => !new RegExp(`\\bfn ${name}\\b`).test(source))
      .map((name) => `ARCHITECTURE.md:${line}: ${path} has no function ${name}`);
  });
  assert.deepEqual(wrong, []);
});

test("each function of a walk is called by one before it", () => {
  // The table of routes calls what answers a route. Behind a call of an object nobody calls what answers there.
  const routes = { name: "", text: read(named("api/routes/table.rs")) };
  const before = new Map();
  const wrong = steps().flatMap(({ walk, line, path, functions }, index, all) => {
    const arrives = all[index - 1]?.walk !== walk || all[index - 1].path === "shared/call.rs";
    const source = read(named(path));
    return functions.flatMap((name, at) => {
      const known = before.get(walk) ?? [routes];
      // What was called by this name before is another one.
      const since = known.slice(Math.max(known.findLastIndex((one) => one.name === name), 0));
      const isCalled = (arrives && at === 0) || since.some(({ text }) => new RegExp(`\\b${name}\\b`).test(text));
      before.set(walk, [...known, { name, text: bodies(source, name) }]);
      return isCalled ? [] : [`ARCHITECTURE.md:${line}: nothing before it calls ${name} of ${path}`];
    });
  });
  assert.deepEqual(wrong, []);
});

test("the chapters on the inside name files that are there", () => {
  const wrong = findings((text) =>
    [...text.matchAll(/`([\w.*-]+(?:\/[\w.*-]+)*)`/g)]
      .map(([, path]) => path)
      .filter((path) => (FILE.test(path) || path.includes("*")) && !BUILT.test(path))
      .filter((path) => (path.includes("/") ? named(path) === undefined : !BASENAMES.has(path)))
      .map((path) => `${path} is not there`),
  );
  assert.deepEqual(wrong, []);
});

test("the chapters on the inside name functions and types that are there", () => {
  const wrong = findings((text) => [
    ...[...text.matchAll(/`(\w+(?:::\w+)+)(?:\(.*?\))?`/g)]
      .filter(([, path]) => !FOREIGN.includes(path) && !has(path))
      .map(([, path]) => `${path} is not there`),
    ...[...text.matchAll(/`(\w+)` in `([\w/-]+\.rs)`/g)]
      .filter(([, name, path]) => named(path) !== undefined && !new RegExp(`\\b${name}\\b`).test(read(named(path))))
      .map(([, name, path]) => `${path} has no ${name}`),
    ...[...text.matchAll(/`([A-Z][a-z]+(?:[A-Z][a-z]+)+|[A-Z]+(?:_[A-Z]+)+)`/g)]
      .filter(([, name]) => !WORDS.has(name))
      .map(([, name]) => `${name} is not there`),
  ]);
  assert.deepEqual(wrong, []);
});

test("a module about idempotency is named by its word of the glossary, and no type hides one of Rust's", () => {
  const ours = /^crates\/tally-(?:core|wire|api|shared|objects|edge)\/src\//;
  const vague = FILES.filter((path) => ours.test(path) && /\/(?:keys|keyed|numbers|numbered)\.rs$/.test(path));
  assert.deepEqual(vague, []);
  const taken = /\bpub(?:\(\w+\))? (?:struct|enum) (?:Cell|RefCell|Rc|Option|Result|Vec|String|Box) ?[<{(;]/;
  const hiding = RUST.filter(([path, source]) => path.startsWith("crates/") && taken.test(source));
  assert.deepEqual(hiding.map(([path]) => path), []);
  const sizes = RUST.filter(([, source]) => /\b(?:struct|enum) Sizes\b/.test(source));
  assert.equal(sizes.length, 1);
});

test("the map has each folder of the project, and each crate", () => {
  const map = read("ARCHITECTURE.md").split("\n## ").find((section) => section.startsWith("Map of the source"));
  const parts = new Set(FILES.filter((path) => path.includes("/") && !path.startsWith(".")).map((path) => {
    const [folder, name] = path.split("/");
    return ["src", "crates"].includes(folder) ? `${folder}/${name}` : folder;
  }));
  assert.deepEqual([...parts].filter((part) => part !== "src/lib.rs" && !map.includes(`\`${part}\``)), []);
});

test("each spec of the platform has a row that says why", () => {
  const specs = FILES.map((path) => path.match(/^tests\/e2e\/(platform\/[\w-]+)\.spec\.mjs$/)?.[1]).filter(Boolean);
  assert.ok(specs.length > 5);
  assert.deepEqual(specs.filter((spec) => !read("CONTRIBUTING.md").includes(`\`${spec}\``)), []);
});

test("comments name files and test targets that are there", () => {
  const isTarget = (name) =>
    FILES.some((path) => new RegExp(`(?:^|/)tests/${name}(?:/main)?\\.rs$`).test(path)) ||
    FILES.some((path) => path.endsWith("Cargo.toml") && read(path).includes(`[[test]]\nname = "${name}"\n`));
  const wrong = SOURCES.flatMap(([path, source]) =>
    source.split("\n").flatMap((text, index) => {
      const [, comment] = text.match(/^\s*\/\/[/!]?(.*)$/) ?? [];
      if (comment === undefined) return [];
      const files = comment.match(/(?<![\w/.-])(?:[\w-]+\/)*[\w-]+\.(?:rs|mjs)(?![\w-])/g) ?? [];
      const own = path.split("/").slice(0, -1).map((_, at, folders) => `${folders.slice(0, at + 1).join("/")}/`);
      const bases = [...BASES, ...own];
      const isThere = (file) => (file.includes("/") ? named(file, bases) !== undefined : BASENAMES.has(file));
      const tests = [...comment.matchAll(/--test (\w+)/g)].map(([, target]) => target);
      return [
        ...files.filter((file) => !isThere(file)).map((file) => `${path}:${index + 1}: ${file} is not there`),
        ...tests.filter((one) => !isTarget(one)).map((one) => `${path}:${index + 1}: there is no test ${one}`),
      ];
    }),
  );
  assert.deepEqual(wrong, []);
});

test("src/lib.rs says where the counter, the bucket and the register live, and they are there", () => {
  const places = [...read("src/lib.rs").replaceAll(/\n\/\/! */g, " ").matchAll(/`(\w+)` in `(crates\/[^`]+\.rs)`/g)];
  assert.equal(places.length, 5);
  for (const [, type, path] of places) {
    assert.match(read(path), new RegExp(`\\b(?:struct|enum) ${type}\\b`), `${type} is not in ${path}`);
  }
});
