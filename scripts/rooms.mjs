// Checks how the source is divided: files of a folder, lines of a file, circles of files, what the kernel imports, and
// where features are gated.
//
//   node scripts/rooms.mjs           prints what is above what scripts/rooms-allowed.json allows
//   node scripts/rooms.mjs --all     prints each finding
//   node scripts/rooms.mjs --figures  prints the sizes of the whole
//   node scripts/rooms.mjs --shrink  lowers what is allowed to what is there now, and never raises it
//
// Invariant: the allowances only shrink. The wiring of a crate (`lib.rs`, `dispatch.rs`) may import every room. A
// feature is gated at the door of a room, before `mod` or `use`, in the wiring, and in the table of routes.
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { codeOnly } from "./tidy.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const ALLOWED = "scripts/rooms-allowed.json";
const SHRINK = "node scripts/rooms.mjs --shrink";

/** The most files of a folder of source. */
export const FILES_MAX = 25;

/** The most lines of a file of source. */
export const LINES_MAX = 600;

// The rooms that every deployment needs, whatever it leaves out. A feature may import them; they import no feature.
const KERNEL = {
  "crates/tally-objects/src": ["kit", "cell", "tablet", "directory"],
  "crates/tally-edge/src": ["kit", "read", "write"],
};
const WIRING = ["lib", "dispatch"];
const TABLE = "routes/table.rs";

// Crates for any program, with features of their own.
const LIBRARIES = ["crates/tally-limit/src", "crates/tally-sketch/src"];

// The crates that decide: what a counter, a limit, a sketch, a log and a command of Redis is.
const DECIDES = ["core", "limit", "logs", "redis", "sketch"].map((name) => `crates/tally-${name}/src`);

// The module of a file, as a list of names: [] for the root of its crate.
const moduleOf = (path) => {
  const names = path.replace(/\.rs$/u, "").split("/");
  if (names.at(-1) === "mod") names.pop();
  return names.length === 1 && ["lib", "main"].includes(names[0]) ? [] : names;
};

// The paths of one tree of `use`: `a::{b, c::D}` is a::b and a::c::D.
function branches(tree) {
  const brace = tree.indexOf("{");
  if (brace < 0) return [tree.replace(/ as \w+$/u, "").trim()];
  const stem = tree.slice(0, brace).trim();
  const [parts, depth] = [[""], { now: 0 }];
  for (const sign of tree.slice(brace + 1, tree.lastIndexOf("}"))) {
    if (sign === "{") depth.now += 1;
    if (sign === "}") depth.now -= 1;
    if (sign === "," && depth.now === 0) parts.push("");
    else parts[parts.length - 1] += sign;
  }
  return parts.filter((part) => part.trim() !== "").flatMap((part) => branches(`${stem}${part.trim()}`));
}

// The module paths that a file names, from the root of its crate.
function named(code, here, isModule) {
  const uses = [...code.matchAll(/\buse\s+([^;]+);/gu)].flatMap(([, tree]) => branches(tree.replace(/\s+/gu, " ")));
  const inline = [...code.matchAll(/(?<![\w:])(?:crate|super|self)(?:::\w+)+/gu)].map(([path]) => path);
  const children = [...code.matchAll(/(?<![\w:])(\w+)::/gu)]
    .map(([, name]) => name)
    .filter((name) => isModule([...here, name]));
  return [...uses, ...inline, ...children].flatMap((path) => {
    const names = path.split("::").map((name) => name.trim());
    let base = here;
    if (names[0] === "crate") base = [];
    if (names[0] === "super") {
      while (names[0] === "super") {
        base = base.slice(0, -1);
        names.shift();
      }
    } else if (["crate", "self"].includes(names[0])) names.shift();
    else if (!isModule([...here, names[0]])) return [];
    return [[...base, ...names]];
  });
}

// The code of a file, where modules within it, such as `mod tests`, stand empty: their parent is the file itself.
function ownCode(source) {
  const code = codeOnly(source);
  const inner = code.match(/\bmod \w+ \{/u);
  if (inner === null) return code;
  const from = inner.index + inner[0].length;
  let [to, depth] = [from, 1];
  while (to < code.length && depth > 0) {
    if (code[to] === "{") depth += 1;
    if (code[to] === "}") depth -= 1;
    to += 1;
  }
  return `${code.slice(0, inner.index)}${ownCode(code.slice(to))}`;
}

/** Returns which files of a crate import which: a map from a path to a set of paths. sources: path → text. */
export function imports(sources) {
  const files = new Map(Object.keys(sources).map((path) => [moduleOf(path).join("::"), path]));
  const isModule = (names) => files.has(names.join("::"));
  return new Map(Object.entries(sources).map(([path, source]) => {
    const targets = named(ownCode(source), moduleOf(path), isModule).map((names) => {
      for (let length = names.length; length > 0; length -= 1) {
        const file = files.get(names.slice(0, length).join("::"));
        if (file !== undefined) return file;
      }
      return files.get("");
    });
    return [path, new Set(targets.filter((file) => file !== undefined && file !== path))];
  }));
}

/** Returns the circles of a graph: sets of nodes that reach each other (Tarjan, SIAM J. Comput. 1, 1972). */
export function circles(graph) {
  const [indexes, lows, stack, found] = [new Map(), new Map(), [], []];
  const visit = (node) => {
    indexes.set(node, indexes.size);
    lows.set(node, indexes.get(node));
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!indexes.has(next)) visit(next);
      if (stack.includes(next)) lows.set(node, Math.min(lows.get(node), lows.get(next)));
    }
    if (lows.get(node) !== indexes.get(node)) return;
    const circle = stack.splice(stack.indexOf(node));
    if (circle.length > 1) found.push(circle.sort());
  };
  for (const node of graph.keys()) if (!indexes.has(node)) visit(node);
  return found.sort((a, b) => b.length - a.length || a[0].localeCompare(b[0]));
}

// "kernel file → room of a feature" for each import of that kind.
function crossings(graph, kernel) {
  const roomOf = (path) => path.replace(/\.rs$/u, "").split("/")[0];
  return [...graph].flatMap(([path, targets]) => {
    const room = roomOf(path);
    if (!kernel.includes(room)) return [];
    const features = [...targets].map(roomOf).filter((to) => !kernel.includes(to) && !WIRING.includes(to));
    return [...new Set(features)].sort().map((to) => `${path} → ${to}`);
  });
}

// The number of gates of a feature in a file that stand at no door.
function gatesWithin(path, source) {
  if (path === TABLE || WIRING.includes(path.replace(/\.rs$/u, ""))) return 0;
  const gates = [...source.matchAll(/^\s*#\[cfg\([^\n]*\bfeature = [^\n]*\]\n([^\n]*)/gmu)];
  return gates.filter(([, next]) => !/^\s*(?:pub(?:\([\w: ]+\))? )?(?:mod|use) /u.test(next)).length;
}

/**
 * Returns what there is to find in one crate: `{ folders, files, circles, kernel, gates }`. `circles` is a list of
 * lists of files, the others are maps from a name to a size. crate: the path of its source; sources: paths below it →
 * text.
 */
export function findings(crate, sources) {
  const graph = imports(sources);
  const inFolder = Map.groupBy(Object.keys(sources), (path) => dirname(path));
  const over = (entries, most) => Object.fromEntries(entries.filter(([, size]) => size > most).sort());
  const at = (path) => join(crate, path);
  const gates = Object.entries(sources).map(([path, text]) => [at(path), gatesWithin(path, text)]);
  return {
    folders: over([...inFolder].map(([folder, paths]) => [at(folder), paths.length]), FILES_MAX),
    files: over(Object.entries(sources).map(([path, text]) => [at(path), text.split("\n").length - 1]), LINES_MAX),
    circles: circles(graph).map((circle) => circle.map(at)),
    kernel: Object.fromEntries(crossings(graph, KERNEL[crate] ?? []).map((crossing) => [at(crossing), 1])),
    gates: over(LIBRARIES.includes(crate) ? [] : gates, 0),
  };
}

const SIZES = {
  folders: "files", files: "lines", kernel: "import of a feature", gates: "gates away from a door",
};
const isWithin = (circle, larger) => circle.every((file) => larger.includes(file));
const isSame = (one, other) => one.length === other.length && isWithin(one, other);

/** Returns what is above what is allowed, and what is allowed without need. */
export function wrongs(found, allowed) {
  const sizes = Object.entries(SIZES).flatMap(([kind, unit]) => {
    const [is, may] = [found[kind] ?? {}, allowed[kind] ?? {}];
    const over = Object.entries(is)
      .filter(([name, size]) => size > (may[name] ?? 0))
      .map(([name, size]) => `${name}: ${size} ${unit}, ${may[name] ?? "none"} allowed: divide it, or turn an import around`);
    const loose = Object.entries(may)
      .filter(([name, size]) => (is[name] ?? 0) < size)
      .map(([name, size]) => `${ALLOWED} allows ${size} ${unit} for ${name}, which has fewer: run ${SHRINK}`);
    return [...over, ...loose];
  });
  const [are, may] = [found.circles ?? [], allowed.circles ?? []];
  const over = are
    .filter((circle) => !may.some((larger) => isWithin(circle, larger)))
    .map((circle) => `these ${circle.length} files import each other, turn an import around: ${circle.join(", ")}`);
  const loose = may
    .filter((circle) => !are.some((one) => isSame(one, circle)))
    .map((circle) => `${ALLOWED} allows a circle of ${circle.length} files from ${circle[0]} on: run ${SHRINK}`);
  return [...sizes, ...over, ...(over.length > 0 ? [] : loose)];
}

const sourcesOf = (folder) =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true })
      .filter((path) => path.endsWith(".rs") && statSync(join(folder, path)).isFile())
      .sort()
      .map((path) => [path, readFileSync(join(folder, path), "utf8")]),
  );

// The folders of source: of each crate, and of the package.
const sourceFolders = (root) => {
  const folders = readdirSync(join(root, "crates")).sort().map((name) => join(root, "crates", name, "src"));
  return [...folders, join(root, "src")].filter((path) => existsSync(path));
};

/**
 * Returns the sizes of the source: lines without comments and blank lines, how many percent of them decide purely, the
 * most files of a folder, and the most lines of a file. root: the project's folder.
 */
export function figuresOf(root = ROOT) {
  const figures = { lines: 0, lines_pure_percent: 0, folder_files_max: 0, file_lines_max: 0 };
  let pure = 0;
  for (const folder of sourceFolders(root)) {
    const sources = sourcesOf(folder);
    const texts = Object.values(sources);
    const all = texts.flatMap((text) => text.split("\n"));
    const lines = all.filter((line) => !/^\s*(\/\/|$)/u.test(line)).length;
    figures.lines += lines;
    pure += DECIDES.includes(relative(root, folder)) ? lines : 0;
    const inFolder = Map.groupBy(Object.keys(sources), (path) => dirname(path));
    const sizes = [...inFolder.values()].map((paths) => paths.length);
    figures.folder_files_max = Math.max(figures.folder_files_max, ...sizes);
    figures.file_lines_max = Math.max(figures.file_lines_max, ...texts.map((text) => text.split("\n").length - 1));
  }
  figures.lines_pure_percent = Math.round((pure / figures.lines) * 100);
  return figures;
}

/** Returns the findings of all crates. root: the project's folder. */
export function findingsOf(root = ROOT) {
  const all = { folders: {}, files: {}, circles: [], kernel: {}, gates: {} };
  for (const folder of sourceFolders(root)) {
    const found = findings(relative(root, folder), sourcesOf(folder));
    for (const kind of Object.keys(SIZES)) Object.assign(all[kind], found[kind]);
    all.circles.push(...found.circles);
  }
  return all;
}

/** Returns the allowances. root: the project's folder. */
export const roomsAllowed = (root = ROOT) => JSON.parse(readFileSync(join(root, ALLOWED), "utf8"));

// What is needed of what is allowed.
const shrunk = (found, allowed) => ({
  ...Object.fromEntries(Object.keys(SIZES).map((kind) => [
    kind,
    Object.fromEntries(
      Object.entries(allowed[kind] ?? {})
        .map(([name, size]) => [name, Math.min(size, found[kind][name] ?? 0)])
        .filter(([, size]) => size > 0),
    ),
  ])),
  circles: found.circles.filter((circle) => (allowed.circles ?? []).some((larger) => isWithin(circle, larger))),
});

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = findingsOf();
  if (process.argv[2] === "--all") console.log(JSON.stringify(found, null, 1));
  else if (process.argv[2] === "--figures") {
    console.log(JSON.stringify({ ...figuresOf(), circles: found.circles.length }, null, 1));
  } else if (process.argv[2] === "--shrink") {
    writeFileSync(join(ROOT, ALLOWED), `${JSON.stringify(shrunk(found, roomsAllowed()), null, 1)}\n`);
  } else {
    const wrong = wrongs(found, roomsAllowed());
    if (wrong.length > 0) console.log(wrong.join("\n"));
    process.exitCode = wrong.length === 0 ? 0 : 1;
  }
}
