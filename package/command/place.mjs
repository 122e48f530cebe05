// Where the built Workers lie: in the package beside `bin`, in the source two folders above this file.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

function above(folder) {
  if (existsSync(join(folder, "wrangler.toml")) && existsSync(join(folder, "package.json"))) return folder;
  const next = dirname(folder);
  if (next === folder) throw new Error("the files of this package are not complete: install it again");
  return above(next);
}

/** The folder that holds `build/`, `wrangler.toml` and `package.json`. */
export const ROOT = above(dirname(fileURLToPath(import.meta.url)));

/** What package.json says: name, version, pinned packages. */
export const PACKAGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
