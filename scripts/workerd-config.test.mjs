// What workerd connects to by TALLY_ALERTS_ALLOW: a real one, asked to call a server of this machine by its addresses
// and names.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import workerd from "workerd";
import { networkServices, networksOf } from "./workerd-config.mjs";

const WITHIN = { timeout: 60_000 };
const folder = mkdtempSync(join(tmpdir(), "tally-networks-"));
// Servers of this test alone, on all addresses of this machine.
const seen = [];
const receiver = createServer((request, answer) => {
  seen.push(request.headers.host);
  answer.end("inside");
}).listen(0);
await once(receiver, "listening");
const { port } = receiver.address();
const children = new Set();
after(async () => {
  receiver.close();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const WORKER = `export default {
  async fetch(request, env) {
    const [by, url] = (await request.text()).split(" ");
    try {
      const answer = await (by === "named" ? env.NAMED.fetch(url) : fetch(url));
      return new Response(await answer.text());
    } catch (error) {
      return new Response("refused");
    }
  },
};`;

// A workerd with these networks; resolves to a function that says whether a URL was reached.
async function caller(setting) {
  const networks = networksOf(setting);
  const place = mkdtempSync(join(folder, "config-"));
  writeFileSync(join(place, "worker.js"), WORKER);
  const bindings = networks.named === undefined ? "" : `(name = "NAMED", service = "named-hosts")`;
  writeFileSync(join(place, "config.capnp"), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
  services = [(name = "main", worker = (compatibilityDate = "2026-01-01", modules = [(name = "worker.js", esModule = embed "worker.js")], bindings = [${bindings}])),
    ${networkServices(networks).join(",\n    ")}],
);`);
  const child = spawn(workerd.default ?? workerd, ["serve", "--control-fd=3", join(place, "config.capnp")], {
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  children.add(child);
  let output = "";
  const url = await new Promise((done, failed) => {
    child.once("exit", (code) => failed(new Error(`workerd ended with ${code}`)));
    child.stdio[3].on("data", (chunk) => {
      output += chunk;
      const listening = output.match(/"port":(\d+)/);
      if (listening) done(`http://127.0.0.1:${listening[1]}`);
    });
  });
  return async (by, host) => {
    const before = seen.length;
    const answer = await fetch(url, { method: "POST", body: `${by} http://${host}:${port}/` });
    const isReached = (await answer.text()) === "inside";
    assert.equal(seen.length - before, isReached ? 1 : 0, `${by} ${host}`);
    return isReached;
  };
}

// All of them lead to this machine.
const SPELLINGS = [
  "127.0.0.1", "127.0.0.2", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]",
  "2130706433", "0x7f.1", "0177.0.0.1", "127.1",
];

test("without a setting nothing of this machine is reached, in any spelling", WITHIN, async () => {
  const reaches = await caller(undefined);
  for (const host of SPELLINGS) assert.equal(await reaches("fetch", host), false, host);
});

test("an address that is named is reached, and no other", WITHIN, async () => {
  const reaches = await caller('["127.0.0.1"]');
  assert.equal(await reaches("fetch", "127.0.0.1"), true);
  assert.equal(await reaches("fetch", "127.0.0.2"), false);
  assert.equal(await reaches("fetch", "[::1]"), false);
});

test("a name that is named opens inner networks to that name alone, and this machine to its own names", WITHIN, async () => {
  const local = await caller('["localhost"]');
  assert.equal(await local("named", "localhost"), true);
  for (const host of SPELLINGS) assert.equal(await local("fetch", host), false, host);
  const other = await caller('["hooks.corp","*.svc.internal"]');
  for (const host of SPELLINGS) assert.equal(await other("named", host), false, host);
  for (const host of SPELLINGS) assert.equal(await other("fetch", host), false, host);
});

test("metadata addresses are denied, but those that are named as they are", () => {
  const denied = (setting) => networksOf(JSON.stringify(setting)).internet.deny;
  for (const setting of [[], ["hooks.corp"], ["10.0.0.0/8"], ["0.0.0.0/0", "::/0"], ["100.64.0.0/10"], ["fd00::/8"]]) {
    for (const network of ["169.254.0.0/16", "100.100.100.200/32", "fd00:ec2::254/128", "fe80::/10"]) {
      assert.ok(denied(setting).includes(network), `${setting} ${network}`);
    }
  }
  assert.ok(!denied(["100.100.100.200"]).includes("100.100.100.200/32"));
  assert.ok(!denied(["169.254.0.0/16"]).includes("169.254.0.0/16"));
  assert.ok(denied(["169.254.170.2"]).includes("169.254.0.0/16"), "workerd goes by the narrower one");
  assert.ok(denied([]).includes("64:ff9b::/96"));
  assert.ok(!denied(["::/0"]).includes("64:ff9b::/96"), "what is allowed there is a network");
  assert.deepEqual(networksOf("[").named, undefined);
  assert.deepEqual(networksOf('{"a":1}').internet.allow, ["public"]);
});
