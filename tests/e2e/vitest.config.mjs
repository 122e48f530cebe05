import { defineConfig } from "vitest/config";
import { environment } from "./memory.mjs";
import { SERVED_TESTS, UNSERVED_FILES, UNSERVED_TESTS } from "./served.mjs";

// On 2 idle cores the longest takes 16 s under Miniflare; beside other work it may take several times that.
const TIMEOUT_MS = 180_000;
// What runs on the platform too: every call, valid and not, through the code that runs there alone.
const BOTH = ["counter.spec.mjs", "described.spec.mjs", "storage.spec.mjs"];
// This machine's smallest kin has 2 cores.
const CORES = 2;

const shared = {
  testTimeout: TIMEOUT_MS,
  hookTimeout: TIMEOUT_MS,
};

// Files share a process, and so the program that runs the service.
const inVirtualTime = (name, more) => ({
  test: {
    ...shared, name, env: environment(), include: ["*.spec.mjs"], pool: "threads", isolate: false, maxWorkers: CORES,
    sequence: { groupOrder: 0 }, ...more,
  },
});

export default defineConfig({
  cacheDir: "../../node_modules/.vite",
  test: {
    // `make test` runs all but the first.
    projects: [
      // Every spec in virtual time, a second each: for who works on one.
      inVirtualTime("native"),
      // Of those what the native server cannot show.
      inVirtualTime("virtual files", { include: UNSERVED_FILES }),
      inVirtualTime("virtual tests", { exclude: UNSERVED_FILES, testNamePattern: UNSERVED_TESTS }),
      // The leads of all counters lie in tablets.
      inVirtualTime("tablets", { env: { ...environment(), TABLETS: "64" } }),
      // Each file has a workerd of its own.
      {
        test: {
          ...shared,
          name: "platform",
          env: { ...environment(), PLATFORM: "miniflare" },
          include: ["platform/*.spec.mjs", ...BOTH],
          setupFiles: ["./platform/midnight.mjs"],
          maxWorkers: CORES,
          sequence: { groupOrder: 1 },
        },
      },
      // The same where one Worker has both roles.
      {
        test: {
          ...shared,
          name: "one worker",
          env: { ...environment(), PLATFORM: "miniflare", ONE_WORKER: "1" },
          include: ["platform/*.spec.mjs", ...BOTH],
          // The first opens both configurations itself. The others show what does not depend on who has which role:
          // bodies, the form of answers, what a database holds, and whom a webhook may call.
          exclude: [
            "platform/jurisdiction.spec.mjs", "platform/alerts.spec.mjs", "platform/bodies.spec.mjs",
            "platform/cut.spec.mjs", "described.spec.mjs", "storage.spec.mjs",
          ],
          setupFiles: ["./platform/midnight.mjs"],
          maxWorkers: CORES,
          sequence: { groupOrder: 1 },
        },
      },
      // On the native server, in real time: each world has a server of its own. Mostly a file waits for time to pass.
      {
        test: {
          ...shared,
          name: "server",
          env: { ...environment(), PLATFORM: "server" },
          include: ["*.spec.mjs", "platform/dashboard.spec.mjs"],
          exclude: UNSERVED_FILES,
          testNamePattern: SERVED_TESTS,
          maxWorkers: 3 * CORES,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
