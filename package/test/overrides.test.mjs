// Overrides by the clients and the command: they are put, listed and deleted, and a verdict names its override.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Tally } from "../client/index.ts";
import { ROOT, openServer, run } from "./server.mjs";

let server;
let tally;
before(async () => {
  server = await openServer();
  tally = new Tally({ url: server.url });
  for (const policy of ["js", "py", "cli"]) {
    await tally.request("PUT", `/limits/${policy}`, { body: { limit: 1, window_seconds: 3_600 } });
  }
});
after(() => server?.end());

test("the client for JavaScript puts, lists and deletes", async () => {
  const put = await tally.putOverride("js", "acme/*", { limit: 2 });
  assert.deepEqual(put, { policy: "js", pattern: "acme/*", limit: 2 });
  await tally.putOverride("js", "vip", { unlimited: true });
  await tally.putOverride("js", "bad", { blocked: true, ends_at: "2999-01-01" });
  const first = await tally.overrides("js", { limit: 2 });
  const rest = await tally.overrides("js", { cursor: first.cursor });
  const patterns = [...first.entries, ...rest.entries].map(({ pattern }) => pattern);
  assert.deepEqual([patterns, rest.cursor], [["bad", "vip", "acme/*"], null]);
  const verdicts = [];
  for (const key of ["acme/1", "acme/1", "acme/1", "vip", "bad", "other"]) {
    const { allowed, limit, override } = await tally.limit("js", key);
    verdicts.push([key, allowed, limit, override]);
  }
  assert.deepEqual(verdicts, [
    ["acme/1", true, 2, "acme/*"], ["acme/1", true, 2, "acme/*"], ["acme/1", false, 2, "acme/*"],
    ["vip", true, null, "vip"], ["bad", false, 0, "bad"], ["other", true, 1, undefined],
  ]);
  assert.equal((await tally.peek("js", "overrides")).remaining, 1, "a key of that name");
  await tally.deleteOverride("js", "bad");
  await assert.rejects(tally.deleteOverride("js", "bad"), { code: "override-not-found" });
  await assert.rejects(tally.putOverride("js", "a*b", { limit: 2 }), { code: "invalid-pattern" });
  await assert.rejects(tally.putOverride("js", "a", { limit: 2, unlimited: true }), { code: "invalid-override" });
});

test("the client for Python puts, lists and deletes", async () => {
  const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(ROOT, "package/python"))})
from edgetally import Tally, TallyError
tally = Tally(${JSON.stringify(server.url)})
print(tally.put_override("py", "acme/*", limit=2))
tally.put_override("py", "bad", blocked=True)
print([one["pattern"] for one in tally.overrides("py", cursor=tally.overrides("py", limit=1)["cursor"])["entries"]])
print([tally.limit("py", key).get("override") for key in ["acme/1", "bad", "other"]])
tally.delete_override("py", "bad")
try:
    tally.delete_override("py", "bad")
except TallyError as error:
    print(error.code)
`;
  const { code, stdout, stderr } = await run("python3", ["-c", program]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(stdout.trim().split("\n"), [
    "{'policy': 'py', 'pattern': 'acme/*', 'limit': 2}", "['acme/*']", "['acme/*', 'bad', None]", "override-not-found",
  ]);
});

test("the command puts, lists and deletes", async () => {
  const json = async (...args) => {
    const { code, stdout, stderr } = await server.tally(["limits", ...args, "--json"]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  };
  const put = await json("override", "cli", "acme-*", '{"limit":5}');
  assert.deepEqual(put, { policy: "cli", pattern: "acme-*", limit: 5 });
  await json("override", "cli", "bad", '{"blocked":true,"ends_at":"2999-01-01T00:00:00Z"}');
  assert.deepEqual((await json("overrides", "cli")).entries.map(({ pattern }) => pattern), ["bad", "acme-*"]);
  const { stdout } = await server.tally(["limits", "overrides", "cli"]);
  assert.match(stdout, /bad\s+blocked\s+until 2999-01-01T00:00:00.000Z\n\s*acme-\*\s+limit 5/);
  assert.equal((await server.tally(["limits", "check", "cli", "bad"])).code, 7);
  await json("override-delete", "cli", "bad");
  assert.equal((await server.tally(["limits", "override-delete", "cli", "bad"])).code, 3);
  assert.equal((await server.tally(["limits", "override", "cli", "a", "{"])).code, 2);
});
