// Visitors, salts and what is "today" change at midnight UTC: a test that begins shortly before it waits until it has
// passed.
import { beforeEach } from "vitest";
import { until } from "../world.mjs";

const DAY_MS = 86_400_000;
// Longer than such a test takes.
const BEFORE_MS = 30_000;

beforeEach(async () => {
  const midnight_ms = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS;
  if (midnight_ms - Date.now() < BEFORE_MS) await until(() => Date.now() >= midnight_ms, "midnight", 2 * BEFORE_MS);
});
