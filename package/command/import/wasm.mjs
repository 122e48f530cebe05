// The one way to the crate that decides what an import does: crates/tally-import as Wasm. A call is JSON and bytes, and
// so is its outcome; the calls are those of crates/tally-logs-wasm/src/calls.rs.
//
// Invariant: what is decided depends on the calls and on what `host` answers, nothing else.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EXIT, Failure } from "../outcome.mjs";
import { ROOT } from "../place.mjs";

const NONE = new Uint8Array(0);
const decoder = new TextDecoder();
let exports;
// What answers the questions of the call at work, and the first of them that failed.
let host;
let failure;

const bytesAt = (at, length) => new Uint8Array(exports.memory.buffer, at, length);

function put(place, json, bytes) {
  const head = Buffer.from(`${JSON.stringify(json) ?? null}\n`);
  const at = exports[place](head.length + bytes.length);
  const room = bytesAt(at, head.length + bytes.length);
  room.set(head);
  room.set(bytes, head.length);
}

function ask(question, length, at, bytesLength) {
  const [what, ...words] = JSON.parse(decoder.decode(bytesAt(question, length)));
  let reply = {};
  try {
    reply = host[what](words, bytesAt(at, bytesLength)) ?? {};
  } catch (error) {
    failure ??= error;
  }
  put("reply", reply.json ?? null, reply.bytes ?? NONE);
}

function load() {
  try {
    const module = new WebAssembly.Module(readFileSync(join(ROOT, "build/logs.wasm")));
    exports = new WebAssembly.Instance(module, { env: { ask } }).exports;
  } catch (error) {
    const why = error.code ?? error.message;
    throw new Failure(EXIT.failed, `build/logs.wasm, which reads logs, cannot be used (${why}): run make build`);
  }
}

/** Carries out a call: `{ json, bytes }`. `answers` has what answers its questions: `name(words, bytes)`, the same. */
export function call(name, args = {}, bytes = NONE, answers = {}) {
  if (exports === undefined) load();
  [host, failure] = [answers, undefined];
  put("input", { call: name, ...args }, bytes);
  exports.call();
  if (failure !== undefined) throw failure;
  const [json, rest] = [0, 1].map((which) => bytesAt(exports.output(which), exports.output_length(which)));
  const outcome = JSON.parse(decoder.decode(json));
  if (outcome?.failure !== undefined) throw new Failure(outcome.exit, outcome.failure);
  const { broken } = outcome ?? {};
  if (broken !== undefined) throw new Error(`the call ${name} is none of build/logs.wasm (${broken}): run make build`);
  return { json: outcome, bytes: Buffer.from(rest) };
}
