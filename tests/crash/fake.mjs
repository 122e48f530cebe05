// A counter service in memory with chosen faults, to see that the harness finds them.
//
// Its "disk" is what a kill leaves: a sound one writes before it answers.
import { once } from "node:events";
import { createServer } from "node:http";
import { RESTORED } from "./writes.mjs";

// How seldom a server that answers too early writes.
const LAZY_MS = 40;
// Every so many-th write is the one that is lost, or counted twice.
const EACH = 40;

const empty = () => ({ counters: {}, keys: {} });
const problem = (status, code) => [status, { code, status }];

// A reset that is done again is done behind every so many-th later write. Not once after a time: whether anybody wrote
// and read between it and the next operation was left to the machine.
const AGAIN_WRITES = 2;

/**
 * fault: undefined, "lazy", "forgetful", "loses", "doubles", "history", "reapplies", "resets again", "revives",
 * "imports again" or "restores again".
 */
export class Fake {
  #fault;
  #disk = empty();
  #memory;
  #server;
  #writing;
  #writes = 0;
  urls = [];

  constructor(fault) {
    this.#fault = fault;
  }

  async start() {
    this.#memory = structuredClone(this.#disk);
    if (this.#fault === "forgetful") this.#memory.keys = {};
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.urls = [`http://127.0.0.1:${this.#server.address().port}`];
    this.#writing = setInterval(() => this.#write(), LAZY_MS);
  }

  spawn() {
    void this.start();
  }

  async kill() {
    clearInterval(this.#writing);
    this.urls = [];
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #write() {
    this.#disk = structuredClone(this.#memory);
  }

  async #answer(request, response) {
    let body = "";
    for await (const chunk of request.on("error", () => {})) body += chunk;
    const server = this.#server;
    const [status, json, headers] = this.#carryOut(request, body);
    if (this.#fault !== "lazy") this.#write();
    // Between this and the answer a kill may come.
    await new Promise((done) => setTimeout(done, 2));
    if (server !== this.#server) return;
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(json));
  }

  #carryOut({ method, url, headers }, body) {
    const { pathname } = new URL(url, "http://fake");
    const [, first, name, call] = pathname.split("/");
    const id = decodeURIComponent(name ?? "");
    if (pathname === "/api/event") {
      return method === "POST" && body === "{}"
        ? problem(400, "invalid-body")
        : this.#once(headers["idempotency-key"], body, () => this.#queued(JSON.parse(body)));
    }
    if (pathname === "/events") return this.#once(headers["idempotency-key"], body, () => this.#events(body));
    if (first === "import") return this.#import(headers["idempotency-key"], body);
    if (first === "snapshots") return this.#snapshots(call, headers["idempotency-key"]);
    if (first !== "counters") return problem(404, "not-found");
    if (call === "value" || method === "PUT" || method === "DELETE") {
      const key = this.#fault === "reapplies" ? undefined : headers["idempotency-key"];
      return this.#once(key, method + url + body, () => this.#operate(id, method, call, body));
    }
    if (method === "POST") {
      return this.#once(headers["idempotency-key"], body, () => this.#count(id, call, JSON.parse(body)));
    }
    const counter = this.#memory.counters[id];
    if (counter === undefined) return problem(404, "counter-not-found");
    if (call === "history") {
      return [
        200,
        {
          exact: true,
          points: [
            [0, this.#fault === "history" ? counter.added - 1 : counter.added], [60, null],
          ],
        },
      ];
    }
    const estimate = Object.keys(counter.elements).length;
    return [
      200,
      { value: String(counter.added - counter.removed), exact: true, uniques: estimate === 0 ? null : { estimate } },
    ];
  }

  #once(key, body, carryOut) {
    if (key === undefined) return carryOut();
    const known = this.#memory.keys[key];
    if (known !== undefined && known.body !== body) return problem(422, "idempotency-key-reused");
    if (known !== undefined) return [known.status, known.json, { "idempotency-replayed": "true" }];
    const [status, json] = carryOut();
    this.#memory.keys[key] = { body, status, json };
    return [status, json];
  }

  #operate(id, method, call, body) {
    const counters = this.#memory.counters;
    if (method === "PUT" && call === undefined) return [200, {}];
    if (method !== "PUT" && counters[id] === undefined) return problem(404, "counter-not-found");
    const value = call === "value" ? JSON.parse(body).value : 0;
    if (method !== "DELETE") {
      const { elements, resets } = counters[id] ?? { elements: {} };
      const isAgain = resets || (call === "value" && value === 0 && this.#fault === "resets again");
      counters[id] = { added: value, removed: 0, elements, resets: isAgain, written: 0 };
    } else if (this.#fault !== "revives") delete counters[id];
    return [200, { id, value }];
  }

  #count(id, call, { delta, unique }) {
    const counter = (this.#memory.counters[id] ??= { added: 0, removed: 0, elements: {} });
    this.#writes += 1;
    const due = this.#writes % EACH === 0;
    const times = due && this.#fault === "loses" ? 0 : due && this.#fault === "doubles" ? 2 : 1;
    counter[call === "increment" ? "added" : "removed"] += times * delta;
    if (unique !== undefined) counter.elements[unique] = true;
    counter.written += 1;
    if (counter.resets && counter.written % AGAIN_WRITES === 0) {
      Object.assign(counter, { added: counter.base ?? 0, removed: 0 });
    }
    return [200, { id, delta, value: counter.added - counter.removed }];
  }

  #events(body) {
    const events = body.split("\n").map((line) => JSON.parse(line));
    for (const { id, delta, idempotency_key: key } of events) {
      this.#once(key && `${id}/${key}`, "", () => this.#count(id, "increment", { delta }));
    }
    return [200, { accepted: events.length, rejected: 0, errors: [] }];
  }

  #import(key, body) {
    const bring = ({ id, datacenters: [{ added, removed }] }) => {
      const counter = (this.#memory.counters[id] ??= { added: 0, removed: 0, elements: {} });
      Object.assign(counter, { added: counter.added + added, removed: counter.removed + removed });
      return [200, {}];
    };
    for (const line of body.split("\n").map((text) => JSON.parse(text))) {
      this.#once(this.#fault === "imports again" ? undefined : `${key}/${line.id}`, "", () => bring(line));
    }
    return [200, { refused: [] }];
  }

  #snapshots(call, key) {
    if (call === undefined) return [200, {}];
    const restore = () => {
      const resets = this.#fault === "restores again";
      for (const { id, base } of RESTORED) {
        this.#memory.counters[id] = {
          added: Number(base), removed: 0, elements: {}, resets, base: Number(base), written: 0,
        };
      }
      return [200, { refused: [], cursor: null }];
    };
    return this.#once(key, "", restore);
  }

  #queued({ key, increment }) {
    this.#count(key, "increment", { delta: increment });
    return [202, {}];
  }
}
