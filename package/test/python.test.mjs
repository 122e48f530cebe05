// Tests of the Python client that need no server.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT, run } from "./server.mjs";

test("Python's client does the same as JavaScript's", async (context) => {
  const python = await run("python3", ["--version"]).catch(() => ({ code: 1 }));
  if (python.code !== 0) return context.skip("python3 is not installed");
  const { code, stdout, stderr } = await run("python3", [join(ROOT, "package/python/test_client.py")]);
  assert.equal(code, 0, `${stdout}${stderr}`);
});
