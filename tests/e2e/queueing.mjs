// How specs of queued events send them, and see what became of them.
import { expect } from "vitest";
import { entriesOf } from "./calls.mjs";
import { until } from "./world.mjs";

// The queue of a deployment that binds one of the platform. As short as can be: a batch is delivered once the queue has
// waited for that many seconds.
export const QUEUE = { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 100 };

export const event = (key, increment, options) => ({ ...options, body: JSON.stringify({ key, increment }) });
export const post = (world, ...sent) => world.call("POST", "/api/event", event(...sent));

export async function send(world, key, increment = 1, options = {}) {
  const answer = await post(world, key, increment, options);
  expect(answer.status, answer.text).toBe(202);
  return answer;
}

export const valueOf = async (world, key, numbers = "") => {
  const answer = await world.call("GET", `/counters/${key}?consistency=strong${numbers}`);
  return answer.status === 404 ? 0 : answer.json.value;
};
export const reaches = (world, key, value) =>
  until(async () => (await valueOf(world, key)) === value, `a value of ${value} of ${key}`);
export const letters = (world, datacenter = "FRA") =>
  entriesOf(world, `/api/dead-letters?numbers=string&datacenter=${datacenter}`);
