import { defineConfig } from "vitest/config";
import { environment } from "./memory.mjs";
import { SERVED_TESTS, UNSERVED_FILES } from "./served.mjs";

// On 2 idle cores the longest takes 16 s under Miniflare; beside other work it may take several times that.
const TIMEOUT_MS = 180_000;
// What runs on the platform too: every call, valid and not, through the code that runs there alone.
const BOTH = ["counter.spec.mjs", "described.spec.mjs", "storage.spec.mjs"];

const shared = {
  testTimeout: TIMEOUT_MS,
  hookTimeout: TIMEOUT_MS,
};

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    // This machine's smallest kin has 2 cores.
    maxWorkers: 2,
    projects: [
      // Files share a process, and so the program that runs the service. PLATFORM=miniflare runs them as they are
      // deployed.
      { test: { ...shared, name: "native", env: environment(), include: ["*.spec.mjs"], pool: "threads", isolate: false } },
      // The same again where the leads of all counters lie in tablets.
      { test: { ...shared, name: "tablets", env: { ...environment(), TABLETS: "64" }, include: ["*.spec.mjs"], pool: "threads", isolate: false } },
      // On the native server, in real time: each file has a server of its own.
      {
        test: {
          ...shared,
          name: "server",
          env: { ...environment(), PLATFORM: "server" },
          include: ["*.spec.mjs"],
          exclude: UNSERVED_FILES,
          testNamePattern: SERVED_TESTS,
        },
      },
      // Each file has a workerd of its own.
      {
        test: {
          ...shared,
          name: "platform",
          env: { ...environment(), PLATFORM: "miniflare" },
          include: ["platform/*.spec.mjs", ...BOTH],
          setupFiles: ["./platform/midnight.mjs"],
        },
      },
    ],
  },
});
