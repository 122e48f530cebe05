// How a command ends, and how it says so: exit codes, JSON, colours, tables.
//
// Invariants: what a program reads goes to stdout, what people are told besides to stderr; with `--json` stdout is JSON
// alone; colours go to terminals alone, and no other control character: lines of logs and answers are others' texts.
import { randomUUID } from "node:crypto";
import { styleText } from "node:util";

/** Exit codes. They are documented in docs/guide/command.md and never change their meaning. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  unavailable: 5,
  partly: 6,
  limited: 7,
  unknownCall: 8,
  interrupted: 130,
};

/** A command that cannot go on. Its message is one sentence that says who must do what. */
export class Failure extends Error {
  constructor(exit, message, more = {}) {
    super(message);
    this.exit = exit;
    this.more = more;
  }
}

/** Returns the exit code for an error of the client, or of a command. */
export function exitOf(error) {
  if (error instanceof Failure) return error.exit;
  const { status, code } = error;
  if (status === undefined) return EXIT.failed;
  if (status === 401 || status === 403) return EXIT.notAllowed;
  if (status === 404) return { "not-found": EXIT.unknownCall, unknown: EXIT.failed }[code] ?? EXIT.notFound;
  if (status === 429) return EXIT.limited;
  if (status === 0 || status >= 500) return EXIT.unavailable;
  return EXIT.failed;
}

// A control character, unless it ends a line or parts columns.
const CONTROL = /[^\n\t\P{Cc}]/gu;
const COLOR = /^\x1b\[\d{1,2}m/;

/** Returns a text whose control characters are written out, so that it does no more to a terminal than colours do. */
export const visible = (text, hasColors = false) =>
  String(text).replace(CONTROL, (sign, at, all) => {
    const isColor = hasColors && COLOR.test(all.slice(at, at + 5));
    return isColor ? sign : `\\x${sign.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });

// Strings, so that digits in them are left alone, and numbers.
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
// What marks the digits of a large number in a text: Node 20 has neither the source of a number nor JSON.rawJSON.
const MARK = `digits-${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

/** Returns the value of a JSON text. A whole number whose digits a number of JavaScript cannot have is a bigint. */
export function parsed(text) {
  const isLarge = (token) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
  const marked = text.replace(TOKENS, (token) => (isLarge(token) ? `"${MARK}${token}"` : token));
  const isMarked = (value) => typeof value === "string" && value.startsWith(MARK);
  return JSON.parse(marked, (_, value) => (isMarked(value) ? BigInt(value.slice(MARK.length)) : value));
}

/** Returns the JSON of a value, with all digits of a bigint. */
export const jsonText = (value) =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? MARK + one : one))?.replace(MARKED, "$1");

/** Where a command writes: `json(value)`, `line(text)` to stdout, `note(text)` to stderr, `paint(style, text)`. */
export function screen({ json = false, color = true } = {}) {
  const painted = color && process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== "dumb";
  const write = (stream, text) => stream.write(`${text}\n`);
  return {
    isJson: json,
    hasColors: painted,
    isTerminal: process.stdout.isTTY === true,
    json: (value) => write(process.stdout, jsonText(value)),
    line: (text = "") => json || write(process.stdout, visible(text, painted)),
    note: (text) => write(process.stderr, visible(text, painted)),
    paint: (style, text) => (painted ? styleText(style, String(text), { validateStream: false }) : String(text)),
    /** Prints a value as JSON, or else what `show` makes of it. */
    show(value, show) {
      if (json) return this.json(value);
      const text = show(value);
      if (text !== undefined) this.line(text);
    },
  };
}

/** Returns rows as aligned columns. `right`: the columns that hold numbers. */
export function table(rows, right = []) {
  const widths = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, [...String(cell)].length)));
  const pad = (cell, at) => {
    const space = " ".repeat(widths[at] - [...String(cell)].length);
    return right.includes(at) ? space + cell : cell + space;
  };
  return rows.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}

/** Returns a whole number with separators, at any size. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? String(value) : BigInt(value).toLocaleString("en");
}
