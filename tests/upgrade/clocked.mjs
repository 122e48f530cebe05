// A build whose Workers have another clock: the time of the fixture, or years after it, on whatever day the test runs.
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { UNIQUE_KEYS } from "../../scripts/workerd-config.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));

/**
 * Writes a build into `folder` that is the one in `build` with its clock at `now_ms` (unix milliseconds) when this
 * returns, from where it runs on. Returns the folder.
 */
export function clocked({ build, folder, now_ms }) {
  mkdirSync(folder, { recursive: true });
  const classes = Object.keys(UNIQUE_KEYS).map((name) => `export const ${name} = clocked(built.${name});\n`);
  const contents = `import { clocked } from "./clock.js";\nimport * as built from "built";\nexport default built.default;\n${classes.join("")}`;
  buildSync({
    stdin: { contents, resolveDir: HERE },
    bundle: true,
    format: "esm",
    alias: { built: join(build, "index.js") },
    define: { SHIFT_MS: String(now_ms - Date.now()) },
    external: ["cloudflare:workers", "*.wasm"],
    outfile: join(folder, "index.js"),
    logLevel: "warning",
  });
  copyFileSync(join(build, "index_bg.wasm"), join(folder, "index_bg.wasm"));
  return folder;
}
