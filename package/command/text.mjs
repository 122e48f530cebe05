// Text files that people give to the command: their marks and their encoding.
import { readFileSync } from "node:fs";
import { EXIT, Failure } from "./outcome.mjs";

/** What is said of a text in UTF-16, behind its name. */
export const UTF16 = "is UTF-16, which is not read here: convert it by `iconv -f UTF-16 -t UTF-8`";

/**
 * Returns whether a text that begins with these bytes is UTF-16: by its mark, or because each other of its first bytes
 * is zero, as of Latin letters.
 */
export function isUtf16([a, b, c, d]) {
  const isMarked = (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
  const hasZeros = d !== undefined && ((a && b === 0 && c && d === 0) || (a === 0 && b && c === 0 && d));
  return isMarked || Boolean(hasZeros);
}

/** Returns the text of bytes in UTF-8, without a byte order mark. `name` is that of the file. */
export function textOf(bytes, name) {
  if (isUtf16(bytes)) throw new Failure(EXIT.failed, `${name} ${UTF16}`);
  // A decoder leaves the mark out.
  return new TextDecoder().decode(bytes);
}

/** Returns the text of a file, or of standard input for `-`. */
export function readText(name) {
  let bytes;
  try {
    bytes = readFileSync(name === "-" ? 0 : name);
  } catch (error) {
    const exit = error.code === "ENOENT" ? EXIT.notFound : EXIT.failed;
    throw new Failure(exit, `${name} cannot be read (${error.code ?? error.message})`);
  }
  return textOf(bytes, name === "-" ? "standard input" : name);
}
