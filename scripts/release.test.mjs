// A release: what is in the way of one is told before anything changes, and a dry run changes nothing.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FILES, commands, obstacles, released } from "./release.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const texts = Object.fromEntries(FILES.map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
const CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- Something.\n\n## 0.1.0\n\n- The first.\n";
const good = { version: "99.0.0", texts: { ...texts, "CHANGELOG.md": CHANGELOG }, status: "", tags: ["v0.1.0"] };

test("nothing is in the way of a release that comes next, of a clean tree, with something to tell", () => {
  assert.deepEqual(obstacles(good), []);
  const empty = CHANGELOG.replace("- Something.\n", "");
  for (const [wrong, sentence] of [
    [{ version: "1.0" }, /name the version/],
    [{ version: undefined }, /name the version/],
    [{ version: "0.0.9" }, /0\.0\.9 comes before/],
    [{ status: " M README.md" }, /uncommitted/],
    [{ tags: ["v99.0.0"] }, /v99\.0\.0 exists/],
    [{ texts: { ...good.texts, "CHANGELOG.md": empty } }, /nothing under/],
    [{ texts: { ...good.texts, "Cargo.lock": "" } }, /Cargo\.lock does not name/],
  ]) {
    const found = obstacles({ ...good, ...wrong });
    assert.equal(found.length, 1, JSON.stringify(found));
    assert.match(found[0], sentence);
  }
});

test("a version that the tree names already is released as long as it has no tag", () => {
  const { version } = JSON.parse(texts["package.json"]);
  assert.deepEqual(obstacles({ ...good, version }), []);
  assert.match(obstacles({ ...good, version, tags: [`v${version}`] })[0], /exists/);
});

test("every file names the new version, and the changes stand under it", () => {
  const after = released({ version: "99.0.0", date: "2027-01-31", texts: good.texts });
  assert.deepEqual(Object.keys(after).sort(), [...FILES].sort());
  // How often a file names it: once where nothing is said.
  const TIMES = {
    "deploy/kubernetes/tally/Chart.yaml": 2,
    "Cargo.toml": 17, "Cargo.lock": 19, "package-lock.json": 2, "package/Containerfile": 2, "README.md": 3,
    "crates/tally-api/src/openapi.json": 2, "crates/tally-api/openapi.json": 2,
  };
  for (const path of FILES) assert.equal(after[path].split("99.0.0").length - 1, TIMES[path] ?? 1, path);
  assert.match(after["CHANGELOG.md"], /## Unreleased\n\n## 99\.0\.0 \(2027-01-31\)\n\n### Added\n\n- Something\./);
  assert.equal(JSON.parse(after["package.json"]).version, "99.0.0");
  assert.equal(JSON.parse(after["crates/tally-api/src/openapi.json"]).info.version, "99.0.0");
});

test("no manifest and no recipe keeps the version before", () => {
  const tracked = spawnSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).stdout.split("\n");
  // tools/bindgen is not released: it only builds.
  const named = tracked.filter(
    (path) =>
      /(^|\/)(Cargo\.toml|pyproject\.toml|package\.json|Containerfile)$/.test(path) && !path.startsWith("tools/"),
  );
  assert.ok(named.length >= 6, named.join());
  const { version } = JSON.parse(texts["package.json"]);
  const after = released({ version: "99.0.0", date: "2027-01-31", texts: good.texts });
  for (const path of named) {
    const text = after[path] ?? readFileSync(join(ROOT, path), "utf8");
    assert.ok(!text.includes(version), `${path} still names ${version}`);
  }
});

test("the tag comes last, on a commit that was built, checked and tested, with a fixture of its data", () => {
  const lines = commands("99.0.0").map((command) => command.join(" "));
  const places = ["make fixture", "make check test", "git commit", "git tag"].map(
    (part) => lines.findIndex((command) => command.includes(part)),
  );
  assert.deepEqual(
    places, [...places].sort((one, other) => one - other),
  );
  assert.ok(!places.includes(-1) && places.at(-1) === lines.length - 1);
});

test("a dry run says what would be done and changes nothing", () => {
  const hash = () => FILES.map((path) => createHash("sha256").update(readFileSync(join(ROOT, path))).digest("hex"));
  const before = hash();
  const { status, stdout } = spawnSync(process.execPath, ["scripts/release.mjs", "99.0.0", "--dry-run"], {
    cwd: ROOT, encoding: "utf8",
  });
  assert.equal(status, 0);
  assert.match(stdout, /make check test\n[\s\S]*git tag --annotate v99\.0\.0[\s\S]*nothing was changed\n$/);
  assert.deepEqual(hash(), before);
});
