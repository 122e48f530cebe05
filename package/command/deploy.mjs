// `tally deploy`: both Workers to Cloudflare, or one with both roles, step by step, by wrangler.
//
// Life: wrangler → account → questions → two configurations → what they bind → secrets → aggregator → edge → a smoke
// test at the address. Invariants: the aggregator deploys before the edge, which binds its objects. No secret is an
// argument: secrets go by standard input. A dry run changes nothing in the account: wrangler checks both Workers, and
// the smoke test runs in its local mode.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { makeFolder, writePrivate } from "../../scripts/private-files.mjs";
import { Tally } from "../client/index.ts";
import { JURISDICTIONS, R2_JURISDICTIONS, configurations, isTaken, read } from "./deploy/configurations.mjs";
import { newKey, writeKeys } from "./keys.mjs";
import { EXIT, Failure } from "./outcome.mjs";
import { nodeFault, PACKAGE, ROOT } from "./place.mjs";
import { readText } from "./text.mjs";

const HEALTHY_MS_MAX = 120_000;
const HEALTHY_POLL_MS = 500;
const LOCAL_MS_MAX = 120_000;
const SMOKE_COUNTER = "tally/smoke-test";

/** Deploys, or says what it would do. */
export const deploy = (call) => carryOut(call, (run) => run.deploy());

/** Returns to the version before, or says what it would do. */
export const rollback = (call) => carryOut(call, (run) => run.rollback());

async function carryOut({ options, screen }, work) {
  const fault = nodeFault(process.versions.node);
  if (fault !== undefined) throw new Failure(EXIT.failed, fault);
  const run = new Deployment(options, screen);
  await work(run);
  if (screen.isJson) screen.json({ dry_run: options.dryRun === true, address: run.address ?? null, steps: run.steps });
  return EXIT.done;
}

// wrangler of the project, of this package, or the version that this package was tested with. An older one leaves out
// the classes of objects.
function wranglerOf() {
  for (const from of [join(process.cwd(), "package.json"), join(ROOT, "package.json")]) {
    try {
      const path = createRequire(from).resolve("wrangler/package.json");
      if (!isTaken(JSON.parse(readFileSync(path, "utf8")).version)) continue;
      return [process.execPath, [join(dirname(path), "bin/wrangler.js")]];
    } catch {
      // The next one.
    }
  }
  return ["npx", ["--yes", `wrangler@${PACKAGE.tally?.wrangler ?? PACKAGE.devDependencies?.wrangler ?? 4}`]];
}

// The variables of a configuration that was written here. It may have been changed by hand.
function variablesOf(file) {
  try {
    return read(file).vars ?? {};
  } catch (error) {
    throw new Failure(EXIT.failed, `${file} cannot be read: ${error.message}. Give each comment a line of its own, or deploy to another folder by --folder`);
  }
}

class Deployment {
  constructor(options, screen) {
    this.options = options;
    this.screen = screen;
    this.isDry = options.dryRun === true;
    this.steps = [];
    [this.program, this.first] = wranglerOf();
  }

  // Says a step, and does it. In a dry run only what changes nothing is done.
  async step(title, command, act, { isSafe = false } = {}) {
    const { screen, steps, isDry } = this;
    const done = !isDry || isSafe;
    screen.line(screen.paint("bold", `${steps.length + 1}. ${title}`));
    if (command !== undefined) screen.line(`   ${screen.paint("dim", command)}`);
    steps.push({ title, ...(command === undefined ? {} : { command }), done });
    if (done) return act();
    return undefined;
  }

  // Runs wrangler; `input` is its standard input. Resolves to what it printed.
  async wrangler(args, { input, env = {} } = {}) {
    const child = spawn(this.program, [...this.first, ...args], {
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        ...process.env, WRANGLER_SEND_METRICS: "false", ...(input !== undefined || this.isDry ? { CI: "1" } : {}),
        ...env,
      },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (output += text));
    }
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const [code] = await once(child, "close");
    if (code !== 0) throw new Failure(EXIT.failed, `wrangler ${args[0]} failed:\n${output.trim()}`);
    return output;
  }

  async ask(question, fallback) {
    if (this.options.yes || this.isDry || !process.stdin.isTTY || this.screen.isJson) return fallback;
    const prompt = createInterface({ input: process.stdin, output: process.stderr });
    const answer = (await prompt.question(`   ${question} [${fallback === undefined ? "none" : fallback === true ? "yes" : fallback === false ? "no" : fallback}] `)).trim();
    prompt.close();
    if (answer === "") return fallback;
    return typeof fallback === "boolean" ? /^y/i.test(answer) : answer;
  }

  async settings() {
    const { options } = this;
    const settings = {
      name: await this.ask("Name of the Workers", options.name),
      domain: await this.ask("A domain of the account to answer at", options.domain),
      datacenters: await this.ask("A datacenter is a colo, a region, or all is one (colos, region, one)", options.datacenters),
      tablets: options.tablets,
      jurisdiction: await this.ask("A jurisdiction that keeps all data (eu, fedramp, fedramp-high, us)", options.jurisdiction),
      oneWorker: await this.ask("One Worker with both roles, instead of two", options.oneWorker === true),
      queue: await this.ask("Queued events by Cloudflare Queues", options.queue === true),
      snapshots: await this.ask("Snapshots in an R2 bucket", options.snapshots === true),
      analytics: await this.ask("Metrics in Analytics Engine", options.analytics === true),
    };
    if (!/^[a-z0-9][a-z0-9-]{0,40}$/.test(settings.name)) throw new Failure(EXIT.usage, `--name ${settings.name}: small letters, digits and hyphens`);
    if (!["colos", "region", "one"].includes(settings.datacenters)) throw new Failure(EXIT.usage, `--datacenters ${settings.datacenters} is none of colos, region, one`);
    const { jurisdiction, snapshots } = settings;
    if (jurisdiction !== undefined && !JURISDICTIONS.includes(jurisdiction)) throw new Failure(EXIT.usage, `--jurisdiction ${jurisdiction} is none of ${JURISDICTIONS.join(", ")}`);
    if (snapshots && jurisdiction !== undefined && !R2_JURISDICTIONS.includes(jurisdiction)) throw new Failure(EXIT.usage, `--snapshots goes with --jurisdiction ${R2_JURISDICTIONS.join(" or ")} only: a bucket of R2 cannot be in ${jurisdiction}`);
    return settings;
  }

  // Objects belong to the Worker that defines them and to their jurisdiction: in another one all counters would be 0.
  refuseMove(settings) {
    const folder = resolve(this.options.folder);
    const [edge, aggregator] = ["wrangler.jsonc", "wrangler.aggregator.jsonc"].map((file) => join(folder, file));
    if (!existsSync(edge)) return;
    const { TALLY_JURISDICTION: before } = variablesOf(edge);
    const wasOne = !existsSync(aggregator);
    const shown = (jurisdiction) => jurisdiction ?? "none";
    if (before !== settings.jurisdiction) throw new Failure(EXIT.usage, `the deployment of ${this.options.folder} has the jurisdiction ${shown(before)}, not ${shown(settings.jurisdiction)}: its data cannot move. Make another deployment by --folder and --name, and import an export of this one`);
    if (wasOne !== settings.oneWorker) throw new Failure(EXIT.usage, `the deployment of ${this.options.folder} has ${wasOne ? "one Worker: repeat --one-worker" : "two Workers: leave out --one-worker"}. Its data cannot move`);
  }

  // Writes the configurations.
  write(settings) {
    this.refuseMove(settings);
    this.folder = this.isDry ? mkdtempSync(join(tmpdir(), "tally-deploy-")) : resolve(this.options.folder);
    makeFolder(this.folder);
    const files = configurations(ROOT, { ...settings, build: relative(this.folder, join(ROOT, "build")) || "." });
    this.edge = join(this.folder, "wrangler.jsonc");
    this.aggregator = join(this.folder, "wrangler.aggregator.jsonc");
    writePrivate(this.edge, files.edge);
    // A folder of two Workers, of which one was made, would be deployed and rolled back as two.
    if (files.aggregator === undefined) rmSync(this.aggregator, { force: true });
    else writePrivate(this.aggregator, files.aggregator);
    if (this.isDry) {
      const shown = [["wrangler.aggregator.jsonc", files.aggregator], ["wrangler.jsonc", files.edge]]
        .filter(([, text]) => text !== undefined)
        .map(([name, text]) => `// ${name}\n${text}`);
      this.screen.line(`   ${shown.join("\n").replaceAll("\n", "\n   ")}`);
    }
    return files;
  }

  async deploy() {
    const { options, screen } = this;
    await this.step("Check the account", "wrangler whoami", async () => {
      const output = await this.wrangler(["whoami"]);
      if (/not authenticated|wrangler login/i.test(output)) throw new Failure(EXIT.notAllowed, "wrangler has no account: run npx wrangler login, or set CLOUDFLARE_API_TOKEN");
    });
    const settings = await this.step("Ask what is needed", undefined, () => this.settings(), { isSafe: true });
    await this.step(settings.oneWorker ? "Write the configuration" : "Write both configurations", `${this.isDry ? "(a temporary folder)" : options.folder}/wrangler.jsonc${settings.oneWorker ? "" : ", wrangler.aggregator.jsonc"}`, () => this.write(settings), { isSafe: true });
    try {
      await this.resources(settings);
      const key = await this.secrets();
      if (options.gradual === undefined) await this.whole();
      else await this.gradual(options.gradual);
      await this.smoke(settings, key);
    } finally {
      if (this.isDry) rmSync(this.folder, { recursive: true, force: true });
    }
    screen.line(this.isDry ? "Nothing was changed: this was a dry run." : `${screen.paint("bold", "Tally is at")} ${this.address}\nThe dashboard is at ${this.address}/dashboard/`);
  }

  // What may be there already is left as it is.
  async create(title, args) {
    await this.step(title, `wrangler ${args.join(" ")}`, () =>
      this.wrangler(args).catch((error) => {
        if (!/already (exists|taken|own)|code: 11009|code: 10004/i.test(error.message)) throw error;
      }),
    );
  }

  async resources({ name, queue, snapshots, jurisdiction }) {
    if (queue) {
      await this.create("Create the queue", ["queues", "create", `${name}-events`]);
      await this.create("Create the queue of dead letters", ["queues", "create", `${name}-events-dead`]);
    }
    const where = jurisdiction === undefined ? [] : ["--jurisdiction", jurisdiction];
    if (snapshots) await this.create("Create the bucket", ["r2", "bucket", "create", `${name}-snapshots`, ...where]);
  }

  // Sets the keys, and resolves to one that may write: of the given file, or of a new one.
  async secrets() {
    const { options } = this;
    const file = options.keys ?? join(this.folder, "keys.json");
    const isNew = !existsSync(file);
    if (isNew && options.keys !== undefined) throw new Failure(EXIT.notFound, `${options.keys} is not there: tally keys add ops --scopes admin --file ${options.keys} makes it`);
    if (isNew) {
      // All counters, and all limits.
      const ops = { name: "ops", key: newKey(), scopes: ["admin"], prefixes: ["", "limits/"] };
      writeKeys(file, { keys: [ops], public: [] });
    }
    const text = readText(file);
    const keys = JSON.parse(text).keys ?? [];
    await this.step(`Set the keys by standard input${isNew ? ", new ones" : ""}`, `wrangler secret put TALLY_KEYS -c ${this.shown(this.edge)} < ${this.shown(file)}`, () =>
      this.wrangler(["secret", "put", "TALLY_KEYS", "-c", this.edge], { input: text }),
    );
    this.keys = text;
    const isOfAll = ({ scopes = [], prefix = "", prefixes = [prefix] }) =>
      scopes.includes("admin") && prefixes.includes("");
    return keys.find(isOfAll)?.key;
  }

  shown(path) {
    return this.isDry ? path.split("/").at(-1) : relative(process.cwd(), path);
  }

  // The Workers with their files, the aggregator first; one Worker is both.
  workers() {
    const two = [["aggregator", this.aggregator], ["edge", this.edge]];
    return existsSync(this.aggregator) ? two : [["Worker", this.edge]];
  }

  async whole() {
    for (const [what, file] of this.workers()) {
      const dry = this.isDry ? ["--dry-run", "--outdir", join(this.folder, `out-${what}`)] : [];
      await this.step(`Deploy the ${what}`, `wrangler deploy -c ${this.shown(file)}${this.isDry ? " --dry-run" : ""}`, async () => {
        const output = await this.wrangler(["deploy", "-c", file, ...dry]);
        const found = output.match(/https:\/\/[\w.-]+\.workers\.dev/)?.[0];
        if (file === this.edge && found !== undefined) this.address = found;
      }, { isSafe: true });
    }
  }

  // A version for some of the requests, beside the one that serves now. A new class of objects needs a whole deploy
  // first.
  async gradual(percent) {
    if (percent < 1 || percent > 100) throw new Failure(EXIT.usage, "--gradual is a number of percent from 1 to 100");
    for (const [what, file] of this.workers()) {
      const dry = this.isDry ? ["--dry-run", "--outdir", join(this.folder, `out-${what}`)] : [];
      let version;
      await this.step(`Upload a version of the ${what}`, `wrangler versions upload -c ${this.shown(file)}${this.isDry ? " --dry-run" : ""}`, async () => {
        const output = await this.wrangler(["versions", "upload", "-c", file, ...dry]);
        version = output.match(/Version ID:\s*([0-9a-f-]{36})/i)?.[1];
      }, { isSafe: true });
      await this.step(`Send it ${percent} % of the requests`, `wrangler versions deploy <version>@${percent}% -c ${this.shown(file)} --yes`, async () => {
        if (version === undefined) throw new Failure(EXIT.failed, "wrangler named no version: deploy it by npx wrangler versions deploy");
        const output = await this.wrangler(["deployments", "status", "-c", file]);
        const before = output.match(/\((100|\d+)%\)\s+([0-9a-f-]{36})/)?.[2];
        const others = before === undefined || percent === 100 ? [] : [`${before}@${100 - percent}%`];
        await this.wrangler(["versions", "deploy", `${version}@${percent}%`, ...others, "-c", file, "--yes"]);
      });
    }
  }

  // The edge first: an edge of the version before knows the aggregator after it, see docs/operate/upgrade.md.
  async rollback() {
    const folder = resolve(this.options.folder);
    const isOne = existsSync(join(folder, "wrangler.jsonc")) && !existsSync(join(folder, "wrangler.aggregator.jsonc"));
    const both = [["edge", "wrangler.jsonc"], ["aggregator", "wrangler.aggregator.jsonc"]];
    for (const [what, name] of isOne ? [["Worker", "wrangler.jsonc"]] : both) {
      const file = join(folder, name);
      if (!existsSync(file) && !this.isDry) throw new Failure(EXIT.notFound, `${file} is not there: name the folder of the deployment by --folder`);
      await this.step(`Go back to the version before of the ${what}`, `wrangler rollback -c ${relative(process.cwd(), file)} --yes`, () => this.wrangler(["rollback", "-c", file, "--yes"]));
    }
    this.screen.line(this.isDry ? "Nothing was changed: this was a dry run." : "The versions before serve again.");
  }

  async smoke({ domain }, key) {
    const where = this.options.url ?? (domain !== undefined ? `https://${domain}` : this.address);
    if (this.isDry) {
      await this.step(
        "Smoke test, here in wrangler's local mode", `wrangler dev ${this.workers().reverse().map(([, file]) => `-c ${this.shown(file)}`).join(" ")}`,
        () => this.local(key), { isSafe: true },
      );
      this.address = domain === undefined ? undefined : `https://${domain}`;
      return;
    }
    if (where === undefined) throw new Failure(EXIT.failed, "wrangler named no address: look for it in its dashboard");
    this.address = where;
    await this.step("Smoke test at the address", `POST ${where}/counters/…/increment`, () =>
      smokeTest(where, key, HEALTHY_MS_MAX),
    );
  }

  // Both Workers under wrangler dev, with the keys and no domain: a route would be the host of each request.
  async local(key) {
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address();
    probe.close();
    await once(probe, "close");
    const files = this.workers()
      .map(([, file]) => file)
      .reverse();
    for (const file of files) {
      const { routes, workers_dev: isPublic, vars, ...rest } = read(file);
      // The local mode has no jurisdictions.
      const { TALLY_JURISDICTION: jurisdiction, ...local } = vars;
      writePrivate(file, JSON.stringify({ ...rest, vars: local }));
    }
    writePrivate(join(this.folder, ".dev.vars"), `TALLY_KEYS='${JSON.stringify(JSON.parse(this.keys))}'\n`);
    const args = [
      "dev", ...files.flatMap((file) => ["-c", file]), "--ip", "127.0.0.1", "--port", String(port), "--persist-to",
      join(this.folder, "state"), "--show-interactive-dev-session=false",
    ];
    const child = spawn(this.program, [...this.first, ...args], {
      stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "1" },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (output += text));
    }
    const ended = once(child, "exit");
    let isOver = false;
    ended.then(() => (isOver = true));
    try {
      await smokeTest(`http://127.0.0.1:${port}`, key, LOCAL_MS_MAX, () => isOver);
    } catch (error) {
      throw new Failure(EXIT.failed, `the smoke test failed: ${error.message}\n${output.slice(-4_000)}`);
    } finally {
      child.kill("SIGTERM");
      await ended;
    }
  }
}

// Counts one, reads it back, and takes the counter away again.
async function smokeTest(url, key, within_ms, isOver = () => false) {
  const tally = new Tally({ url, retries: 3, ...(key === undefined ? {} : { key }) });
  const late = performance.now() + within_ms;
  for (;;) {
    const error = await tally.answer("GET", "/healthz").then(
      () => undefined,
      (refused) => refused,
    );
    if (error === undefined) break;
    if (isOver() || performance.now() > late) {
      throw new Failure(EXIT.unavailable, `${url} is not well: ${error.message}`);
    }
    await new Promise((done) => setTimeout(done, HEALTHY_POLL_MS));
  }
  if (key === undefined) return;
  await tally.increment(SMOKE_COUNTER);
  const { value } = await tally.get(SMOKE_COUNTER, { consistency: "strong" });
  if (!(value >= 1)) throw new Failure(EXIT.failed, `${url} counted one, and reads ${value}`);
  await tally.delete(SMOKE_COUNTER);
}
