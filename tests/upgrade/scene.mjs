// How the fixture's writes and reads are sent, and what of an answer is kept to be compared.
import { CF_HEADER } from "../crash/client.mjs";

/** A user agent that is no bot's. */
export const BOT_FREE = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
export const OCTETS = { "content-type": "application/octet-stream" };

/** A request's body as JSON, beside what else is told of the request. */
export const json = (value, more = {}) => ({ body: JSON.stringify(value), ...more });
/** The same request under a key. */
export const keyed = (key, more = {}) => ({ ...more, headers: { "idempotency-key": key, ...more.headers } });

/**
 * One server, and the requests that are sent to it. Each must be answered with the `status` that is told, else with
 * success.
 */
export class Scene {
  #url;
  /** What was sent by `keep`, with the answers. */
  kept = [];

  constructor(url) {
    this.#url = url;
  }

  /** Resolves to an answer, whatever its status is. */
  async ask(method, path, { colo = "FRA", body, headers } = {}) {
    const init = { method, body, headers: { ...headers, [CF_HEADER]: JSON.stringify({ colo }) } };
    const answer = await fetch(this.#url + path, init);
    const bytes = Buffer.from(await answer.arrayBuffer());
    const isJson = (answer.headers.get("content-type") ?? "").includes("json");
    return { status: answer.status, headers: answer.headers, bytes, json: isJson ? JSON.parse(bytes) : undefined };
  }

  /** Resolves to an answer that has the `status` told, or any of success. */
  async call(method, path, { status, ...options } = {}) {
    const answer = await this.ask(method, path, options);
    const isExpected = status === undefined ? answer.status < 300 : answer.status === status;
    if (!isExpected) throw new Error(`${method} ${path} ${JSON.stringify(options)}: ${answer.status}\n${answer.bytes}`);
    return answer;
  }

  /** As `call`, of a request that the test repeats. */
  async keep(method, path, options = {}) {
    const answer = await this.call(method, path, options);
    const { colo = "FRA", body, headers } = options;
    this.kept.push({ method, path, colo, body, headers, status: answer.status, answer: answer.json });
    return answer;
  }

  add(id, body, options) {
    return this.call("POST", `/counters/${encodeURIComponent(id)}/increment`, json(body, options));
  }

  subtract(id, body, options) {
    return this.call("POST", `/counters/${encodeURIComponent(id)}/decrement`, json(body, options));
  }

  put(id, body, options) {
    return this.call("PUT", `/counters/${encodeURIComponent(id)}`, json(body, options));
  }

  /** Opens a stream, and ends it when its first update has come. */
  async watch(path) {
    const end = new AbortController();
    const { body } = await fetch(this.#url + path, { signal: end.signal });
    for await (const chunk of body) if (chunk.includes(0x7b)) break;
    end.abort();
  }
}
