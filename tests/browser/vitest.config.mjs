import { defineConfig } from "vitest/config";
import { environment } from "../e2e/memory.mjs";

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    include: ["**/*.spec.mjs"],
    // What the Worker serves is what the native server serves: tests/e2e/platform/dashboard compares the bytes.
    env: { PLATFORM: process.env.PLATFORM ?? "server", ...environment() },
    // Each file has a browser and a server of its own.
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
