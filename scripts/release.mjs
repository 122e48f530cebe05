// Makes a release: checks, versions, build, fixture of its data, commit, tag. It pushes nothing.
//
//   node scripts/release.mjs 0.2.0            makes it
//   node scripts/release.mjs 0.2.0 --dry-run  says what would be done, and what is in the way; changes nothing
//
// Invariant: nothing is changed before everything that can be asked first has been asked, and the tag comes last, on
// the commit that was checked and tested with the release's own version in it.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const VERSION = /^(\d+)\.(\d+)\.(\d+)$/;
const UNRELEASED = "## Unreleased";

// Files that name the version, and where: what matches is replaced.
const NAMED = {
  // The package of the workspace, and the crates that depend on each other. Their manifests take it from here.
  "Cargo.toml": /(?<=^version = "|^tally[\w-]* = \{ path = "[^"]+", version = ")[^"]+/gm,
  "Cargo.lock": /(?<=^name = "tally(?:-\w+)?"\nversion = ")[^"]+/gm,
  "package.json": /(?<="name": "edgetally",\n {2}"version": ")[^"]+/,
  "package-lock.json": /(?<="name": "edgetally",\n +"version": ")[^"]+/g,
  "crates/tally-api/src/openapi.json": /(?<="title": "Tally",\n {4}"version": "|"build": ")[^"]+/g,
  // Made of the one above, and of the types.
  "crates/tally-api/openapi.json": /(?<="title": "Tally",\n {4}"version": "|"build": ")[^"]+/g,
  "package/Containerfile": /(?<=\bedgetally-)\d+\.\d+\.\d+(?=\.tgz)/g,
  "deploy/kubernetes/tally/Chart.yaml": /(?<=^(?:version|appVersion): )\S+/gm,
  "package/python/pyproject.toml": /(?<=^name = "edgetally"\nversion = ")[^"]+/m,
  // What pages show of the package's archive, and of the answer of /healthz.
  "README.md": /(?<=\bedgetally-)\d+\.\d+\.\d+(?=\.tgz)/g,
  "docs/operate/machine.md": /(?<="build":")[^"]+/g,
  "docs/operate/metrics.md": /(?<="build":")[^"]+/g,
  "docs/operate/upgrade.md": /(?<="build":")[^"]+/g,
};
export const FILES = [...Object.keys(NAMED), "CHANGELOG.md"];

const isBefore = (version, other) => {
  const [one, two] = [version, other].map((text) => text.match(VERSION).slice(1).map(Number));
  const index = one.findIndex((part, place) => part !== two[place]);
  return index >= 0 && one[index] < two[index];
};

// What stands under "Unreleased", without headings.
function unreleased(changelog) {
  const [, after = ""] = changelog.split(`${UNRELEASED}\n`);
  return after.split(/^## /m)[0].replace(/^#.*$/gm, "").trim();
}

/**
 * Returns what is in the way of a release, a sentence each. texts: of FILES. status: of git, short. tags: that exist.
 */
export function obstacles({ version, texts, status, tags }) {
  if (!VERSION.test(version ?? "")) return ["name the version, as in: node scripts/release.mjs 0.2.0"];
  const now = texts["package.json"].match(NAMED["package.json"])?.[0];
  return [
    ...Object.keys(NAMED)
      .filter((path) => texts[path].match(NAMED[path]) === null)
      .map((path) => `${path} does not name the version where it should`),
    // The tree names the version of the next release before its tag exists.
    ...(VERSION.test(now ?? "") && isBefore(version, now) ? [`${version} comes before ${now}`] : []),
    ...(unreleased(texts["CHANGELOG.md"]) === "" ? [`CHANGELOG.md has nothing under "${UNRELEASED}"`] : []),
    ...(status === "" ? [] : ["there are uncommitted changes: commit or remove them"]),
    ...(tags.includes(`v${version}`) ? [`the tag v${version} exists`] : []),
  ];
}

/** Returns the texts of FILES with the version in them, and what is unreleased under it. date: YYYY-MM-DD. */
export function released({ version, date, texts }) {
  const named = Object.keys(NAMED).map((path) => [path, texts[path].replace(NAMED[path], version)]);
  const changelog = texts["CHANGELOG.md"].replace(UNRELEASED, `${UNRELEASED}\n\n## ${version} (${date})`);
  return { ...Object.fromEntries(named), "CHANGELOG.md": changelog };
}

const fixture = (version) =>
  ["workerd.tar.br", "workerd.json", "native.tar.br", "native.json"]
    .map((end) => `tests/fixtures/data/${version}-${end}`);

/** Returns the commands of a release, in order; the versions are written before them. */
export function commands(version) {
  const data = fixture(version);
  return [
    ["make", "fixture"],
    ["make", "check", "test"],
    ["git", "add", "--", ...FILES, ...data],
    ["git", "commit", "--quiet", "-m", `Release ${version}`],
    ["git", "tag", "--annotate", `v${version}`, "-m", `Tally ${version}`],
  ];
}

const git = (...args) => spawnSync("git", args, { cwd: ROOT, encoding: "utf8" }).stdout.trim();

function main([version, ...flags]) {
  const isDry = flags.includes("--dry-run");
  const texts = Object.fromEntries(FILES.map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
  const found = obstacles({
    version, texts, status: git("status", "--porcelain"), tags: git("tag", "--list").split("\n"),
  });
  for (const sentence of found) console.error(`release: ${isDry ? "would stop: " : ""}${sentence}`);
  if (found.length > 0 && (!isDry || !VERSION.test(version ?? ""))) return 1;
  const date = new Date().toISOString().slice(0, 10);
  const after = released({ version, date, texts });
  for (const path of FILES) {
    console.log(`release: ${version} into ${path}`);
    if (!isDry) writeFileSync(join(ROOT, path), after[path]);
  }
  for (const [program, ...args] of commands(version)) {
    console.log(`release: ${[program, ...args].join(" ")}`);
    if (isDry) continue;
    const { status } = spawnSync(program, args, { cwd: ROOT, stdio: "inherit" });
    if (status !== 0) {
      console.error("release: stopped. git restore . takes the versions back, once what failed is mended");
      return 1;
    }
  }
  const made = fixture(version).every((path) => existsSync(join(ROOT, path)));
  console.log(isDry ? "release: nothing was changed" : `release: v${version} is tagged${made ? "" : ", without a fixture of its data"}. Then: git push --follow-tags`);
  return 0;
}

if (process.argv[1] === import.meta.filename) process.exitCode = main(process.argv.slice(2));
