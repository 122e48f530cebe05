// A limiter whose table one caller fills: what other callers have room for, and what is given back.
import { afterEach, expect, test } from "vitest";
import { numbers } from "./calls.mjs";
import { body } from "./limiting.mjs";
import { each, openWorld } from "./world.mjs";

let world;
afterEach(() => world.close());

test("a caller that fills its quota takes nothing of others, and is told that nothing of a shared meter is given back", async () => {
  const limits = { scopes: ["write", "refund"], prefix: "limits/" };
  const keys = ["busy", "other"].map((name) => ({ name, key: `${name}-0123456789abcdef`, ...limits }));
  // One limiter holds 75,000 keys, of which one caller has at most nine sixteenths.
  const vars = { TALLY_KEYS: JSON.stringify({ keys }), TALLY_ACCESS: undefined, TALLY_LIMITERS: "1" };
  world = await openWorld({ vars });
  const as = (name) => ({ headers: { authorization: `Bearer ${name}-0123456789abcdef` } });
  const month = { limit: 10, window_seconds: 2_592_000 };
  const fill = (call) => {
    const checks = numbers(100).map((number) => ({ policy: "busy", key: `${call}.${number}`, ...month }));
    return world.well("POST", "/limits", body({ checks }, as("busy")));
  };
  await each(numbers(430), 4, fill);
  const refund = (name, policy, key) => world.call("POST", `/limits/${policy}/${key}/refund`, body(month, as(name)));
  const shared = await refund("busy", "busy", "429.99");
  expect([shared.status, shared.json.code]).toEqual([409, "meter-shared"]);
  expect((await refund("busy", "busy", "0.0")).json, "a key with its own").toMatchObject({ remaining: 10 });
  for (const number of numbers(20)) {
    const answer = await world.call("POST", `/limits/other/${number}`, body(month, as("other")));
    expect([answer.status, answer.json.remaining]).toEqual([200, 9]);
    expect((await refund("other", "other", number)).json).toMatchObject({ remaining: 10 });
  }
});
