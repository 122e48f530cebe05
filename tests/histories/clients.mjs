// Clients of a real server whose calls are written down: counters, keys, sets, boards and a limit.
//
// Invariant: a client makes one call after the other, and never sends a call again but under its key.
import { NoAnswer, send } from "../crash/client.mjs";
import { between, oneOf, randomFrom } from "../crash/random.mjs";
import { pause } from "../crash/wait.mjs";

const COLOS = ["FRA", "IAD"];
// 4^24 is a whole number of every double, and a counter has few writes of unknown outcome.
const WRITES_MAX = 24;
const MEMBERS = ["ann", "bob"];
const CALLERS = ["eve", "tom"];
const RETRY_MS = 20;
const TRIES_MAX = 500;
const LIMIT = {
  limit: 20, window_seconds: 5, algorithm: "sliding-window", scope: "global", on_error: "closed", durability: "commit",
};
const BOARDS = [
  ["best", { keep: "best", scores: "integer" }], ["last", { keep: "set", scores: "integer" }],
  ["laps", { keep: "sum", scores: "integer" }],
];

/** Clients of one server, which may be killed and started while they run. */
export class Clients {
  #server;
  #history;
  #running = true;
  #calls = 0;
  // Each kind of counter has a number of its own, which rises once a counter is full.
  #counters = { plain: { number: 0, writes: 0 }, set: { number: 0, writes: 0 } };
  #sums = { number: 0, writes: 0 };
  #used = new Set();
  #clients;
  stats = { sent: 0, acknowledged: 0, unknown: 0 };

  /** server: with `urls`. history: of `written.mjs`. */
  constructor({ server, history, seed, count }) {
    this.#server = server;
    this.#history = history;
    const start = async () => {
      await this.#prepare();
      const one = (_, index) => this.#client(index, randomFrom(seed + index * 7_919));
      const clients = Array.from({ length: count }, one);
      await Promise.all(clients);
    };
    this.#clients = start();
    // It is awaited by `finish`.
    this.#clients.catch(() => {});
  }

  /** Resolves once all have ended, and what is there at rest was read. */
  async finish() {
    this.#running = false;
    await this.#clients;
    this.#history.note("rest");
    for (const path of this.#used) {
      for (const at of COLOS) await this.#call("GET", `${path}?consistency=strong`, { at });
    }
  }

  /** One call. Resolves to its answer; undefined where there is none, and "unsent" where nobody listened. */
  async #call(method, path, { body, at = COLOS[0], key } = {}) {
    const headers = key === undefined ? {} : { "idempotency-key": key };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const url = oneOf(Math.random, this.#server.urls);
    if (url === undefined) return "unsent";
    const end = this.#history.begin({ method, path, headers, body: text, at });
    let answer;
    try {
      answer = await send(url, method, path, { body: text, headers, colo: at });
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.unsent) answer = "unsent";
    }
    end(answer);
    if (method !== "GET") this.#note(answer);
    return answer;
  }

  #note(answer) {
    this.stats.sent += 1;
    if (answer !== undefined && answer.status < 300) this.stats.acknowledged += 1;
    else if (answer === undefined || answer.status >= 500) this.stats.unknown += 1;
  }

  async #insist(method, path, options) {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const answer = await this.#call(method, path, options);
      if (answer?.status < 500) return answer;
      await pause(RETRY_MS);
    }
    throw new Error(`${method} ${path} was not answered in ${TRIES_MAX} tries`);
  }

  async #prepare() {
    await this.#insist("PUT", "/limits/calls", { body: LIMIT });
    for (const [name, settings] of BOARDS) await this.#insist("PUT", `/boards/${name}`, { body: settings });
  }

  async #client(index, random) {
    const at = COLOS[index % COLOS.length];
    while (this.#running) {
      const kind = between(random, 1, 20);
      if (kind <= 9) await this.#write(random, at, kind <= 4);
      else if (kind <= 12) await this.#read(random, at);
      else if (kind <= 14) await this.#set(random, at);
      else if (kind <= 17) await this.#score(random, at);
      else await this.#check(random, at);
      if (this.#server.urls.length === 0) await pause(RETRY_MS);
    }
  }

  // The next amount of a counter that is not full yet.
  #next(known) {
    if (known.writes >= WRITES_MAX) Object.assign(known, { number: known.number + 1, writes: 0 });
    return { number: known.number, amount: 4 ** known.writes++ };
  }

  async #write(random, at, isKeyed) {
    const kind = oneOf(random, ["plain", "plain", "set"]);
    const { number, amount } = this.#next(this.#counters[kind]);
    const path = `/counters/${kind}-${number}`;
    this.#used.add(path);
    const call = between(random, 1, 4) === 1 ? "decrement" : "increment";
    const body = { delta: amount };
    if (!isKeyed) return void (await this.#call("POST", `${path}/${call}`, { body, at }));
    const key = `key-${this.#calls++}`;
    await this.#insist("POST", `${path}/${call}`, { body, at, key });
    const elsewhere = { body, at: oneOf(random, COLOS), key };
    if (between(random, 1, 3) === 1) await this.#call("POST", `${path}/${call}`, elsewhere);
  }

  async #set(random, at) {
    const path = `/counters/set-${this.#counters.set.number}`;
    this.#used.add(path);
    const value = 4 ** 25 * (1 + this.#calls++ % 3);
    await this.#call("PUT", `${path}/value`, { body: { value: Math.min(value, 2 ** 52) }, at });
  }

  async #read(random, at) {
    const paths = [...this.#used];
    if (paths.length === 0) return;
    const query = oneOf(random, ["", "?consistency=strong"]);
    await this.#call("GET", `${oneOf(random, paths.slice(-6))}${query}`, { at });
  }

  async #score(random, at) {
    const board = oneOf(random, ["best", "last", "laps"]);
    const { number, amount } = board === "laps" ? this.#next(this.#sums) : { number: 0 };
    const path = `/boards/${board}/members/${board === "laps" ? `sum-${number}` : oneOf(random, MEMBERS)}`;
    this.#used.add(path);
    if (board === "laps") {
      const key = `lap-${this.#calls++}`;
      return void (await this.#insist("POST", path, { body: { delta: amount }, at, key }));
    }
    await this.#call("POST", path, { body: { score: between(random, 1, 1_000_000) }, at });
  }

  async #check(random, at) {
    await this.#call("POST", `/limits/calls/${oneOf(random, CALLERS)}`, { body: { cost: between(random, 1, 3) }, at });
  }
}
