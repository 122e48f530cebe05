// The classes that the platform gets, around those that wasm-bindgen makes of the module (`scripts/build.sh` bundles
// both).
//
// Invariant: nothing of an instance of the Wasm is called after a trap in it, by a timer or a promise neither: what is
// half done there may loop for ever. Whoever meets a trap begins a new instance of the module at once, which the
// closures of the one before do not enter, and an object of before is made again at its next call, from storage, as
// after an eviction.
import { WorkerEntrypoint } from "cloudflare:workers";
import * as bindings from "bindings";

Error.stackTraceLimit = 100;

// The module's own: it notes a panic here, and each start of an instance.
const state = bindings.__worker_init_state();

// A trap that passes through a task of the Wasm comes as the cause of another error.
const isTrap = (error) => [error, error?.cause].some((one) => one instanceof WebAssembly.RuntimeError);

function note(error) {
  if (isTrap(error)) {
    console.error("Critical", error);
    state.criticalError = true;
  }
  restartAfterTrap();
}

// src/handlers.js meets traps too.
state.note = note;

// Traps of tasks, and of callbacks of promises: no call is there to throw them at.
addEventListener("error", ({ error }) => note(error));
addEventListener("unhandledrejection", ({ reason }) => note(reason));

function restartAfterTrap() {
  if (!state.criticalError) return;
  console.log("Starting a new instance of the Wasm");
  bindings.__wbg_reset_state();
  state.criticalError = false;
  state.instanceId += 1;
}

function noting(call) {
  try {
    return call();
  } catch (error) {
    note(error);
    throw error;
  }
}

const EVENTS = ["fetch", "alarm", "webSocketMessage", "webSocketClose", "webSocketError"];

// The class of an object, which is made anew where its instance of the Wasm is gone.
function recovering(Bound) {
  class Recovering {
    #given;
    #bound;
    #instanceId;

    constructor(...given) {
      this.#given = given;
      this.#current();
    }

    #current() {
      restartAfterTrap();
      if (this.#instanceId !== state.instanceId) {
        try {
          this.#bound = new Bound(...this.#given);
        } catch (error) {
          // Half an object may be in the instance.
          state.criticalError = true;
          throw error;
        }
        this.#instanceId = state.instanceId;
      }
      return this.#bound;
    }

    static {
      // The platform looks which of them a class has.
      for (const name of EVENTS.filter((event) => event in Bound.prototype)) {
        this.prototype[name] = function (...given) {
          const bound = this.#current();
          return noting(() => bound[name](...given));
        };
      }
    }
  }
  return Recovering;
}

export const Cell = recovering(bindings.Cell);
export const Directory = recovering(bindings.Directory);
export const Inbox = recovering(bindings.Inbox);
export const Keyspace = recovering(bindings.Keyspace);
export const Limiter = recovering(bindings.Limiter);
export const Tablet = recovering(bindings.Tablet);
export const Board = recovering(bindings.Board);
export const Watcher = recovering(bindings.Watcher);

// The aggregator, where one Worker has both roles: the edge binds it as a service of the same Worker.
export class Aggregator extends WorkerEntrypoint {
  constructor(ctx, env) {
    super(ctx, env);
    restartAfterTrap();
  }

  fetch(request) {
    return noting(() => bindings.aggregate(request, this.env, this.ctx));
  }
}

export default class extends WorkerEntrypoint {
  constructor(ctx, env) {
    super(ctx, env);
    restartAfterTrap();
  }

  fetch(request) {
    return noting(() => bindings.fetch(request, this.env, this.ctx));
  }

  queue(batch) {
    return noting(() => bindings.queue(batch, this.env, this.ctx));
  }
}
