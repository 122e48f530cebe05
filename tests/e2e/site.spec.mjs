// The example of a site, as it is written: its keys and its page fit each other, and the page is told what to do where
// they do not.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openPage } from "./page.mjs";
import { openWorld, until } from "./world.mjs";

const example = (name) => readFileSync(new URL(`../../examples/site/${name}`, import.meta.url), "utf8");
const PAGE = example("page.html");
const URL_OF_PAGE = PAGE.match(/https:\/\/example\.com[^<]*/)[0];
// As the guide says: each key is 48 random hexadecimal digits.
const OPS = "0123456789abcdef".repeat(3);
const BLOG = "fedcba9876543210".repeat(3);
const KEYS = example("keys.json").replaceAll("<ops key>", OPS).replaceAll("<blog key>", BLOG);
const as = (key) => ({ headers: { authorization: `Bearer ${key}` } });

// Opens the page, and has its calls answered by a world as a browser would show the answers: without CORS they are no
// answers.
async function visit(world, url) {
  const source = (await world.call("GET", "/tally.js")).text;
  const fetch = async (target, { method = "GET", body, headers, origin }) => {
    expect(target.origin).toBe("https://tally.example.com");
    const options = { body, headers: { ...headers, origin, "sec-fetch-site": "same-site" } };
    const { status, text, json, headers: answerHeaders } = await world.call(method, target.pathname, options);
    const allowed = answerHeaders.get("access-control-allow-origin");
    if (![origin, "*"].includes(allowed)) throw new TypeError("Failed to fetch");
    return { ok: status < 300, status, text: async () => text, json: async () => json };
  };
  return openPage(PAGE, { url, source, fetch });
}

test("the example's page counts and shows what the example's keys let it", async () => {
  const world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: KEYS } });
  try {
    await world.add("likes/blog/home/", { delta: 1_234 }, as(OPS));
    await world.add("/blog/home/", { delta: 41 }, as(BLOG));
    const page = await visit(world, URL_OF_PAGE);
    await until(async () => (await world.strong("/blog/home/", "", as(BLOG))).value === 42, "the view is counted");
    await until(
      () => page.texts()["likes/blog/home/"] === "1,234" && /^4[12]$/.test(page.texts()[""]), "the numbers are shown",
    );
    expect(page.warnings).toEqual([]);
    // What the button does.
    const like = PAGE.match(/fetch\('https:\/\/tally\.example\.com([^']*)'/)[1];
    expect((await world.call("POST", like, { headers: { origin: "https://example.com" } })).json.value).toBe(1_235);
    await world.well("PUT", "/limits/login", { body: '{"limit":10,"window_seconds":60}', ...as(OPS) });
    await world.well("GET", "/counters", as(OPS));
  } finally {
    await world.close();
  }
});

test("a page that no entry reaches says so in the console, and what to do", async () => {
  const config = JSON.parse(KEYS);
  // A prefix is as it is written: it adds no slash.
  config.public[0].prefix = "blog/";
  let world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(config) } });
  try {
    const page = await visit(world, URL_OF_PAGE);
    await until(() => page.warnings.length >= 3, "warnings");
    // Which of the page's calls is answered first is not told.
    const refused = page.warnings.find((warning) => warning.includes("/increment"));
    expect(refused).toMatch(/increment: 401\. .*no public entry of TALLY_KEYS .* prefix that `\/blog\/home\/` begins with/);
    await world.close();
    for (const entry of config.public) entry.origins = ["https://other.example"];
    world = await openWorld({ vars: { TALLY_ACCESS: undefined, TALLY_KEYS: JSON.stringify(config) } });
    const hidden = await visit(world, URL_OF_PAGE);
    await until(() => hidden.warnings.length >= 3, "warnings");
    expect(hidden.warnings[0]).toMatch(/no answer\. .*TALLY_KEYS name "https:\/\/example\.com"/);
  } finally {
    await world.close();
  }
});
