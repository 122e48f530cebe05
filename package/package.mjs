// `make package`: the npm package `edgetally`, as build/edgetally-<version>.tgz.
//
// Invariant: the package needs workerd and nothing else to run. Libraries of the command are bundled into it, with
// their licences. Life: types from OpenAPI → client compiled → command bundled → files put together → npm pack.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const STAGE = join(ROOT, "build/package");
const read = (path) => readFileSync(join(ROOT, path), "utf8");
const own = JSON.parse(read("package.json"));

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
    generator, "crates/tally-protocol/openapi.json", "--default-non-nullable=false", "--output",
    "package/client/api.ts",
  ]);
}

/** Checks the types of the client, and compiles it into `folder` where there is one. */
export function client(folder) {
  const args = folder === undefined ? ["--noEmit"] : ["--outDir", folder];
  run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "--project", "package/client", ...args]);
}

function command() {
  buildSync({
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
    // What is bundled and of the older kind asks for modules of Node by `require`.
    banner: { js: "import { createRequire as createRequireOf } from 'node:module'; const require = createRequireOf(import.meta.url);" },
    logLevel: "warning",
  });
  chmodSync(join(STAGE, "bin/tally.mjs"), 0o755);
}

// The licences of what is bundled stand beside it.
function licences() {
  const bundled = [
    "commander", "cli-progress", "string-width", "strip-ansi", "ansi-regex", "emoji-regex", "is-fullwidth-code-point",
    "unbzip2-stream", "through", "buffer", "base64-js", "ieee754", "@redis/client",
  ];
  const texts = bundled.map((name) => {
    const folder = join(ROOT, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
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
      "./openapi.json": "./openapi.json",
      "./package.json": "./package.json",
    },
    dependencies: { workerd: pinned.workerd },
    peerDependencies: { miniflare: "^5.0.0-0", react: ">=18", wrangler: ">=4" },
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
  for (const file of ["LICENSE", "wrangler.toml", "wrangler.aggregator.toml"]) {
    cpSync(join(ROOT, file), join(STAGE, file));
  }
  cpSync(join(ROOT, "crates/tally-protocol/openapi.json"), join(STAGE, "openapi.json"));
  for (const file of ["README.md", "Containerfile", "tally.service"]) {
    cpSync(join(ROOT, "package", file), join(STAGE, file));
  }
  cpSync(join(ROOT, "package/python/edgetally.py"), join(STAGE, "python/edgetally.py"));
  writeFileSync(join(STAGE, "package.json"), `${JSON.stringify(manifest(), null, 2)}\n`);
  types();
  client(join(STAGE, "client"));
  command();
  licences();
}

/** Makes the package, and returns its path. */
export function makePackage() {
  stage();
  const [{ filename }] = JSON.parse(
    run("npm", ["pack", "--json", "--ignore-scripts", "--loglevel=error", "--pack-destination", join(ROOT, "build")], {
      cwd: STAGE,
    }),
  );
  return join(ROOT, "build", filename);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === "--types") {
    types();
    client();
  } else console.log(makePackage());
}
