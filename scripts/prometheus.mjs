// Installs Debian's prometheus, whose promtool and server check the rules and the dashboard in deploy/, where it can
// (`debian.mjs`). Without one those tests are left out, and this says so: whoever has none can work on all else.
import { spawnSync } from "node:child_process";
import { findProgram, install } from "./debian.mjs";

const PROGRAMS = ["promtool", "prometheus"];
const PACKAGE = "prometheus";

const all = () => PROGRAMS.map((name) => findProgram([name]));
let reason;
if (all().includes(undefined)) reason = install(PACKAGE);
const paths = all();
if (paths.includes(undefined)) {
  const why = reason ?? "it is not on the PATH";
  console.log(`prometheus: rules and dashboard are not checked by a real one: ${why}\nwhat to do: apt-get install ${PACKAGE}`);
} else {
  const probe = spawnSync(paths[0], ["--version"], { encoding: "utf8" });
  console.log(`prometheus: ${paths[1]}, ${probe.stdout.trim().split("\n")[0]}`);
}
