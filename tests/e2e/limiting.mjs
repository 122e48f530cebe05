// How the specs of rate limits ask.
import { parseList } from "structured-headers";

export const body = (value, more = {}) => ({ body: JSON.stringify(value), ...more });
export const put = (world, name, policy) => world.well("PUT", `/limits/${name}`, body(policy));
export const check = (world, name, key, value, options) =>
  world.call(
    "POST", `/limits/${name}/${encodeURIComponent(key)}`, value === undefined ? options : body(value, options),
  );
export const peek = (world, name, key, options) =>
  world.well("GET", `/limits/${name}/${encodeURIComponent(key)}`, options);

/** A header of the rate-limit draft: its names, and the parameters of each. */
export function items(answer, header) {
  const text = answer.headers.get(header);
  return text === null ? null : parseList(text).map(([name, parameters]) => [name, Object.fromEntries(parameters)]);
}
