// Where the built Workers lie: in the package beside `bin`, in the source two folders above this file.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

function above(folder) {
  if (existsSync(join(folder, "wrangler.jsonc")) && existsSync(join(folder, "package.json"))) return folder;
  const next = dirname(folder);
  if (next === folder) throw new Error("the files of this package are not complete: install it again");
  return above(next);
}

/** The folder that holds `build/`, `wrangler.jsonc` and `package.json`. */
export const ROOT = above(dirname(fileURLToPath(import.meta.url)));

/** What package.json says: name, version, pinned packages. */
export const PACKAGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

// As `engines` of the package has it: from there on Node unpacks zstd.
const NODE_MIN = [22, 15];

/** Returns why a version of Node is too old, and what to install; undefined if it is not. */
export function nodeFault(node) {
  const [major, minor] = node.split(".").map(Number);
  const [first, second] = NODE_MIN;
  if (major > first || (major === first && minor >= second)) return undefined;
  return `Node ${node} is too old: install Node ${NODE_MIN.join(".")} or later`;
}
