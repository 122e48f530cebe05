// The module of both Workers with the jurisdictions of the platform, which workerd lacks: the objects of one are those
// of other names, and their ids say which.
import { env } from "cloudflare:workers";
import * as sound from "./index.js";

export * from "./index.js";
export { default } from "./index.js";

const named = (id, jurisdiction) => Object.defineProperty(id, "jurisdiction", { value: jurisdiction });

Object.defineProperty(Object.getPrototypeOf(env.DIRECTORY), "jurisdiction", {
  value(name) {
    return {
      getByName: (id, options) => this.getByName(`${name}:${id}`, options),
      idFromName: (id) => named(this.idFromName(`${name}:${id}`), name),
    };
  },
});

const within = (Sound) =>
  class extends Sound {
    constructor(state, bindings) {
      named(state.id, state.id.name?.match(/^(eu|us):/)?.[1]);
      super(state, bindings);
    }
  };

export const Board = within(sound.Board);
export const Cell = within(sound.Cell);
export const Directory = within(sound.Directory);
export const Inbox = within(sound.Inbox);
export const Keyspace = within(sound.Keyspace);
export const Limiter = within(sound.Limiter);
export const Tablet = within(sound.Tablet);
export const Watcher = within(sound.Watcher);
