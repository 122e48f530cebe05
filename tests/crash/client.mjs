// One request, sent once. Node's fetch may send a request again by itself; this must not.
import { Agent, request } from "node:http";

/** The header that names a request's datacenter, on servers that are started so. */
export const CF_HEADER = "CF-Blob";
// Tally answers or refuses within 5 s; a slow machine gets the rest.
const ANSWER_MS_MAX = 15_000;

const agent = new Agent({ keepAlive: true });

/** A request without an answer. `unsent`: nobody listened, so it was surely not carried out. */
export class NoAnswer extends Error {
  constructor(cause) {
    super(cause.message);
    this.unsent = cause.code === "ECONNREFUSED";
  }
}

/**
 * Resolves to {status, headers, text, json}; json is undefined where the body is none.
 * colo: the datacenter. Errors: NoAnswer.
 */
export function send(url, method, path, { body, headers = {}, colo } = {}) {
  return new Promise((done, failed) => {
    const cf = colo === undefined ? {} : { [CF_HEADER]: JSON.stringify({ colo }) };
    const clientRequest = request(url + path, { method, agent, headers: { ...headers, ...cf } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk) => {
        text += chunk;
      });
      answer.on("error", (error) => failed(new NoAnswer(error)));
      answer.on("close", () => failed(new NoAnswer(new Error("the answer broke off"))));
      answer.on("end", () => {
        const isJson = (answer.headers["content-type"] ?? "").includes("json") && text !== "";
        done({ status: answer.statusCode, headers: answer.headers, text, json: isJson ? JSON.parse(text) : undefined });
      });
    });
    clientRequest.setTimeout(ANSWER_MS_MAX, () => clientRequest.destroy(new Error("no answer in time")));
    clientRequest.on("error", (error) => failed(new NoAnswer(error)));
    clientRequest.end(body);
  });
}

const exactly = (number) => BigInt(number);

/**
 * Resolves to what a strong read and the history of a counter say: {value, added, uniques, exact}, all zero
 * where there is no such counter; or undefined where the server refuses for now. since: unix seconds.
 * Errors: NoAnswer.
 */
export async function look(url, id, since, colo) {
  const path = `/counters/${encodeURIComponent(id)}`;
  const answer = await send(url, "GET", `${path}?consistency=strong&numbers=string`, { colo });
  if (answer.status === 404 && answer.json?.code === "counter-not-found") {
    return { value: 0n, added: 0n, uniques: 0, exact: true };
  }
  const to = Math.floor(Date.now() / 1000) + 60;
  const past = await send(url, "GET", `${path}/history?consistency=strong&numbers=string&step=1m&from=${since}&to=${to}`, { colo });
  if (answer.status !== 200 || past.status !== 200) return undefined;
  const added = past.json.points.reduce((sum, [, count]) => sum + exactly(count ?? 0), 0n);
  const { value, uniques, exact } = answer.json;
  return { value: exactly(value), added, uniques: uniques?.estimate ?? 0, exact: exact && past.json.exact };
}
