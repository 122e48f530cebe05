// The example Worker in front of an origin: what it lets through, and what it keeps from it.
import { expect, test } from "vitest";
import { openWorld, until } from "../world.mjs";

const KEY = "front-0123456789abcdef";
const KEYS = JSON.stringify({ keys: [{ key: KEY, scopes: ["write"], prefix: "limits/" }] });

test("an address is let through up to the policy, and the origin sees no more", async () => {
  const seen = [];
  const world = await openWorld({
    vars: { TALLY_KEYS: KEYS, TALLY_ACCESS: undefined },
    front: {
      file: "examples/protect-origin/worker.mjs",
      vars: { TALLY_KEY: KEY, ADDRESS_SALT: "salt" },
      origin: (request, Response) => {
        seen.push(new URL(request.url).pathname);
        return new Response("hello", { headers: { "x-origin": "yes" } });
      },
    },
  });
  try {
    const from = (address) => world.visit("/page", { headers: { "cf-connecting-ip": address } });
    for (let left = 99; left >= 0; left -= 1) {
      const answer = await from("203.0.113.7");
      expect([answer.status, answer.text, answer.headers.get("x-origin")]).toEqual([200, "hello", "yes"]);
      expect(answer.headers.get("ratelimit")).toMatch(new RegExp(`^"website";r=${left};t=\\d+$`));
    }
    const refused = await from("203.0.113.7");
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([429, "quota-exceeded"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(seen.length).toBe(100);
    const left = async (address) => (await from(address)).headers.get("ratelimit").match(/r=(\d+);/)[1];
    expect(await left("203.0.113.8")).toBe("99");
    // An IPv4 address is the same one however it is written; of IPv6 the first 64 bits are one client.
    expect(await left("::ffff:203.0.113.8")).toBe("98");
    expect(await left("::ffff:cb00:7108")).toBe("97");
    const clients = [
      ["2001:db8:1:2::1", "2001:DB8:0001:2:ffff:ffff:ffff:ffff", "2001:db8:1:2:0:0:0:0"], ["2001:db8:1:3::1"],
      ["2001:db8::1:2:3", "2001:db8::"], ["::1"],
    ];
    for (const addresses of clients) {
      for (const [index, address] of addresses.entries()) {
        expect([address, await left(address)]).toEqual([address, String(99 - index)]);
      }
    }
  } finally {
    await world.close();
  }
});

// A key that is none, and one that no header can hold, at which the call itself fails.
test.each([
  ["not-the-key-0123456789", []],
  ["not a\nheader", ["the rate limit cannot be checked: TypeError: Invalid header value."]],
])("without a limiter the origin answers, key %j", async (key, logged) => {
  const world = await openWorld({
    vars: { TALLY_KEYS: KEYS, TALLY_ACCESS: undefined },
    front: {
      file: "examples/protect-origin/worker.mjs",
      vars: { TALLY_KEY: key, ADDRESS_SALT: "salt" },
      origin: (_, Response) => new Response("hello"),
    },
  });
  try {
    const answer = await world.visit("/page");
    expect([answer.status, answer.text, answer.headers.get("ratelimit")]).toEqual([200, "hello", null]);
    await until(() => world.errors.length >= logged.length, "what is logged");
    expect(world.errors.splice(0)).toEqual(logged);
  } finally {
    await world.close();
  }
});
