// The chart of deploy/kubernetes, rendered by Helm's own program. Each object fits the schema of its kind, and what the
// objects say of each other agrees. Values that would count twice, or not start, are refused.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { HELM, WITHOUT_HELM, load, loadModule } from "../../scripts/kubernetes.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CHART = join(ROOT, "deploy/kubernetes/tally");
const IMAGE = ["image.repository=registry.example/tally-server"];
const OPTIONS = { skip: WITHOUT_HELM ?? false };

// Runs Helm. Its folders are temporary, so that nothing of this machine decides.
function helm(command, values, name = []) {
  const home = mkdtempSync(join(tmpdir(), "tally-helm-"));
  const set = values.flatMap((value) => ["--set", value]);
  const { status, stdout, stderr } = spawnSync(HELM, [command, ...name, CHART, ...set], {
    encoding: "utf8", env: { PATH: process.env.PATH, HOME: home },
  });
  rmSync(home, { recursive: true });
  return { status, stdout, stderr };
}

/** The objects of a release by their kinds. */
function rendered(values = [], name = "tally") {
  const { status, stdout, stderr } = helm("template", [...IMAGE, ...values], [name, "--namespace", "counts"]);
  assert.equal(status, 0, stderr);
  const all = load("js-yaml").loadAll(stdout).filter(Boolean);
  return Object.fromEntries(all.map((object) => [object.kind, object]));
}

const ALL = ["serviceMonitor.enabled=true", "settings.TALLY_TABLETS=64", "storage.className=fast"];
const KINDS = {
  PodDisruptionBudget: "kubernetes-models/policy/v1",
  Service: "kubernetes-models/v1",
  StatefulSet: "kubernetes-models/apps/v1",
  ServiceMonitor: "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};

// The schemas let names pass that they do not know, and Kubernetes drops these. So each name must be read.
function watched(value, at, unread) {
  if (typeof value !== "object" || value === null) return value;
  const parts = Object.entries(value).map(([name, part]) => [name, watched(part, `${at}.${name}`, unread)]);
  const copy = Array.isArray(value) ? parts.map(([, part]) => part) : Object.fromEntries(parts);
  for (const name of Object.keys(value)) unread.add(`${at}.${name}`);
  return new Proxy(copy, {
    get: (target, name) => {
      unread.delete(`${at}.${String(name)}`);
      return target[name];
    },
  });
}

async function fits(object) {
  const { [object.kind]: Model } = await loadModule(`${KINDS[object.kind]}/${object.kind}.js`);
  const unread = new Set();
  // A model copies what it is made of, so its parts are put in afterwards.
  Object.assign(new Model(), { ...watched(object, object.kind, unread) }).validate();
  assert.deepEqual([...unread], [], "names that the schema does not know");
}

test("each object fits the schema of its kind", OPTIONS, async () => {
  const objects = rendered(ALL);
  assert.deepEqual(Object.keys(objects).sort(), Object.keys(KINDS).sort());
  for (const object of Object.values(objects)) await fits(object);
  // A schema that takes everything would show nothing.
  const { StatefulSet } = structuredClone(objects);
  StatefulSet.spec.replicas = "one";
  await assert.rejects(fits(StatefulSet), /replicas/);
  const { Service } = structuredClone(objects);
  Service.spec.unknown = 1;
  await assert.rejects(fits(Service), /unknown/);
  const { status, stdout } = helm("lint", IMAGE, ["--strict"]);
  assert.equal(status, 0, stdout);
});

test("one pod has the volume, its keys and its probes, and all others find it by its labels", OPTIONS, () => {
  for (const name of ["tally", "other"]) {
    const { StatefulSet, Service, PodDisruptionBudget, ServiceMonitor } = rendered(ALL, name);
    const { spec } = StatefulSet;
    const pod = spec.template.spec;
    const [container] = pod.containers;
    assert.deepEqual([spec.replicas, spec.serviceName], [1, Service.metadata.name]);
    const { labels } = spec.template.metadata;
    for (const selector of [
      spec.selector.matchLabels, Service.spec.selector, PodDisruptionBudget.spec.selector.matchLabels,
    ]) {
      assert.deepEqual(selector, labels);
    }
    for (const [label, value] of Object.entries(ServiceMonitor.spec.selector.matchLabels)) {
      assert.equal(Service.metadata.labels[label], value);
    }
    assert.equal(PodDisruptionBudget.spec.maxUnavailable, 0);
    assert.equal(ServiceMonitor.spec.endpoints[0].port, Service.spec.ports[0].name);
    const [port] = container.ports;
    assert.equal(Service.spec.ports[0].targetPort, port.name);
    for (const probe of ["startupProbe", "readinessProbe"]) {
      assert.deepEqual(container[probe].httpGet, { path: "/healthz", port: port.name });
    }
    // A full disk fails /healthz, and a restart would only end the reads.
    assert.deepEqual(container.livenessProbe.tcpSocket, { port: port.name });
    const mounts = Object.fromEntries(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
    const volumes = [...pod.volumes, ...spec.volumeClaimTemplates.map(({ metadata }) => metadata)];
    assert.deepEqual(volumes.map(({ name }) => name).sort(), Object.keys(mounts).sort());
    const [claim] = spec.volumeClaimTemplates;
    assert.deepEqual([claim.spec.storageClassName, claim.spec.resources.requests.storage], ["fast", "10Gi"]);
    const options = Object.fromEntries(
      container.args.flatMap((arg, index) => (index % 2 ? [] : [[arg, container.args[index + 1]]])),
    );
    assert.deepEqual(
      [options["--data"].startsWith(`${mounts.data}/`), options["--keys"], options["--port"]],
      [true, `${mounts.keys}/keys.json`, String(port.containerPort)],
    );
    const known = readFileSync(join(ROOT, "docs/operate/native.md"), "utf8");
    for (const option of Object.keys(options)) assert.ok(known.includes(`| \`${option}\` |`), option);
    assert.deepEqual(container.env, [{ name: "TALLY_TABLETS", value: "64" }]);
    const { securityContext } = container;
    assert.ok(securityContext.readOnlyRootFilesystem && !securityContext.allowPrivilegeEscalation);
    assert.ok(pod.securityContext.runAsNonRoot && pod.terminationGracePeriodSeconds > 5);
  }
});

test("values that would count apart, or not start, are refused by their names", OPTIONS, () => {
  for (const [value, why] of [
    ["replicas=2", /'replicas' not allowed/], ["storage.size=10", /storage\/size/],
    ["settings.TALLY_DATA=/elsewhere", /TALLY_DATA/], ["settings.HOST=x", /HOST/], ["keys.secretName=", /secretName/],
    ["serviceMonitor.interval=often", /interval/],
  ]) {
    const { status, stderr } = helm("template", [...IMAGE, value]);
    assert.notEqual(status, 0, value);
    assert.match(stderr, why, value);
  }
  assert.match(helm("template", []).stderr, /repository/);
  const { PodDisruptionBudget, ServiceMonitor } = rendered(["podDisruptionBudget.enabled=false"]);
  assert.deepEqual([PodDisruptionBudget, ServiceMonitor], [undefined, undefined]);
});

test("the chart has the version of the build", OPTIONS, () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const chart = load("js-yaml").load(readFileSync(join(CHART, "Chart.yaml"), "utf8"));
  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});
