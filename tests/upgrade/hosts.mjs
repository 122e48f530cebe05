// What serves a data folder: plain workerd, or the native server. Each has a clock that is set for it.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { NativeCrash } from "../crash/native.mjs";
import { BUILD, Server } from "../crash/server.mjs";
import { clocked } from "./clocked.mjs";

const CLOCK = fileURLToPath(new URL("../server/clock.c", import.meta.url));

export const HOSTS = ["workerd", "native"];

/**
 * Returns a server, not started yet, whose data are in `data` below `folder`. name: of what it needs there besides.
 * now_ms: what time it is for the server when this returns, to the second; without it, the machine's time.
 */
export function serverOf(host, { folder, name = "host", variables = {}, now_ms }) {
  const data = join(folder, "data");
  if (host === "workerd") {
    const build = now_ms === undefined ? BUILD : clocked({ build: BUILD, folder: join(folder, name), now_ms });
    return new Server({ folder: data, variables, build });
  }
  if (now_ms === undefined) return new NativeCrash({ folder: data, variables });
  const [library, offset] = [join(folder, `${name}.so`), join(folder, `${name}.offset`)];
  const made = spawnSync("cc", ["-shared", "-fPIC", "-o", library, CLOCK, "-ldl"], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(`${CLOCK} is not compiled: ${made.stderr}`);
  writeFileSync(offset, String(Math.ceil((now_ms - Date.now()) / 1_000)));
  // Several edges would use a new hash key one after the other.
  const clock = { TALLY_THREADS: "1", LD_PRELOAD: library, CLOCK_OFFSET: offset };
  return new NativeCrash({ folder: data, variables: { ...variables, ...clock } });
}
