import { defineConfig } from "vitest/config";

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    include: ["**/*.spec.mjs"],
    // Each file has a workerd of its own, and this machine's smallest kin has 2 cores.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
