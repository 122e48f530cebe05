// What runs the native server in a container and under systemd names what there is: files, versions, options.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { PROGRAM } from "./program.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const read = (path) => readFileSync(join(ROOT, path), "utf8");
const container = read("package/Containerfile.native");
const unit = read("package/tally-server.service");

const place = mkdtempSync(join(tmpdir(), "tally-packaged-"));
after(() => rmSync(place, { recursive: true, force: true }));

// The instructions, each with its stage: { stage, word, args }.
const instructions = (() => {
  let stage;
  const lines = container.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [word, ...args] = line.split(/\s+/);
    if (word === "FROM") stage = args[2] ?? args[0];
    return { stage, word, args };
  });
})();
const sourcesOf = (stage) =>
  instructions
    .filter((one) => one.stage === stage && one.word === "COPY" && !one.args[0].startsWith("--from"))
    .flatMap(({ args }) => args.slice(0, -1));

/** The options of the program: { name, variable }. */
function optionsOf() {
  assert.ok(existsSync(PROGRAM), `${PROGRAM} is missing: cargo build -p tally-server makes it`);
  const { stdout } = spawnSync(PROGRAM, ["--help"], { encoding: "utf8" });
  return new Set([...stdout.matchAll(/--[a-z-]+|(?<=\[env: )\w+/g)].map(([name]) => name));
}

test("the container is built from files that are there, and from all that the program needs", () => {
  for (const stage of ["npm", "built"]) {
    for (const path of sourcesOf(stage)) assert.ok(existsSync(join(ROOT, path)), `${stage}: ${path}`);
  }
  const folder = join(place, "context");
  for (const path of sourcesOf("built")) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  }
  // Manifests of all that is named there, each with the files of its targets.
  const args = ["metadata", "--locked", "--offline", "--format-version", "1", "--no-deps"];
  const { status, stderr } = spawnSync("cargo", args, { cwd: folder, encoding: "utf8" });
  assert.equal(status, 0, stderr);
});

test("the container has the compiler of the source, the program of its profile, and the program's own settings", () => {
  const [, channel] = read("rust-toolchain.toml").match(/^channel = "(\d+\.\d+)\.\d+"$/m);
  assert.ok(container.includes(`\nFROM docker.io/library/rust:${channel}-alpine AS built\n`), channel);
  const [, profile, crate] = container.match(/cargo build --locked --profile (\w+) --package ([\w-]+)/);
  assert.match(read("Cargo.toml"), new RegExp(`^\\[profile\\.${profile}\\]$`, "m"));
  assert.match(read(`crates/${crate}/Cargo.toml`), new RegExp(`^name = "${crate}"$`, "m"));
  const last = instructions.filter(({ stage }) => stage === "scratch");
  const program = last.find(({ word, args }) => word === "COPY" && args[1].startsWith("/tally/"));
  assert.deepEqual(program.args, ["--from=built", `/tally/target/${profile}/${crate}`, `/${crate}`]);
  assert.match(container, new RegExp(`^ENTRYPOINT \\["/${crate}"\\]$`, "m"));
  const known = optionsOf();
  const { args } = last.find(({ word }) => word === "ENV");
  for (const setting of args) assert.ok(known.has(setting.split("=")[0]), `ENV ${setting}`);
  // The chart library, which npm brings, by the path that the build reads.
  const [, library] = container.match(/^COPY --from=npm \/tally\/(node_modules\/\w+) \1$/m);
  assert.ok(read(`crates/${crate}/build.rs`).includes(`"${library}/dist/`), library);
  assert.ok(existsSync(join(ROOT, library)));
});

test("the unit starts the program with options that it has", () => {
  const [, line] = unit.match(/^ExecStart=\/usr\/local\/bin\/tally-server (.*)$/m);
  const known = optionsOf();
  const named = line.match(/--[a-z-]+/g);
  assert.deepEqual(named, ["--host", "--port", "--data", "--keys"]);
  for (const option of named) assert.ok(known.has(option), option);
  const [, credential] = line.match(/--keys \$\{CREDENTIALS_DIRECTORY\}\/(\S+)/);
  assert.match(unit, new RegExp(`^LoadCredential=${credential}:`, "m"));
  const [, data] = line.match(/--data \/var\/lib\/(\S+)/);
  assert.match(unit, new RegExp(`^StateDirectory=${data}$`, "m"));
});

test("systemd finds nothing wrong with the unit", (context) => {
  const analyze = spawnSync("systemd-analyze", ["--version"]);
  if (analyze.status !== 0) return context.skip("systemd-analyze is not installed (Debian package systemd)");
  const folder = join(place, "unit");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "tally-server.service");
  cpSync(join(ROOT, "package/tally-server.service"), file);
  const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" });
  // The program is not installed here. All else is a finding.
  const findings = `${stdout}${stderr}`.split("\n").filter((text) => text.includes("tally-server.service"));
  assert.deepEqual(findings.filter((text) => !text.includes("is not executable")), []);
});
