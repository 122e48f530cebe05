// The module of both Workers with the jurisdictions of the platform, which workerd lacks: the objects of one are those
// of other names.
import { env } from "cloudflare:workers";

export * from "./index.js";
export { default } from "./index.js";

Object.defineProperty(Object.getPrototypeOf(env.DIRECTORY), "jurisdiction", {
  value(name) {
    return {
      getByName: (id, options) => this.getByName(`${name}:${id}`, options),
      idFromName: (id) => this.idFromName(`${name}:${id}`),
    };
  },
});
