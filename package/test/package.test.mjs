// The package as people get it: installed into an empty folder, without Rust, it counts.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { after, test } from "node:test";
import { PYTHON } from "../../scripts/python-clients.mjs";
import { PROGRAM } from "../../tests/server/program.mjs";
import { nativePackage } from "../command/native.mjs";
import { makeNativePackage, makePackage } from "../package.mjs";
import { ROOT, folder, openServer, run, until } from "./server.mjs";

const place = folder();
after(() => rmSync(place, { recursive: true, force: true }));

// By when a newcomer has counted something, from the archive on.
const COUNTS_SECONDS_MAX = 30;

// No cargo, nothing of this project.
const PATH = process.env.PATH.split(delimiter)
  .filter((entry) => !existsSync(join(entry, "cargo")) && !entry.startsWith(ROOT))
  .join(delimiter);

// The registry is not asked: what is installed here stands for it, as archives.
function archives() {
  const names = [
    "workerd",
    ...readdirSync(join(ROOT, "node_modules/@cloudflare"))
      .filter((name) => name.startsWith("workerd-"))
      .map((name) => `@cloudflare/${name}`),
  ];
  return Object.fromEntries(
    names.map((name) => {
      const file = join(place, `${name.replace(/\W+/g, "-")}.tgz`);
      const folder = realpathSync(join(ROOT, "node_modules", name));
      const { status, stderr } = spawnSync(
        "tar", ["--create", "--file", file, "--transform", "s,^\\.,package,", "--directory", folder, "."],
        { encoding: "utf8" },
      );
      assert.equal(status, 0, stderr);
      return [name, `file:${file}`];
    }),
  );
}

/** The package with the native server, as tests build that: without what a debugger reads. */
function nativeArchive() {
  assert.ok(existsSync(PROGRAM), `${PROGRAM} is missing: cargo build -p tally-server makes it`);
  const program = join(place, "tally-server");
  const { status, stderr } = spawnSync("strip", ["-o", program, PROGRAM], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return makeNativePackage({ program });
}

/** With the package of the platform the command runs the native server, and says what to do once that is gone. */
async function servesNatively(empty, env, name) {
  const program = [join(empty, "node_modules/.bin/tally")];
  const data = join(place, "native-data");
  const said = { text: "" };
  const child = spawn(program[0], ["serve", "--native", "--port", "0", "--data", data], { cwd: empty, env });
  child.stdout.on("data", (text) => (said.text += text));
  child.stderr.on("data", (text) => (said.text += text));
  const ended = once(child, "close");
  const [, url] = await until(() => said.text.match(/ready on (\S+)/) ?? child.exitCode !== null);
  assert.ok(url, said.text);
  const answer = await fetch(`${url}/counters/likes/increment`, { method: "POST" });
  assert.equal((await answer.json()).value, 1);
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null], said.text);
  rmSync(join(empty, "node_modules", name), { recursive: true });
  const missing = await run(program[0], ["serve", "--native"], { cwd: empty, env: { ...env, TALLY_SERVER: "" } });
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, new RegExp(`npm install ${name}@.* or leave out --native`));
}

test("it installs into an empty folder without Rust, and counts", { timeout: 600_000 }, async () => {
  const archive = makePackage();
  const native = nativeArchive();
  const name = nativePackage(`${process.platform}-${process.arch}`);
  const empty = join(place, "empty");
  mkdirSync(empty);
  // "overrides" is how an npm without a registry is told where packages are. With one, `npm install <archive>` is all.
  const overrides = { ...archives(), ...(native && { [name]: `file:${native}` }) };
  writeFileSync(join(empty, "package.json"), JSON.stringify({ private: true, type: "module", overrides }));
  const env = { PATH, HOME: place, npm_config_cache: join(place, "cache") };
  const began = performance.now();
  const installed = await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", archive], {
    cwd: empty, env,
  });
  assert.equal(installed.code, 0, installed.stderr);
  const dependencies = readdirSync(join(empty, "node_modules")).filter((name) => !name.startsWith("."));
  assert.deepEqual(dependencies.sort(), ["@cloudflare", "edgetally", ...(native ? [name] : []), "workerd"]);
  assert.notEqual(spawnSync("sh", ["-c", "command -v cargo"], { env }).status, 0, "cargo is on the PATH");

  // `npx edgetally` runs the program that has the package's name.
  const [own, short] = await Promise.all(
    ["edgetally", "tally"].map((name) => join(empty, "node_modules/.bin", name)).map((program) =>
      run(program, ["--version"], { cwd: empty, env }),
    ),
  );
  assert.deepEqual([own.code, own.stdout], [0, short.stdout], own.stderr);

  const server = await openServer({ program: [join(empty, "node_modules/.bin/tally")], env, cwd: empty });
  try {
    const counted = await server.json("/counters/likes/increment", { method: "POST" });
    const seconds = (performance.now() - began) / 1000;
    console.log(`from the archive to the first count: ${seconds.toFixed(1)} s`);
    assert.deepEqual([counted.value, counted.exact], [1, true]);
    assert.ok(seconds < COUNTS_SECONDS_MAX, `${seconds} s`);
    const script = `import { Tally } from "edgetally"; const tally = new Tally({ url: process.argv[1] }); console.log((await tally.increment("likes")).value);`;
    const node = await run("node", ["--input-type=module", "--eval", script, server.url], { cwd: empty, env });
    assert.deepEqual([node.stdout, node.stderr], ["2\n", ""]);
    const outcome = await server.tally(["get", "likes", "--strong", "--json"]);
    assert.equal(JSON.parse(outcome.stdout).value, 2);
    const log = '203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1 "-" "Mozilla/5.0 Firefox/140.0"\n';
    const imported = await server.tally(["import", "-", "--json"], { input: log });
    assert.equal(JSON.parse(imported.stdout).counted, 1, imported.stderr);
    const listed = await server.tally(["mcp"], { input: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' });
    assert.equal(JSON.parse(listed.stdout).result.tools[0].name, "readTop", listed.stderr);
  } finally {
    await server.end();
  }
  if (native) await servesNatively(empty, env, name);

  const strict = '{"compilerOptions":{"strict":true,"module":"NodeNext","target":"ES2022","lib":["ES2023","DOM","DOM.AsyncIterable"],"types":[],"noEmit":true},"files":["use.ts"]}';
  writeFileSync(join(empty, "tsconfig.json"), strict);
  writeFileSync(
    join(empty, "use.ts"),
    `import { Tally, type Written } from "edgetally";
const tally = new Tally({ url: "http://x" });
const written: Promise<Written> = tally.increment("a", { delta: 2, by: { country: "DE" } });
// @ts-expect-error -- a field that OpenAPI does not know
void tally.increment("a", { dleta: 2 });
const left: number | null = (await tally.limit("login", "bob")).remaining;
void [written, left];
`,
  );
  const typed = await run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "--project", empty]);
  assert.equal(typed.code, 0, typed.stdout);
  for (const file of ["LICENSE", "THIRD-PARTY.txt", "Containerfile", "tally.service"]) {
    assert.ok(existsSync(join(empty, "node_modules/edgetally", file)), file);
  }
  assert.doesNotMatch(readFileSync(join(empty, "node_modules/edgetally/package.json"), "utf8"), /esbuild|commander/);
});

test("the wheel of the Python client is built, installed into an empty folder, and imported", async (context) => {
  if (!existsSync(PYTHON)) return context.skip("there is no Python: scripts/python-clients.mjs");
  // A build leaves folders beside what it builds.
  const source = join(place, "python-source");
  mkdirSync(source);
  for (const file of ["pyproject.toml", "edgetally.py"]) cpSync(join(ROOT, "package/python", file), join(source, file));
  const wheels = join(place, "wheels");
  const built = await run(PYTHON, [
    "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source,
  ]);
  assert.equal(built.code, 0, built.stderr);
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const wheel = `edgetally-${version}-py3-none-any.whl`;
  assert.deepEqual(readdirSync(wheels), [wheel]);
  const target = join(place, "python-installed");
  const installed = await run(PYTHON, [
    "-m", "pip", "install", "--quiet", "--no-index", "--target", target, join(wheels, wheel),
  ]);
  assert.equal(installed.code, 0, installed.stderr);
  const script =
    "import importlib.metadata, edgetally; print(edgetally.__file__, importlib.metadata.version('edgetally'), edgetally.Tally.__name__)";
  const { stdout, stderr } = await run(PYTHON, ["-c", script], {
    cwd: place, env: { PYTHONPATH: target, PYTHONDONTWRITEBYTECODE: "1" },
  });
  assert.equal(stdout, `${join(target, "edgetally.py")} ${version} Tally\n`, stderr);
});
