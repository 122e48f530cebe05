import { defineConfig } from "vitest/config";

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    include: ["**/*.spec.mjs"],
    // Each file has a browser and a workerd of its own: about four processes that compute.
    maxWorkers: 1,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
