import { defineConfig } from "vitest/config";
import { environment } from "./memory.mjs";

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    include: ["**/*.spec.mjs"],
    setupFiles: ["./midnight.mjs"],
    env: environment(),
    // Each file has a workerd of its own, and this machine's smallest kin has 2 cores.
    maxWorkers: 2,
    // The longest takes 16 s on 2 idle cores; beside other work it may take several times that.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
