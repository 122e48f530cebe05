// Installs Debian's redis-server, which the tests of Redis's strings compare with, where it can (`debian.mjs`). Without
// one those tests are left out, and this says so: whoever has none can work on all else.
import { spawnSync } from "node:child_process";
import { findProgram, install } from "./debian.mjs";

const PROGRAM = "redis-server";
const PACKAGE = "redis-server";

let reason;
if (findProgram([PROGRAM]) === undefined) reason = install(PACKAGE);
const path = findProgram([PROGRAM]);
if (path === undefined) {
  const why = reason ?? "it is not on the PATH";
  console.log(`redis: nothing is compared with a real one: ${why}\nwhat to do: apt-get install ${PACKAGE}`);
} else {
  const probe = spawnSync(path, ["--version"], { encoding: "utf8" });
  console.log(`redis: ${path}, ${probe.stdout.trim().split(" sha=")[0]}`);
}
