// Counters, members of boards whose scores are sums, and numbers of Redis's dialect: what a history's calls do to them.
import { parsed, wholeOf } from "./read.mjs";
import { Clearing, Register, Write } from "./register.mjs";

const lastOf = (call) => call.path.at(-1);

/** All registers of a history. */
export class Values {
  #registers = new Map();
  // Writes and clearings by what they share their key with.
  #byKey = new Map();
  #answers = new Map();
  #faults = [];
  #head;
  #rest;
  // Boards whose scores are sums.
  #sums = new Set();
  unjudged = 0;

  constructor({ head, rest }) {
    this.#head = head;
    this.#rest = rest;
  }

  register(kind, id) {
    const name = `${kind} ${id}`;
    if (!this.#registers.has(name)) this.#registers.set(name, new Register(name, this.#head.clocks_ms));
    return this.#registers.get(name);
  }

  /** Notes a call. Returns whether the contract of values says anything of it. */
  add(call) {
    const [noun, id, verb] = call.path;
    if (noun === "counters" && id !== undefined && !id.includes("*")) return this.#onCounter(call, id, verb);
    if (noun === "events" && call.method === "POST") return this.#onLines(call);
    if (noun === "ingest" && call.query.get("format") === "ndjson") return this.#onLines(call);
    if (noun === "api" && id === "event") return this.#onEvent(call);
    if (noun === "boards" && verb === "members" && call.path.length === 4) return this.#onMember(call, id);
    if (noun === "boards" && verb === undefined) return this.#onBoard(call, id);
    if (noun === "redis") return this.#onCommand(call);
    return false;
  }

  /** Returns all that is wrong, as {line, why}. */
  violations() {
    return [...this.#faults, ...[...this.#registers.values()].flatMap((register) => register.violations())];
  }

  get judged() {
    return [...this.#registers.values()].reduce((sum, { judged }) => sum + judged, 0);
  }

  get undecided() {
    return [...this.#registers.values()].reduce((sum, { undecided }) => sum + undecided, 0);
  }

  #onCounter(call, id, verb) {
    const register = this.register("counter", id);
    if (call.method === "POST" && ["increment", "decrement"].includes(verb)) return this.#onWrite(call, register, verb);
    if (call.method === "GET" && verb === undefined) return this.#onRead(call, register);
    if (call.method === "PUT" && verb === "value") {
      return this.#onClearing(call, register, { kind: "set", value: wholeOf(call.body?.value) ?? 0n });
    }
    if (call.method === "DELETE" && verb === undefined) return this.#onClearing(call, register, { kind: "delete" });
    if (call.method === "PUT" && verb === undefined) return this.#onSettings(call, register);
    return false;
  }

  #onWrite(call, register, verb) {
    const size = wholeOf(call.body?.delta ?? 1) ?? 0n;
    const write = this.#write(call, register, verb === "increment" ? size : -size, verb);
    write.ifMatch = call.ifMatch;
    if (call.type === "ok") this.#shows(call, register, call.answer?.value, { own: write, begun: write.begun });
    return true;
  }

  // The write of a call; calls of one key and one body are one.
  #write(call, register, amount, verb, isQueued = false) {
    const what = `${register.name} ${verb} ${amount}`;
    const make = () => new Write({ amount, begun: call.begun, isQueued, what });
    if (call.key === undefined) return this.#attempt(make(), call, register.writes);
    const name = `${register.name} ${call.key}`;
    const write = this.#keyed(`${name} ${verb} ${amount}`, make);
    this.#attempt(write, call, register.writes);
    if (call.type === "ok" && !isQueued) this.#answeredAlike(name, write, call);
    return write;
  }

  #keyed(name, make) {
    if (!this.#byKey.has(name)) this.#byKey.set(name, make());
    return this.#byKey.get(name);
  }

  #attempt(write, call, list) {
    if (!list.includes(write)) list.push(write);
    write.attempt(call.type, call.ended);
    return write;
  }

  // A key counts one write, and each answer to it is the first one.
  #answeredAlike(name, write, call) {
    const first = this.#answers.get(name);
    const text = JSON.stringify(call.answer);
    if (first === undefined) return void this.#answers.set(name, { write, text });
    const line = call.ended.index + 1;
    if (first.write !== write) this.#faults.push({ line, why: `${name}: two different writes are done under one key` });
    else if (first.text !== text) {
      this.#faults.push({ line, why: `${name} is answered in two ways: ${first.text}, then ${text}` });
    }
  }

  #shows(call, register, shown, more = {}) {
    const value = wholeOf(shown);
    if (value === undefined) return;
    const { exact, as_of: asOf, version } = call.answer;
    register.view({
      value, version, isExact: exact === true, asOf, begun: call.begun, ended: call.ended,
      atLeast: call.query.get("at_least") ?? undefined, ...more,
    });
  }

  #onRead(call, register) {
    const isMissing = call.type === "fail" && call.answer?.code === "counter-not-found";
    if (call.type === "ok") this.#shows(call, register, call.answer?.value);
    if (isMissing) {
      const isExact = call.query.get("consistency") === "strong";
      register.view({ value: 0n, isExact, begun: call.begun, ended: call.ended });
    }
    return true;
  }

  #onClearing(call, register, { kind, value }) {
    const make = () => new Clearing({ kind, value, begun: call.begun, what: kind });
    const one = call.key === undefined ? make() : this.#keyed(`${register.name} ${call.key} ${kind} ${value}`, make);
    const isRepeat = register.clearings.includes(one);
    this.#attempt(one, call, register.clearings);
    if (call.type !== "ok") return true;
    const isPending = (call.answer?.pending_datacenters?.length ?? 0) > 0;
    if ((isRepeat || isPending) && kind !== "delete") one.isLoose = true;
    // The answer to a repeat is that of then.
    if (call.key === undefined) this.#shows(call, register, call.answer?.value);
    return true;
  }

  #onSettings(call, register) {
    const { ttl_seconds: ttl, ttl_mode: mode, floor } = call.body ?? {};
    if (ttl !== undefined && call.type !== "fail") {
      const ttlMs = mode === "sliding" ? ttl * 1_000 : 0;
      const one = new Clearing({ kind: "expiry", ttlMs, begun: call.begun, what: "its end" });
      one.attempt("info", call.ended);
      register.clearings.push(one);
    }
    const make = () =>
      Object.assign(new Write({ amount: 0n, begun: call.begun, what: "a floor" }), { floor: wholeOf(floor) });
    const put = call.key === undefined ? make() : this.#keyed(`${register.name} ${call.key} settings`, make);
    this.#attempt(put, call, register.floors);
    if (call.type === "ok" && call.key === undefined) this.#shows(call, register, call.answer?.value);
    return true;
  }

  // Lines of one body, each of which is a write to a counter. The report names those that were not counted.
  #onLines(call) {
    if (typeof call.text !== "string") return false;
    const errors = call.answer?.errors ?? [];
    const isListed = call.type !== "ok" || (call.answer?.rejected ?? errors.length) === errors.length;
    const lines = call.text.split("\n").filter((line) => line !== "").map(parsed);
    for (const [place, { id, delta = 1 }] of lines.entries()) {
      if (id === undefined) continue;
      const register = this.register("counter", id);
      const make = () => new Write({ amount: wholeOf(delta), begun: call.begun, what: `line ${place + 1}` });
      const write = call.key === undefined ? make() : this.#keyed(`body ${call.key} ${place} ${id} ${delta}`, make);
      if (!register.writes.includes(write)) register.writes.push(write);
      write.attempt(outcomeOfLine(call, errors.find(({ line }) => line === place + 1), isListed), call.ended);
    }
    return true;
  }

  #onEvent(call) {
    const { key, increment = 1 } = call.body ?? {};
    if (call.method !== "POST" || key === undefined) return false;
    this.#write(call, this.register("counter", key), wholeOf(increment), "event", true);
    return true;
  }

  #onBoard(call, id) {
    if (call.method === "PUT" && call.body?.keep === "sum") this.#sums.add(id);
    return call.method === "PUT";
  }

  #onMember(call, board) {
    if (!this.#sums.has(board)) return false;
    const register = this.register("score", `${board}/${lastOf(call)}`);
    if (call.method === "DELETE") return this.#onClearing(call, register, { kind: "delete" });
    if (call.method === "GET") {
      if (call.type === "ok") this.#shows(call, register, call.answer?.score);
      return true;
    }
    const write = this.#write(call, register, wholeOf(call.body?.delta) ?? 0n, "score");
    // The answer to a repeat is that of then.
    if (call.type === "ok" && call.key === undefined) this.#shows(call, register, call.answer?.score, { own: write });
    return true;
  }

  #onCommand(call) {
    const [command, key, amount] = Array.isArray(call.body) ? call.body : [];
    const register = this.register("number", key);
    const result = call.type === "ok" && call.answer?.error === undefined ? call.answer?.result : undefined;
    const shows = (value, more = {}) =>
      register.view({ value, isExact: true, begun: call.begun, ended: call.ended, ...more });
    if (command === "GET") {
      if (result !== undefined) shows(wholeOf(result) ?? 0n);
      return true;
    }
    if (command !== "INCRBY") return false;
    const type = call.type === "ok" && result === undefined ? "info" : call.type;
    const write = this.#write({ ...call, type }, register, wholeOf(amount), "INCRBY");
    if (result !== undefined) shows(wholeOf(result), { own: write });
    return true;
  }
}

function outcomeOfLine({ type, status }, error, isListed) {
  if (type !== "ok") return type;
  if (error === undefined) return isListed && status < 300 ? "ok" : "info";
  if (error.code === "overloaded") return "fail";
  return ["unavailable", "counter-ended"].includes(error.code) ? "info" : "fail";
}
