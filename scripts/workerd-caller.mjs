// A workerd that calls URLs by its networks, for tests: what it reaches, and what it refuses.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import workerd from "workerd";
import { networkServices, networksOf } from "./workerd-config.mjs";

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

/** The configuration of a workerd with these networks. */
function configOf(networks) {
  const bindings = networks.named === undefined ? "" : `(name = "NAMED", service = "named-hosts")`;
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
  services = [(name = "main", worker = (compatibilityDate = "2026-01-01", modules = [(name = "worker.js", esModule = embed "worker.js")], bindings = [${bindings}])),
    ${networkServices(networks).join(",\n    ")}],
);`;
}

/**
 * Starts a workerd with the networks of a setting; it ends with the test of this context. Resolves to a function that
 * calls a URL, by `fetch` or by `named` hosts, and resolves to the text of the answer, or to "refused".
 */
export async function callerOf(context, setting) {
  const folder = mkdtempSync(join(tmpdir(), "tally-networks-"));
  writeFileSync(join(folder, "worker.js"), WORKER);
  writeFileSync(join(folder, "config.capnp"), configOf(networksOf(setting)));
  const child = spawn(workerd.default ?? workerd, ["serve", "--control-fd=3", join(folder, "config.capnp")], {
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  context.after(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  let output = "";
  const url = await new Promise((done, failed) => {
    child.once("exit", (code) => failed(new Error(`workerd ended with ${code}`)));
    child.stdio[3].on("data", (chunk) => {
      output += chunk;
      const listening = output.match(/"port":(\d+)/);
      if (listening) done(`http://127.0.0.1:${listening[1]}`);
    });
  });
  return async (by, called) => (await fetch(url, { method: "POST", body: `${by} ${called}` })).text();
}
