// Takes the names of functions out of a Wasm module: a tenth of it, gzipped.
//
//   node scripts/strip-names.mjs <module with names> <module without>
//
// Invariant: sections that are taken out lie behind the code, so a stack trace's offsets and function numbers are those
// of the module with names too, which tells what they are.
import { readFileSync, writeFileSync } from "node:fs";

const HEADER_BYTES = 8;
const [CUSTOM, CODE] = [0, 10];
const LEFT_OUT = ["name", "producers"];

// Returns an unsigned LEB128 number and where it ends.
function number(bytes, at) {
  let value = 0;
  for (let place = 0; ; place += 1) {
    const byte = bytes[at + place];
    value += (byte & 0x7f) * 128 ** place;
    if (byte < 0x80) return [value, at + place + 1];
  }
}

/** Returns a module without its names. Errors: where one of them stands before the code. */
export function withoutNames(module) {
  const parts = [module.subarray(0, HEADER_BYTES)];
  let isCodeSeen = false;
  for (let at = HEADER_BYTES; at < module.length; ) {
    const kind = module[at];
    const [length, body] = number(module, at + 1);
    const end = body + length;
    isCodeSeen ||= kind === CODE;
    const [name_bytes, name_at] = kind === CUSTOM ? number(module, body) : [0, body];
    if (LEFT_OUT.includes(module.toString("utf8", name_at, name_at + name_bytes))) {
      if (!isCodeSeen) throw new Error("names stand before the code: without them its offsets would be others");
    } else {
      parts.push(module.subarray(at, end));
    }
    at = end;
  }
  return Buffer.concat(parts);
}

if (process.argv[1] === import.meta.filename) {
  const [from, to] = process.argv.slice(2);
  writeFileSync(to, withoutNames(readFileSync(from)));
}
