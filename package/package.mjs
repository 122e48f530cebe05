// `make package`: the npm package `edgetally`, as build/edgetally-<version>.tgz, and the one that has the native server
// for this platform, as build/edgetally-<platform>-<version>.tgz.
//
// Invariant: the package needs workerd and nothing else to run. Libraries of the command are bundled into it, with
// their licences. Life: types from OpenAPI → client compiled → command bundled → files put together → npm pack.
// npm installs that of the platform with it, as it is one of its optional dependencies that says where it runs.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { nativePackage } from "./command/native.mjs";
import { crateLicences } from "./licences.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const STAGE = join(ROOT, "build/package");
const read = (path) => readFileSync(join(ROOT, path), "utf8");
const own = JSON.parse(read("package.json"));

/** Where the native server runs from npm: a platform as Node names it, and the static target that is built for it. */
const NATIVE = { "linux-x64": "x86_64-unknown-linux-musl" };

function run(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: ROOT, encoding: "utf8", maxBuffer: 64 * 1024 * 1024, ...options,
  });
  if (status !== 0) {
    process.stderr.write(`${stdout ?? ""}${stderr ?? ""}`);
    throw new Error(`${program} ${args.join(" ")} failed${error === undefined ? "" : `: ${error.message}`}`);
  }
  return stdout;
}

/** Writes the types of the API into package/client/api.ts. */
export function types() {
  const generator = join(ROOT, "node_modules/openapi-typescript/bin/cli.js");
  run(process.execPath, [
    generator, "crates/tally-api/openapi.json", "--default-non-nullable=false", "--output",
    "package/client/api.ts",
  ]);
}

/** Checks the types of the client, and compiles it into `folder` where there is one. */
export function client(folder) {
  const args = folder === undefined ? ["--noEmit"] : ["--outDir", folder];
  run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "--project", "package/client", ...args]);
}

// Bundles the command, and returns the folders of the packages in it.
function command() {
  const { metafile } = buildSync({
    entryPoints: [join(ROOT, "package/command/tally.mjs")],
    outdir: join(STAGE, "bin"),
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: ["workerd"],
    legalComments: "linked",
    metafile: true,
    // What is bundled and of the older kind asks for modules of Node by `require`.
    banner: { js: "import { createRequire as createRequireOf } from 'node:module'; const require = createRequireOf(import.meta.url);" },
    logLevel: "warning",
  });
  chmodSync(join(STAGE, "bin/tally.mjs"), 0o755);
  const outputs = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  const folders = outputs
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .flatMap(([file]) => file.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/) ?? []);
  return [...new Set(folders)].sort();
}

// The licences of what is bundled stand beside it.
function licences(bundled) {
  const texts = bundled.map((path) => {
    const folder = join(ROOT, path);
    const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text =
      ["LICENSE", "LICENSE.md", "LICENSE.MIT", "LICENSE-MIT.txt", "license"]
        .map((file) => tryRead(join(folder, file)))
        .find(Boolean) ?? license;
    return `${name} ${version}\n\n${text.trim()}\n`;
  });
  writeFileSync(
    join(STAGE, "THIRD-PARTY.txt"), `The command holds these packages.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`,
  );
}

function tryRead(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function manifest() {
  const entry = (name) => ({ types: `./client/${name}.d.ts`, default: `./client/${name}.js` });
  const { version, license, devDependencies: pinned } = own;
  return {
    name: "edgetally",
    version,
    description: "Counts things at the edge: server, command, client. Exact counters, unique visitors, histories, rate limits.",
    license,
    type: "module",
    // `zlib.crc32` is the newest of what it needs.
    engines: { node: ">=22.15" },
    bin: { edgetally: "bin/tally.mjs", tally: "bin/tally.mjs" },
    main: "./client/index.js",
    types: "./client/index.d.ts",
    exports: {
      ".": entry("index"),
      "./hono": entry("hono"),
      "./express": entry("express"),
      "./react": entry("react"),
      "./miniflare": entry("miniflare"),
      "./worker": entry("worker"),
      "./openapi.json": "./openapi.json",
      "./package.json": "./package.json",
    },
    dependencies: { workerd: pinned.workerd },
    optionalDependencies: Object.fromEntries(Object.keys(NATIVE).map((platform) => [nativePackage(platform), version])),
    peerDependencies: { miniflare: "^5.0.0-0", react: ">=18", wrangler: ">=4.107" },
    peerDependenciesMeta: { miniflare: { optional: true }, react: { optional: true }, wrangler: { optional: true } },
    tally: { wrangler: pinned.wrangler },
  };
}

function stage() {
  rmSync(STAGE, { recursive: true, force: true });
  mkdirSync(join(STAGE, "build"), { recursive: true });
  for (const file of ["index.js", "index_bg.wasm", "logs.wasm"]) {
    cpSync(join(ROOT, "build", file), join(STAGE, "build", file));
  }
  for (const file of ["LICENSE", "wrangler.jsonc", "wrangler.aggregator.jsonc"]) {
    cpSync(join(ROOT, file), join(STAGE, file));
  }
  cpSync(join(ROOT, "crates/tally-api/openapi.json"), join(STAGE, "openapi.json"));
  for (const file of ["README.md", "Containerfile", "tally.service"]) {
    cpSync(join(ROOT, "package", file), join(STAGE, file));
  }
  cpSync(join(ROOT, "package/python/edgetally.py"), join(STAGE, "python/edgetally.py"));
  writeFileSync(join(STAGE, "package.json"), `${JSON.stringify(manifest(), null, 2)}\n`);
  types();
  client(join(STAGE, "client"));
  licences(command());
}

function pack(folder) {
  const place = join(ROOT, "build");
  const [{ filename }] = JSON.parse(
    run("npm", ["pack", "--json", "--ignore-scripts", "--loglevel=error", "--pack-destination", place], {
      cwd: folder,
    }),
  );
  return join(place, filename);
}

/** Makes the package, and returns its path. */
export function makePackage() {
  stage();
  return pack(STAGE);
}

/** Returns how to get what a build of the native server for a target lacks here; undefined if it lacks nothing. */
function lacking(target) {
  const sysroot = run("rustc", ["--print", "sysroot"]).trim();
  if (!existsSync(join(sysroot, "lib/rustlib", target))) return `run rustup target add ${target}`;
  if (spawnSync("musl-gcc", ["--version"]).status !== 0) return "install musl-gcc, which Debian has in musl-tools";
  return undefined;
}

/** Builds the native server as one static program, which runs with every C library. Returns its path. */
function buildNative(target) {
  run("cargo", ["build", "--locked", "--profile", "native", "--package", "tally-server", "--target", target], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  return join(ROOT, "target", target, "native/tally-server");
}

/**
 * Makes the package with the native server for this platform, and returns its path; undefined where npm has none.
 * program: what is packed instead of a new build.
 */
export function makeNativePackage({ program } = {}) {
  const platform = `${process.platform}-${process.arch}`;
  const target = NATIVE[platform];
  if (target === undefined) return undefined;
  const folder = join(ROOT, "build", `package-${platform}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "bin"), { recursive: true });
  cpSync(program ?? buildNative(target), join(folder, "bin/tally-server"));
  chmodSync(join(folder, "bin/tally-server"), 0o755);
  cpSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(join(folder, "THIRD-PARTY.txt"), crateLicences(ROOT, target));
  const { version, license } = own;
  const manifest = {
    name: nativePackage(platform),
    version,
    description: `The native server of edgetally for ${platform}: tally serve --native`,
    license,
    os: [process.platform],
    cpu: [process.arch],
    // A package of `preferUnplugged` is kept as files by those who keep packages zipped: it is run.
    preferUnplugged: true,
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return pack(folder);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === "--types") {
    types();
    client();
  } else {
    console.log(makePackage());
    const target = NATIVE[`${process.platform}-${process.arch}`];
    const lack = target === undefined ? "this platform has none" : lacking(target);
    if (lack === undefined) console.log(makeNativePackage());
    else console.error(`The package with the native server is not made: ${lack}.`);
  }
}
