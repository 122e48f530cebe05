// A folder as one file: a tar archive (ustar), compressed by brotli, which Node has both ways. `brotli -d | tar x`
// reads it too.
//
// Invariant: the same files make the same archive: names are sorted, and neither times nor owners are kept.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";

const BLOCK_BYTES = 512;
const NAME_BYTES = 100;
// Where a header's fields begin. Source: POSIX.1-2017, pax, "ustar Interchange Format".
const [SIZE_AT, CHECKSUM_AT, MAGIC_AT] = [124, 148, 257];

const octal = (number, digits) => `${number.toString(8).padStart(digits, "0")}\0`;

function header(name, bytes) {
  if (Buffer.byteLength(name) > NAME_BYTES) {
    // Names of objects are 64 digits long: what stands before them goes into the field for prefixes.
    const cut = name.lastIndexOf("/");
    return fields(name.slice(cut + 1), name.slice(0, cut), bytes);
  }
  return fields(name, "", bytes);
}

function fields(name, prefix, bytes) {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.write(name, 0, NAME_BYTES);
  block.write(octal(0o644, 7) + octal(0, 7) + octal(0, 7) + octal(bytes, 11) + octal(0, 11), NAME_BYTES);
  block.fill(" ", CHECKSUM_AT, CHECKSUM_AT + 8);
  block.write("0", CHECKSUM_AT + 8);
  block.write("ustar\x0000", MAGIC_AT);
  block.write(prefix, 345, 155);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 6)} `, CHECKSUM_AT);
  return block;
}

const textAt = (block, at, length) => block.toString("utf8", at, at + length).split("\0", 1)[0];

/** Returns the files below a folder as one compressed archive. */
export function pack(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
  const parts = files.flatMap((name) => {
    const content = readFileSync(join(folder, name));
    return [header(name, content.length), content, Buffer.alloc(-content.length & (BLOCK_BYTES - 1))];
  });
  const tar = Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES)]);
  return brotliCompressSync(tar, {
    params: {
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
      [constants.BROTLI_PARAM_SIZE_HINT]: tar.length,
    },
  });
}

/** Writes the files of an archive into a folder. */
export function unpack(archive, folder) {
  const tar = brotliDecompressSync(archive);
  for (let at = 0; tar[at] !== undefined && tar[at] !== 0; ) {
    const block = tar.subarray(at, at + BLOCK_BYTES);
    const bytes = Number.parseInt(textAt(block, SIZE_AT, 12), 8);
    const path = join(folder, textAt(block, 345, 155), textAt(block, 0, NAME_BYTES));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, tar.subarray(at + BLOCK_BYTES, at + BLOCK_BYTES + bytes));
    at += BLOCK_BYTES + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }
}
