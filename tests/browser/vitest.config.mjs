import { defineConfig } from "vitest/config";
import { environment } from "../e2e/memory.mjs";

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    include: ["**/*.spec.mjs"],
    env: environment(),
    // Each file has a browser and a workerd of its own: about four processes that compute.
    maxWorkers: 1,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
