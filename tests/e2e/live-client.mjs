// Watchers, over real sockets: server-sent events and WebSockets.
//
// Invariant: each message is checked against the API's description before a test sees it.
import http from "node:http";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { faults, API } from "./openapi.mjs";
import { parseExact, until } from "./world.mjs";

const MESSAGE = API.components.schemas.LiveMessage;

function checked(text) {
  const message = parseExact(text);
  expect(faults(MESSAGE, message), text).toEqual([]);
  return message;
}

class Watcher {
  /** All messages, each with `arrived_ms`. */
  messages = [];
  /** The newest state of each counter. */
  counters = {};
  isClosed = false;

  take(message) {
    this.messages.push({ ...message, arrived_ms: Date.now() });
    if (message.type === "update") Object.assign(this.counters, message.counters);
  }

  get updates() {
    return this.messages.filter(({ type }) => type === "update");
  }

  /** Waits until the newest state of a counter is so. */
  sees(id, condition, what = `the state of ${id}`) {
    return until(() => id in this.counters && condition(this.counters[id]), what);
  }
}

/** Opens a stream of server-sent events. Resolves with the answer's head; refusals have their JSON. */
export async function watch(world, path, { headers = {}, colo } = {}) {
  const url = new URL(path, await world.url());
  const watcher = new Watcher();
  const cf = colo ? { "MF-CF-Blob": JSON.stringify({ colo }) } : {};
  await new Promise((opened, failed) => {
    const request = http.get(url, { headers: { ...cf, ...headers }, agent: false }, (response) => {
      watcher.status = response.statusCode;
      watcher.headers = response.headers;
      watcher.response = response;
      let rest = "";
      response.setEncoding("utf8");
      response.on("data", (text) => {
        rest += text;
        if (watcher.status !== 200) return;
        const events = rest.split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
          if (fields.retry) watcher.retry_ms = Number(fields.retry);
          if (fields.id) watcher.lastEventId = fields.id;
          if (fields.data) {
            const message = checked(fields.data);
            expect(fields.event).toBe(message.type === "update" ? undefined : message.type);
            watcher.take(message);
          }
        }
      });
      response.on("end", () => {
        watcher.isClosed = true;
        if (watcher.status !== 200 && rest !== "") watcher.json = JSON.parse(rest);
      });
      response.on("error", () => (watcher.isClosed = true));
      response.on("close", () => (watcher.isClosed = true));
      opened();
    });
    request.on("error", failed);
    watcher.close = () => request.destroy();
  });
  return watcher;
}

/** Opens a WebSocket. */
export async function connect(world, path, { headers = {} } = {}) {
  const url = new URL(path, await world.url());
  url.protocol = "ws:";
  const watcher = new Watcher();
  const socket = new WebSocket(url, { headers });
  watcher.pongs = 0;
  socket.on("message", (data) => {
    const text = data.toString();
    if (text === "pong") watcher.pongs += 1;
    else watcher.take(checked(text));
  });
  socket.on("close", (code, reason) => {
    watcher.isClosed = true;
    watcher.code = code;
    watcher.reason = reason.toString();
  });
  watcher.say = (message) => socket.send(typeof message === "string" ? message : JSON.stringify(message));
  watcher.socket = socket;
  watcher.close = () => socket.terminate();
  await new Promise((opened, failed) => {
    socket.on("open", opened);
    socket.on("error", failed);
  });
  return watcher;
}

/** What `/metrics` says of live views. */
export async function liveMetrics(world) {
  const { text } = await world.call("GET", "/metrics");
  const count = (series) => Number(text.split("\n").find((line) => line.startsWith(`${series} `)).split(" ")[1]);
  return {
    reads: count("tally_live_reads_total"),
    watcherSeconds: count("tally_live_watcher_seconds_total"),
    events: count('tally_live_updates_total{transport="sse"}'),
    socket: count('tally_live_updates_total{transport="websocket"}'),
  };
}
