// Watchers: server-sent events and WebSockets, over real sockets under Miniflare.
//
// Invariant: each message is checked against the API's description before a test sees it.
import http from "node:http";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { faults, API } from "./openapi.mjs";
import { ORIGIN, parseExact, until } from "./world.mjs";

const MESSAGE = API.components.schemas.LiveMessage;

function checked(text) {
  const message = parseExact(text);
  expect(faults(MESSAGE, message), text).toEqual([]);
  return message;
}

class Watcher {
  /** All messages, each with `arrived_ms`. */
  messages = [];
  /** The newest state of each counter, and of each board. */
  counters = {};
  boards = {};
  isClosed = false;
  pongs = 0;

  take(message, arrived_ms = Date.now()) {
    this.messages.push({ ...message, arrived_ms });
    if (message.type !== "update") return;
    Object.assign(this.counters, message.counters);
    Object.assign(this.boards, message.boards);
  }

  get updates() {
    return this.messages.filter(({ type }) => type === "update");
  }

  /** Waits until the newest state of a counter is so. */
  sees(id, condition, what = `the state of ${id}`) {
    return until(() => id in this.counters && condition(this.counters[id]), what);
  }
}

// What is read of a stream of server-sent events: returns a function that takes its text.
function reader(watcher) {
  let rest = "";
  return (text, arrived_ms) => {
    const events = (rest + text).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.retry) watcher.retry_ms = Number(fields.retry);
      if (fields.id) watcher.lastEventId = fields.id;
      if (!fields.data) continue;
      const message = checked(fields.data);
      expect(fields.event).toBe(message.type === "update" ? undefined : message.type);
      watcher.take(message, arrived_ms);
    }
  };
}

function hear(watcher, text, arrived_ms) {
  if (text === "pong") watcher.pongs += 1;
  else watcher.take(checked(text), arrived_ms);
}

// A watcher of a deployment in memory. What is wrong with a message is told where the watcher is looked at next.
async function open(world, path, options, hears) {
  const watcher = new Watcher();
  const reads = hears ?? reader(watcher);
  const take = ({ text, at_ms, closed, reason }) => {
    if (closed === undefined) reads(text, at_ms, watcher);
    else Object.assign(watcher, { isClosed: true, code: closed, reason });
  };
  const { status, headers, body, live, say } = await world.host.open(ORIGIN + path, options, take);
  Object.assign(watcher, { status, headers: Object.fromEntries(headers), isClosed: !live });
  const text = Buffer.from(body, "base64").toString();
  if (!live && text !== "") watcher.json = JSON.parse(text);
  watcher.close = () => {
    say({ hangs_up: true });
    watcher.isClosed = true;
  };
  watcher.response = { pause: () => say({ pauses: true }), resume: () => say({ pauses: false }) };
  watcher.say = (message) => say({ says: typeof message === "string" ? message : JSON.stringify(message) });
  return watcher;
}

/** Opens a stream of server-sent events. Resolves with the answer's head; refusals have their JSON. */
export async function watch(world, path, { headers = {}, colo = null } = {}) {
  if (world.host.open) return open(world, path, { headers, colo });
  const url = new URL(path, await world.url());
  const watcher = new Watcher();
  const cf = colo ? { "MF-CF-Blob": JSON.stringify({ colo }) } : {};
  await new Promise((opened, failed) => {
    const request = http.get(url, { headers: { ...cf, ...headers }, agent: false }, (response) => {
      watcher.status = response.statusCode;
      watcher.headers = response.headers;
      watcher.response = response;
      const read = reader(watcher);
      let refusal = "";
      response.setEncoding("utf8");
      response.on("data", (text) => {
        if (watcher.status === 200) read(text);
        else refusal += text;
      });
      response.on("end", () => {
        watcher.isClosed = true;
        if (refusal !== "") watcher.json = JSON.parse(refusal);
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
  if (world.host.open) {
    const upgradeHeaders = { ...headers, connection: "Upgrade", upgrade: "websocket" };
    const watcher = await open(world, path, { headers: upgradeHeaders, colo: null }, (text, at_ms, watcher) =>
      hear(watcher, text, at_ms),
    );
    if (watcher.status !== 101) throw new Error(`Unexpected server response: ${watcher.status}`);
    return watcher;
  }
  const url = new URL(path, await world.url());
  url.protocol = "ws:";
  const watcher = new Watcher();
  const socket = new WebSocket(url, { headers });
  socket.on("message", (data) => hear(watcher, data.toString()));
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
