// How the specs of set and reset ask.
import { expect } from "vitest";

export const setting = (world, id, value, options) =>
  world.call("PUT", `/counters/${id}/value`, { body: `{"value":${value}}`, ...options });
export const resetting = (world, id, options) => setting(world, id, 0, options);
export const reset = (world, id, options) => set(world, id, 0, options);

export async function set(world, id, value, options) {
  const answer = await setting(world, id, value, options);
  expect(answer.status, answer.text).toBeOneOf([200, 201]);
  return answer.json;
}
