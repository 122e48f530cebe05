// What a benchmark knows of the programs that it starts.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { cpuOf } from "./process.mjs";

test("the CPU of a program is that of the programs that it has started too", async () => {
  // The shell waits for another, which computes, says so and waits.
  const script = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read end); true";
  const child = spawn("sh", ["-c", script], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const us = cpuOf(child.pid);
  child.stdin.end();
  await once(child, "close");
  assert.ok(us >= 30_000, `${us} µs`);
  assert.ok(Number.isNaN(cpuOf(child.pid)), "one that is gone has none");
});
