// A real browser and the sites that it looks at.
//
// Invariants: a browser reaches nothing but this machine; a page that throws or logs an error fails the
// test that closes its browser, unless that text was allowed; every site has an origin of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { expect } from "vitest";
import { findChromium } from "../../scripts/chromium.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ROOT = new URL("../../", import.meta.url);
const DEADLINE_MS = 20_000;
// Rules of WCAG 2.2 up to AA, and what axe-core's makers hold to be good practice.
const AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

// No name is looked up and nothing outside this machine is asked.
const RESOLVES_NOTHING = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1";

function chromiumPath() {
  const path = findChromium();
  if (path === undefined) throw new Error("there is no browser: run node scripts/chromium.mjs, which installs one or says how");
  return path;
}

class Browser {
  #browser;
  #errors = [];
  #allowed = [];

  constructor(browser) {
    this.#browser = browser;
  }

  /**
   * Opens a page in a profile of its own. `options` are Playwright's of a context: `viewport`,
   * `colorScheme`, `extraHTTPHeaders`, `javaScriptEnabled` … `before`: a function or text that runs in
   * every document before its own scripts.
   */
  async page({ before, ...options } = {}) {
    const context = await this.#browser.newContext({
      locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", ...options,
    });
    context.setDefaultTimeout(DEADLINE_MS);
    if (before !== undefined) await context.addInitScript(before);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.#errors.push(`${page.url()}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error") this.#errors.push(`${page.url()}: ${message.text()} (${message.location().url})`);
    });
    return page;
  }

  /** Errors with this text are expected: a page that is cut off from its server, say. */
  allow(pattern) {
    this.#allowed.push(pattern);
  }

  async close() {
    await this.#browser.close();
    const errors = this.#errors.filter((error) => !this.#allowed.some((pattern) => pattern.test(error)));
    expect(errors, "errors of pages").toEqual([]);
  }
}

/**
 * Starts the browser of this machine; `scripts/chromium.mjs` says how to get one. With `hasBackForwardCache` pages that
 * were left may come back as they were: driven browsers load them anew otherwise.
 */
export async function openBrowser({ hasBackForwardCache = false } = {}) {
  const executablePath = chromiumPath();
  return new Browser(
    await chromium.launch({
      executablePath,
      // Its own sandbox does not start for root and in most containers; it sees only pages of these tests.
      chromiumSandbox: false,
      args: [RESOLVES_NOTHING],
      ignoreDefaultArgs: hasBackForwardCache ? ["--disable-back-forward-cache"] : [],
    }),
  );
}

/**
 * Starts the browser on a page that nobody drives, for what browsers leave out where they are driven: prerendering.
 * Resolves to a function that ends it.
 */
export async function openAlone(url) {
  const profile = mkdtempSync(join(tmpdir(), "tally-browser-"));
  const args = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", `--user-data-dir=${profile}`, RESOLVES_NOTHING,
    url,
  ];
  // A group of its own: what Debian installs is a script around the program, which has children.
  const child = spawn(chromiumPath(), args, { stdio: "ignore", detached: true });
  const ended = once(child, "exit");
  return async () => {
    process.kill(-child.pid, "SIGKILL");
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
}

/**
 * Serves a site on an origin of its own. `files`: path → HTML, or `{ type, body, headers, status }`, or a
 * function of the request that returns one of these or promises it. Resolves to `{ url, hits, close }`: `hits` are
 * `{ method, path, headers }` of all requests.
 */
export async function openSite(files) {
  const hits = [];
  const server = createServer(async (request, response) => {
    hits.push({ method: request.method, path: request.url, headers: request.headers });
    const found = files[request.url.split("?")[0]];
    const made = typeof found === "function" ? await found(request) : found;
    // Every browser asks for this one; an error of the page otherwise.
    if (made === undefined && request.url === "/favicon.ico") return response.writeHead(204).end();
    if (made === undefined) {
      return response.writeHead(404, { "content-type": "text/plain" }).end("there is no such page");
    }
    const {
      type = "text/html; charset=utf-8", body, headers = {}, status = 200,
    } = typeof made === "string" ? { body: made } : made;
    response.writeHead(status, { "content-type": type, "cache-control": "no-store", ...headers }).end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    hits,
    close: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
}

/** What axe-core finds wrong with a page as it stands: one line for each element; empty where nothing is. */
export async function axeFaults(page, { exclude = [] } = {}) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(
    ([tags, excluded]) =>
      globalThis.axe.run(
        { exclude: excluded }, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] },
      ),
    [AXE_TAGS, exclude],
  );
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(" ")}: ${failureSummary}`),
  );
}

/**
 * Takes a picture of what is seen of a page, or of one element of it, into a file named from the project's root.
 * Only where SCREENSHOTS=1 asks for it, so that a run of the tests leaves the tree as it was; else it is taken and
 * thrown away.
 */
export async function screenshot(target, path) {
  const file = fileURLToPath(new URL(path, ROOT));
  const options = { animations: "disabled", caret: "hide" };
  if (process.env.SCREENSHOTS !== "1") return target.screenshot(options);
  mkdirSync(dirname(file), { recursive: true });
  return target.screenshot({ ...options, path: file });
}
