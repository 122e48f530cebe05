// The aggregator's module with faults: before each call the test is asked what is to happen.
// "before": the call fails unseen. "after": it is carried out and its answer is lost. "hang": no answer. "unkept":
// nothing can be kept of the sockets that it accepts. "cut": its answer is lost, and a copy of it comes when the cut is
// over. "over <ms>": the clock is so long on, and the copies that this object was to get come before the call.
// A batch of a queue is a call too: one that fails comes again, whatever was acknowledged of it.
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import Sound, {
  Aggregator as SoundAggregator,
  Cell as SoundCell,
  Directory as SoundDirectory,
  Inbox as SoundInbox,
  Limiter as SoundLimiter,
  Watcher as SoundWatcher,
  Keyspace as SoundKeyspace,
} from "./index.js";

let keepsNothing = false;
const { serializeAttachment } = WebSocket.prototype;
WebSocket.prototype.serializeAttachment = function (value) {
  if (keepsNothing) throw new Error("fault: nothing can be kept");
  return serializeAttachment.call(this, value);
};

let ahead_ms = 0;
const machineNow = Date.now;
Date.now = () => machineNow() + ahead_ms;

async function copyOf(request) {
  const { url, method, headers } = request;
  const body = await request.clone().arrayBuffer();
  return { url, init: { method, headers: [...headers], body } };
}

async function perhaps(env, kind, name, request, answer, copies = []) {
  const call = JSON.stringify({
    kind, name, path: request === null ? "" : new URL(request.url).pathname.replace(/^\/\d+(?=\/)/, ""),
  });
  const fault = await (await env.FAULTS.fetch("http://faults", { method: "POST", body: call })).text();
  if (fault === "before") throw new Error("fault: unreachable");
  if (fault === "hang") return new Promise(() => {});
  if (fault === "cut") copies.push(await copyOf(request));
  if (fault.startsWith("over ")) {
    ahead_ms = Number(fault.slice("over ".length));
    for (const { url, init } of copies.splice(0)) await answer(new Request(url, init));
  }
  keepsNothing = fault === "unkept";
  const answered = await answer(request);
  keepsNothing = false;
  if (fault === "after" || fault === "cut") throw new Error("fault: the answer is lost");
  return answered;
}

const withFaults = (kind, Sound) =>
  class extends DurableObject {
    #sound;
    #copies = [];

    constructor(state, env) {
      super(state, env);
      this.#sound = new Sound(state, env);
    }

    fetch(request) {
      return perhaps(this.env, kind, this.ctx.id.name, request, (call) => this.#sound.fetch(call), this.#copies);
    }

    alarm() {
      return this.#sound.alarm?.();
    }

    webSocketMessage(socket, message) {
      return this.#sound.webSocketMessage(socket, message);
    }

    webSocketClose(socket, code, reason, wasClean) {
      return this.#sound.webSocketClose(socket, code, reason, wasClean);
    }
  };

export const Cell = withFaults("cell", SoundCell);
export const Directory = withFaults("directory", SoundDirectory);
export const Inbox = withFaults("inbox", SoundInbox);
export const Limiter = withFaults("limiter", SoundLimiter);
export const Watcher = withFaults("watcher", SoundWatcher);
export const Keyspace = withFaults("keyspace", SoundKeyspace);

const asked = (entrypoint, request, answer) => perhaps(entrypoint.env, "aggregator", "", request, answer);

// Of one Worker with both roles.
export class Aggregator extends WorkerEntrypoint {
  fetch(request) {
    return asked(this, request, () => new SoundAggregator(this.ctx, this.env).fetch(request));
  }
}

export default class extends WorkerEntrypoint {
  fetch(request) {
    const answer = () => Sound.fetch(request, this.env, this.ctx);
    return this.env.TALLY_ROLE === "aggregator" ? asked(this, request, answer) : answer();
  }

  queue(batch) {
    return perhaps(this.env, "queue", batch.queue, null, () => Sound.queue(batch, this.env, this.ctx));
  }
}
