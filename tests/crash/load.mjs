// Clients that write, retry and note in the books what they know.
//
// Invariants: an unkeyed write is sent once more only if nobody listened; one of unknown outcome stays in
// doubt. A keyed write is sent until it is acknowledged, by any datacenter. What the server must never answer
// becomes a fault, which ends no client.
import { Book } from "./books.mjs";
import { NoAnswer, look, send } from "./client.mjs";
import { OperatedBook } from "./operated.mjs";
import { oneOf, randomFrom } from "./random.mjs";
import { pause } from "./wait.mjs";
import { RESTORED, altered, isOperated, writesOf } from "./writes.mjs";

const COLOS = ["FRA", "IAD", "SYD"];
// How often a client reads instead of writing, and sends a write again that it knows is acknowledged.
const READ_SHARE = 0.06;
const REPEAT_SHARE = 0.08;
// Retries of a refused write: soon, because the kills come soon.
const RETRY_MS = 10;
// What a client knows to be acknowledged and may send again.
const DONE_MAX = 400;
const FAULTS_TOLD_MAX = 12;
// How long the last retries may take once nobody kills any more.
export const FINISH_MS_MAX = 30_000;
// Answers of a keyed write that its repetition must give again.
const REPEATED = ["id", "delta", "value", "exact", "version", "accepted", "rejected"];
const RETRIED_CODES = ["unavailable", "overloaded"];

const isQueued = ({ path }) => path === "/api/event";

/** The clients of one server, which is killed and started while they run. */
export class Load {
  #server;
  #books = new Map();
  #make;
  #gate;
  #open;
  #ending = false;
  #deadline = Infinity;
  #clients;
  #done = [];
  #faults = new Map();

  /**
   * server: with `urls`. clients: how many. begun: unix seconds before the first write. load: which writes; date: of a
   * snapshot that some restore.
   */
  constructor({ server, seed, clients, hasQueue, begun, load, date }) {
    this.#server = server;
    this.#make = writesOf({ hasQueue, load, known: { begun, date } });
    this.begun = begun;
    this.incarnation = 0;
    this.inFlight = 0;
    this.stats = {
      sent: 0, acknowledged: 0, retried: 0, replayed: 0, inDoubt: 0, operations: 0, ended: 0, refused: 0, repeated: 0,
      reads: 0,
    };
    this.halt();
    this.#clients = Array.from({ length: clients }, (_, index) =>
      this.#client(index, `${seed}/${begun}/${index}`, randomFrom(seed + index * 7_919)),
    );
  }

  /** What was answered that never may be, each with how often. */
  get faults() {
    return [...this.#faults].map(([what, times]) => (times > 1 ? `${what} (${times} times)` : what));
  }

  get books() {
    return [...this.#books.values()];
  }

  /** Lets clients send. */
  resume() {
    this.#open();
  }

  /** The server was killed: nothing that was sent to it is under way any more. */
  killed() {
    for (const book of this.#books.values()) book.killed();
  }

  /** Holds clients back: they wait before their next request. */
  halt() {
    this.#gate = new Promise((open) => {
      this.#open = open;
    });
  }

  /** Resolves once every client is done with its last write. Errors: a fault of a client's program. */
  async finish() {
    this.#ending = true;
    this.#deadline = performance.now() + FINISH_MS_MAX;
    await Promise.all(this.#clients);
  }

  fault(what) {
    if (this.#faults.size < FAULTS_TOLD_MAX || this.#faults.has(what)) {
      this.#faults.set(what, (this.#faults.get(what) ?? 0) + 1);
    }
  }

  #book(id) {
    const known = this.#books.get(id);
    if (known !== undefined) return known;
    const book = isOperated(id) ? new OperatedBook(id) : new Book(id);
    const first = RESTORED.find((one) => one.id === id);
    // It was set before the first client wrote.
    if (first !== undefined) book.operate(first).acknowledge();
    this.#books.set(id, book);
    return book;
  }

  async #client(index, name, random) {
    const home = COLOS[index % COLOS.length];
    for (let number = 0; ; number += 1) {
      await this.#gate;
      if (this.#ending) return;
      const what = random();
      if (what < READ_SHARE) {
        await this.#read(random, home);
      } else if (what < READ_SHARE + REPEAT_SHARE && this.#done.length > 0) {
        await this.#repeat(random, oneOf(random, this.#done));
      } else {
        await this.#write(random, home, this.#make(random, `${name}/${number}`, this.incarnation));
      }
    }
  }

  // Resolves to the answer, or to undefined where the outcome is unknown.
  async #send(random, colo, { method = "POST", path, body, key }) {
    for (;;) {
      await this.#gate;
      const url = oneOf(random, this.#server.urls);
      const headers = {
        "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": `"${key}"` }),
      };
      this.inFlight += 1;
      try {
        if (url !== undefined) return await send(url, method, path, { body, headers, colo });
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        if (!error.unsent) return undefined;
      } finally {
        this.inFlight -= 1;
      }
      if (performance.now() > this.#deadline) return undefined;
      await pause(RETRY_MS);
    }
  }

  async #write(random, home, write) {
    const entries = write.parts.map((part) => this.#book(part.id).begin(part));
    for (const operated of write.operates ?? []) entries.push(this.#book(operated.id).operate(operated));
    const mayRepeat = write.key !== undefined || write.ids === true;
    this.stats.sent += 1;
    for (let tries = 0; ; tries += 1) {
      if (tries > 0) this.stats.retried += 1;
      const colo = tries > 0 && random() < 0.5 ? oneOf(random, COLOS) : home;
      const answer = await this.#send(random, colo, write);
      if (answer?.headers["idempotency-replayed"] === "true") this.stats.replayed += 1;
      const failed = this.#failedOf(write, answer);
      if (failed.length > 0 && mayRepeat) {
        if (performance.now() > this.#deadline) {
          this.fault(`${write.path}: a keyed write was not acknowledged within ${FINISH_MS_MAX / 1000} s: ${answer?.text ?? "no answer"}`);
          return entries.forEach((entry) => entry.doubt());
        }
        if (answer !== undefined) await pause(RETRY_MS);
        continue;
      }
      const ending = endingOf(write, answer);
      if (ending !== undefined) {
        this.stats.ended += 1;
        return entries.forEach((entry) => entry[ending]());
      }
      // A restore does not say which datacenters have not answered.
      const isPending = write.isBulk || answer?.json?.pending_datacenters?.length > 0;
      entries.forEach((entry, index) => (failed.includes(index) ? entry.doubt() : entry.acknowledge({ isPending })));
      if (failed.length > 0) this.stats.inDoubt += 1;
      else {
        this.stats.acknowledged += 1;
        if (write.parts.length === 0) this.stats.operations += 1;
      }
      // A restore that is sent again much later is another one; lines of an import count once however late they come
      // again.
      if (write.key !== undefined && (!write.isBulk || write.parts.length > 0)) {
        this.#keep(random, { write, first: answer });
      }
      return undefined;
    }
  }

  // The parts of a write that are not acknowledged, by number.
  #failedOf(write, answer) {
    const all = write.parts.length === 0 ? [0] : write.parts.map((_, index) => index);
    if (answer === undefined) return all;
    if (answer.status === 503) {
      this.stats.refused += 1;
      return all;
    }
    if (write.isBulk && [200, 202].includes(answer.status)) {
      const { refused = [], cursor } = answer.json;
      for (const { code, detail } of refused) if (!RETRIED_CODES.includes(code)) this.fault(`${generic(write.path)} refused a counter: ${code} ${detail}`);
      // Under its key it is sent whole again.
      return refused.length > 0 || (cursor ?? null) !== null ? all : [];
    }
    if (endingOf(write, answer) !== undefined || (write.parts.length === 0 && [200, 201].includes(answer.status))) {
      return [];
    }
    if (answer.status !== 200 && !(answer.status === 202 && write.path === "/api/event")) {
      this.fault(`${write.method ?? "POST"} ${write.path} was answered ${answer.status} ${answer.text.slice(0, 300)}`);
      return all;
    }
    const errors = answer.json?.errors ?? [];
    for (const { code, detail } of errors) {
      if (!RETRIED_CODES.includes(code)) {
        this.fault(`a line was refused: ${code} ${detail}`);
      }
    }
    return errors.map(({ line }) => line - 1);
  }

  #keep(random, done) {
    if (this.#done.length < DONE_MAX) this.#done.push(done);
    else this.#done[Math.floor(random() * DONE_MAX)] = done;
  }

  /** Sends a write again that is known to be acknowledged: it must get the first answer, and count nothing. */
  async #repeat(random, { write, first }) {
    const answer = await this.#send(random, oneOf(random, COLOS), write);
    if (
      answer === undefined ||
      answer.status === 503 ||
      answer.json?.errors?.some(({ code }) => RETRIED_CODES.includes(code))
    ) {
      return;
    }
    this.stats.repeated += 1;
    if (endingOf(write, answer) !== undefined) return;
    if (answer.status !== first.status) return this.fault(`a repeated write was answered ${answer.status} ${answer.text.slice(0, 300)}`);
    // A queued write is answered before its key is looked at, and an import looks at keys of its lines: totals alone
    // tell that it counted once.
    if (isQueued(write) || write.isBulk) return undefined;
    if (answer.headers["idempotency-replayed"] !== "true") this.fault(`POST ${generic(write.path)}: a repeated write was not answered Idempotency-Replayed: true`);
    else this.stats.replayed += 1;
    const other =
      REPEATED.find((name) => answer.json?.[name] !== first.json?.[name]) ??
      (write.parts.length === 0 && answer.text !== first.text ? "state" : undefined);
    if (other !== undefined) this.fault(`POST ${generic(write.path)}: a repeated write was answered another ${other}`);
  }

  /** At rest: repeats a sample of what was acknowledged, as it was and with another body under the same key. */
  async repeatSample(random, count) {
    for (let index = 0; index < Math.min(count, this.#done.length); index += 1) {
      const done = oneOf(random, this.#done);
      await this.#repeat(random, done);
      if (done.write.isBulk) continue;
      const answer = await this.#send(random, oneOf(random, COLOS), altered(done.write));
      // Of a body with several lines each counter refuses its own.
      const lines = answer?.json?.errors ?? [];
      const isOver = answer !== undefined && endingOf(done.write, answer) !== undefined;
      const isRefused =
        isOver ||
        (lines.length === done.write.parts.length && lines.every(({ code }) => code === "idempotency-key-reused"));
      // A queued one becomes a dead letter.
      if (answer?.status !== 422 && !isRefused && !isQueued(done.write)) this.fault(`POST ${generic(done.write.path)}: another body under a used key was answered ${answer?.status} and not 422`);
    }
  }

  // A strong read in the middle of it all, held against what its reader knew.
  async #read(random, colo) {
    const book = oneOf(random, this.books);
    const url = oneOf(random, this.#server.urls);
    if (book === undefined || url === undefined) return;
    const before = book.beginRead();
    try {
      const answer = await look(url, book.id, this.begun, colo);
      this.stats.reads += 1;
      if (answer === undefined || !answer.exact) return;
      const wrong = book.wrongOf(before, answer.value, `${book.id} under load: the value`);
      if (wrong !== undefined) this.fault(wrong);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
    }
  }
}

// How a write ended that was refused for good: "end" where it may have been counted in what was deleted since, or done
// before that; "drop" where it surely was not; undefined where it was not refused so.
function endingOf({ operates, parts }, { status, json } = {}) {
  const id = operates?.[0].id ?? parts[0]?.id;
  if (!isOperated(id)) return undefined;
  if (status === 409 && json?.code === "counter-ended") return "end";
  if (status === 404 && json?.code === "counter-not-found" && operates !== undefined) return "end";
  return undefined;
}

// One sentence for all counters of a kind.
const generic = (path) => path.replace(/^\/counters\/[^/]+/, "/counters/{id}");
