import { Hono } from "hono";
import { Tally, clientKey } from "edgetally";
import { limit } from "edgetally/hono";

const tally = new Tally({ url: process.argv[2], key: process.env.TALLY_KEY });
const app = new Hono();
app.use("/api/*", limit(tally, {
  policy: "api",
  check: { limit: 1, window_seconds: 60 },
  key: (c) => c.req.header("x-user") ?? clientKey(c.req.header("x-forwarded-for")),
  onBadKey: "share",
  onError: "open",
}));
app.get("/api/hello", (c) => c.text("hello"));

// Two addresses of one network share a quota. A request without an address uses the quota of all such requests.
for (const headers of [{ "x-forwarded-for": "2001:db8::1" }, { "x-forwarded-for": "2001:db8::2" }, {}]) {
  console.log((await app.request("/api/hello", { headers })).status);
}
