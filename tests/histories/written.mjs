// Writes a history, as clients see it: what simulation/src/history.rs does for worlds.
//
// Invariant: a process has one call under way at most, and makes no other once an outcome is unknown.
import { closeSync, openSync, writeSync } from "node:fs";

export const BYTES_MAX = 4_000_000;
const BODY_BYTES_MAX = 8_192;
const HEADERS = ["idempotency-key", "if-match"];

const bodyOf = (text) => (text.length <= BODY_BYTES_MAX ? text : { bytes: text.length });

function typeOf({ status, json }) {
  if (status < 300 || Array.isArray(json?.errors)) return "ok";
  if (status < 500 || (status === 503 && json?.code === "overloaded")) return "fail";
  return "info";
}

/** A history that grows line by line. write: takes a line. now: nanoseconds since it began. */
export class History {
  #write;
  #now;
  #index = 0;
  #bytes = 0;
  #processes = 0;
  #idle = [];

  constructor({ write, now, head }) {
    this.#write = write;
    this.#now = now;
    this.note("begin", { form: 1, ...head });
  }

  /** A history in a file, whose clock is this process's. head: what a checker must know. */
  static toFile(path, head) {
    const file = openSync(path, "w");
    const [began_ms, began] = [Date.now(), performance.now()];
    const now = () => Math.round((performance.now() - began) * 1e6);
    const history = new History({ write: (line) => writeSync(file, line), now, head: { began_ms, ...head } });
    history.close = () => closeSync(file);
    return history;
  }

  #line(fields) {
    const line = `${JSON.stringify({ index: this.#index++, time: this.#now(), ...fields })}\n`;
    this.#bytes += line.length;
    this.#write(line);
  }

  /** Notes what is no call, as Jepsen's nemesis does. */
  note(f, value = null) {
    this.#line({ process: "nemesis", type: "info", f, value });
  }

  /**
   * A call begins: {method, path, headers, body, at}. Returns what takes its answer: nothing where there is none, and
   * "unsent" where nobody listened.
   */
  begin({ method, path, headers = {}, body, at }) {
    if (this.#bytes > BYTES_MAX) return () => {};
    const process = this.#idle.pop() ?? this.#processes++;
    const kept = Object.entries(headers).filter(([name]) => HEADERS.includes(name.toLowerCase()));
    const value = { at, ...Object.fromEntries(kept.map(([name, text]) => [name.toLowerCase(), text])) };
    if (typeof body === "string") value.body = bodyOf(body);
    const f = `${method} ${path}`;
    this.#line({ process, type: "invoke", f, value });
    return (answer) => {
      const type = answer === undefined ? "info" : answer === "unsent" ? "fail" : typeOf(answer);
      if (type !== "info") this.#idle.push(process);
      const shown = answer?.status === undefined ? { error: answer ?? "no answer" }
        : { status: answer.status, body: bodyOf(answer.text) };
      this.#line({ process, type, f, value: shown });
    };
  }
}
