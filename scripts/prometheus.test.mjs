// The rules, the example configuration and the dashboard in deploy/, by the real programs: promtool reads and tries the
// rules, and a real Prometheus scrapes a server and answers every query of the dashboard. That each name is one of a
// real /metrics is shown by simulation/tests/totals/fleet.rs and, on a whole server, by tests/e2e/metrics.spec.mjs.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Server } from "../tests/crash/server.mjs";
import { findProgram } from "./debian.mjs";

const DEPLOY = new URL("../deploy/", import.meta.url).pathname;
const RULES = join(DEPLOY, "prometheus/rules.yml");
const DASHBOARD = JSON.parse(readFileSync(join(DEPLOY, "grafana/tally.json"), "utf8"));
const [PROMTOOL, PROMETHEUS] = ["promtool", "prometheus"].map((name) => findProgram([name]));
const hasPrometheus = PROMTOOL !== undefined && PROMETHEUS !== undefined;
const skip = hasPrometheus ? false : "there is no prometheus: scripts/prometheus.mjs";
const OPTIONS = { skip, timeout: 90_000 };

/** Names of metrics that a text speaks of. */
const namesIn = (text) => [...new Set(text.match(/\btally_[a-z_]+/g) ?? [])];
const panels = DASHBOARD.panels.filter(({ type }) => type !== "row");
const queries = panels.flatMap(({ title, targets }) =>
  targets.map(({ expr }) => ({ title, expr: expr.replaceAll("$__rate_interval", "1m") })),
);

function promtool(args, input = "") {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { encoding: "utf8", input });
  assert.equal(status, 0, `promtool ${args.join(" ")}: ${stdout}${stderr}`);
}

test("promtool reads the rules and the example, and the rules ring when they should", { skip }, () => {
  promtool(["check", "rules", RULES]);
  promtool(["check", "config", join(DEPLOY, "prometheus/prometheus.yml")]);
  promtool(["test", "rules", join(DEPLOY, "prometheus/rules.test.yml")]);
});

// Families that a server has only after its first report, of 10 s.
const LATER = [
  "tally_fleet_acknowledged_total", "tally_fleet_clock_offset_seconds", "tally_fleet_stored_bytes",
  "tally_fleet_counters",
];

test("promtool finds nothing to mend in the /metrics of a server: names, units, help", OPTIONS, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "tally-metrics-"));
  const server = new Server({ folder });
  t.after(async () => {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  });
  await server.start();
  const [url] = server.urls;
  const text = await until("a report of each family", async () => {
    await fetch(`${url}/counters/measured/increment`, { method: "POST" });
    await fetch(`${url}/api/event`, { method: "POST", body: '{"key":"queued"}' });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return LATER.every((name) => metrics.includes(`# HELP ${name} `)) && metrics;
  });
  promtool(["check", "metrics"], text);
});

test("each alert says what is wrong and what to do, and is tried", () => {
  const rules = readFileSync(RULES, "utf8");
  const tried = readFileSync(join(DEPLOY, "prometheus/rules.test.yml"), "utf8");
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  assert.ok(alerts.length >= 8);
  for (const name of alerts) {
    const text = rules.slice(rules.indexOf(`- alert: ${name}`)).split("\n\n")[0];
    for (const part of ["severity:", "summary:", "description:"]) {
      assert.ok(text.includes(part), `${name} lacks ${part}`);
    }
    assert.match(
      tried, new RegExp(`- alertname: ${name}\\n\\s+eval_time: \\S+\\n\\s+exp_alerts:\\n\\s+- exp_labels`),
      `${name} never rings in a test`,
    );
  }
});

// Source: grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model.
test("the dashboard has the shape that Grafana documents", () => {
  for (const field of [
    "uid", "title", "tags", "timezone", "schemaVersion", "version", "refresh", "time", "panels", "templating",
    "annotations",
  ]) {
    assert.ok(field in DASHBOARD, field);
  }
  assert.ok(DASHBOARD.schemaVersion >= 36);
  assert.deepEqual(
    DASHBOARD.templating.list.map(({ name, type, query }) => [name, type, query]),
    [["datasource", "datasource", "prometheus"]],
  );
  const ids = DASHBOARD.panels.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  const taken = new Set();
  for (const { type, title, gridPos, targets, datasource, fieldConfig } of DASHBOARD.panels) {
    assert.ok(["row", "stat", "timeseries"].includes(type), title);
    const { x, y, w, h } = gridPos;
    assert.ok(x >= 0 && x + w <= 24 && h > 0, title);
    for (let column = x; column < x + w; column++)
      for (let line = y; line < y + h; line++) {
        assert.ok(!taken.has(`${column}/${line}`), `${title} lies on another panel`);
        taken.add(`${column}/${line}`);
      }
    if (type === "row") continue;
    assert.deepEqual(datasource, { type: "prometheus", uid: "${datasource}" }, title);
    assert.ok(fieldConfig.defaults.unit, title);
    assert.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
    assert.ok(targets.length > 0 && targets.every(({ expr }) => namesIn(expr).length > 0), title);
  }
});

/**
 * A text in which each series of the dashboard has a sample that rises: what it holds is shown elsewhere to be a real
 * one's names.
 */
function made(at) {
  const names = namesIn(queries.map(({ expr }) => expr).join(" "));
  const labels = 'code="unavailable",datacenter="FRA",from="memory",inbox="FRA/0",kind="cell",operation="increment",outcome="counted",reason="watched",role="edge",route="increment",verdict="allowed"';
  const line = (name) => (name.endsWith("_bucket") ? `${name}{${labels},le="+Inf"} ${at}` : `${name}{${labels}} ${at}`);
  return `${names.map(line).join("\n")}\n`;
}

const free = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

async function until(what, look) {
  for (let tries = 0; tries < 600; tries++) {
    const found = await look().catch(() => undefined);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`in 600 tries never: ${what}`);
}

test("a real Prometheus loads the rules and answers every query of the dashboard", OPTIONS, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "tally-prometheus-"));
  let at = 0;
  const scraped = createServer((_, response) =>
    response.setHeader("content-type", "text/plain; version=0.0.4").end(made((at += 10))),
  );
  await new Promise((resolve) => scraped.listen(0, "127.0.0.1", resolve));
  const port = await free();
  const config = readFileSync(join(DEPLOY, "prometheus/prometheus.yml"), "utf8")
    .replace("rules.yml", RULES)
    .replace("127.0.0.1:8788", `127.0.0.1:${scraped.address().port}`)
    .replaceAll("15s", "1s");
  writeFileSync(join(folder, "prometheus.yml"), config);
  const args = [
    `--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const server = spawn(PROMETHEUS, args, { stdio: "ignore" });
  t.after(async () => {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill();
    await ended;
    scraped.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const api = async (path) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    return { ...(await answer.json()), status: answer.status };
  };
  await until("three scrapes", async () => {
    const { data } = await api(`query?query=${encodeURIComponent("count_over_time(tally_fleet_up[1m]) >= 3")}`);
    return data.result.length > 0;
  });
  const { data } = await api("rules");
  const rules = data.groups.flatMap((group) => group.rules);
  assert.ok(rules.length >= 12);
  for (const { name, health, lastError } of rules) assert.notEqual(health, "err", `${name}: ${lastError}`);
  for (const { title, expr } of queries) {
    const { status, data: found, error } = await api(`query?query=${encodeURIComponent(expr)}`);
    assert.equal(status, 200, `${title}: ${expr}: ${error}`);
    assert.ok(found.result.length > 0, `${title}: nothing answers ${expr}`);
  }
});
