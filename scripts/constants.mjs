// Reads the named limits out of the sources: name, value, file, and the first sentence of what is said about each.
//
// Invariant: a value is worked out from the very text of the constant, so a table that is compared with it cannot fall
// behind.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

const DECLARED =
  /((?:^[ \t]*\/\/\/[^\n]*\n)*)^(pub(?:\([a-z]+\))? )?const ([A-Z][A-Z0-9_]*): (u8|u16|u32|u64|u128|usize|i32|i64|i128|f64) =\s*([^;]+);/gm;

/**
 * Returns all constants of number below `src` and `crates` of `root`: `{ name, file, value, isPublic, about }`, by file
 * and then as they stand.
 */
export function constants(root) {
  const files = ["src", "crates"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".rs"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort();
  const declared = files.flatMap((file) =>
    [...readFileSync(join(root, file), "utf8").matchAll(DECLARED)].map(([, about, visible, name, , text]) => ({
      name,
      file,
      text,
      isPublic: visible !== undefined,
      about: firstSentence(about),
    })),
  );
  const find = (name, file) =>
    declared.find((one) => one.name === name && one.file === file) ?? declared.find((one) => one.name === name);
  return declared.map(({ text, ...one }) => ({ ...one, value: valueOf(text, one.file, find) }));
}

function firstSentence(about) {
  const text = about
    .split("\n")
    .map((line) => line.trim().replace(/^\/\/\/ ?/, ""))
    .join(" ")
    .trim();
  return (text.match(/^.*?[.:](?=\s|$)/)?.[0] ?? text).replace(/[.:]$/, "");
}

// Returns the value of an expression as a number or a bigint, undefined where it is more than arithmetic over
// constants.
function valueOf(text, file, find, depth = 0) {
  if (depth > 8) return undefined;
  const isFloat = /\d\.\d/.test(text);
  let isPlain = true;
  const plain = text
    .replace(/\/\/.*$/gm, "")
    .replace(/\bu64::MAX\b/g, String(2n ** 64n - 1n))
    .replace(/\b(?:[a-z_]+::)*([A-Z][A-Z0-9_]*)\b(?: as [a-z0-9]+)?/g, (_, name) => {
      const found = find(name, file);
      const value = found && valueOf(found.text, found.file, find, depth + 1);
      if (value === undefined) isPlain = false;
      return `(${value})`;
    })
    .replace(/(?<=\d)_(?=\d)/g, "")
    .replace(/(?<=\d)(?:u|i|f)(?:8|16|32|64|128|size)\b/g, "")
    .replace(/ as [a-z0-9]+/g, "");
  if (!isPlain || !/^[\d\s+\-*/()<.]+$/.test(plain)) return undefined;
  const exact = isFloat ? plain : plain.replace(/\d+/g, "$&n");
  return new Function(`return (${exact});`)();
}
