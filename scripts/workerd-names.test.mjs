// A name that leads inside is refused where workerd connects, whatever the name looks like. The names of this test
// resolve by a hosts file of its own, and their addresses are this machine's, in namespaces of Linux that end with it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { callerOf } from "./workerd-caller.mjs";

// Public names, and where they lead: this machine, an inner network, and where clouds keep their metadata.
const NAMES = {
  "loopback.example.com": "127.0.0.1", "loopback6.example.com": "::1", "inner.example.com": "10.1.2.3",
  "inner6.example.com": "fd00::1", "metadata.example.com": "169.254.169.254", "metadata6.example.com": "fd00:ec2::254",
  "shared.example.com": "100.100.100.200", "azure.example.com": "168.63.129.16",
};
const METADATA = Object.keys(NAMES).filter((name) => /metadata|shared|azure/.test(name));
const SELF = fileURLToPath(import.meta.url);
const INSIDE = process.env.TALLY_NAMESPACE !== undefined;

/** The script that a shell runs in namespaces of its own: names, addresses, then this file again. */
function script(hosts) {
  const addresses = [...new Set(Object.values(NAMES))].filter((address) => !["127.0.0.1", "::1"].includes(address));
  const add = (address) => `ip address add ${address}/${address.includes(":") ? 128 : 32} dev lo`;
  const names = `mount --bind ${hosts} /etc/hosts`;
  return ["set -e", names, "ip link set lo up", ...addresses.map(add), 'exec "$@"'].join("\n");
}

function missing() {
  const probe = spawnSync("unshare", ["--map-root-user", "--mount", "--net", "ip", "link", "set", "lo", "up"]);
  return probe.status === 0 ? undefined : "namespaces of Linux (unshare, ip) are not available here";
}

if (!INSIDE) {
  const why = missing();
  test("public names that lead inside are refused at connection", { skip: why, timeout: 120_000 }, () => {
    const folder = mkdtempSync(join(tmpdir(), "tally-hosts-"));
    try {
      const hosts = join(folder, "hosts");
      writeFileSync(hosts, Object.entries(NAMES).map(([name, address]) => `${address} ${name}\n`).join(""));
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const ran = spawnSync(
        "unshare",
        ["--map-root-user", "--mount", "--net", "sh", "-c", script(hosts), "sh", process.execPath, "--test", SELF],
        { env: { ...env, TALLY_NAMESPACE: "1" }, encoding: "utf8" },
      );
      assert.equal(ran.status, 0, ran.stdout + ran.stderr);
      assert.match(ran.stdout, /pass 3/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
} else {
  const seen = [];
  const receiver = createServer((request, answer) => {
    seen.push(request.headers.host);
    answer.end("inside");
  }).listen(0);
  await once(receiver, "listening");
  receiver.unref();
  const { port } = receiver.address();
  const at = (name) => `http://${name}:${port}/`;

  test("the names lead to the receiver: who is not held back reaches it", async () => {
    for (const name of Object.keys(NAMES)) {
      assert.equal(await (await fetch(at(name))).text(), "inside", name);
    }
  });

  test("workerd connects to none of them without a setting", async (context) => {
    const caller = await callerOf(context, undefined);
    seen.length = 0;
    for (const name of Object.keys(NAMES)) assert.equal(await caller("fetch", at(name)), "refused", name);
    assert.deepEqual(seen, []);
  });

  test("a name that is named reaches an inner network, but no metadata address", async (context) => {
    const caller = await callerOf(context, '["inner.example.com","*.example.com"]');
    seen.length = 0;
    assert.equal(await caller("named", at("inner.example.com")), "inside");
    for (const name of [...METADATA, "loopback.example.com", "loopback6.example.com"]) {
      assert.equal(await caller("named", at(name)), "refused", name);
    }
    for (const name of Object.keys(NAMES)) assert.equal(await caller("fetch", at(name)), "refused", name);
    assert.deepEqual(seen, [`inner.example.com:${port}`]);
  });
}
