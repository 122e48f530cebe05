// Clients that generators make of the description of the API: they compile, and read what the description shows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { PYTHON } from "../../scripts/python-clients.mjs";
import { ROOT, folder } from "./server.mjs";

const DOCUMENT = join(ROOT, "crates/tally-api/openapi.json");
const JSON_TYPE = "application/json";
const METHODS = ["get", "put", "post", "patch", "delete"];
const place = folder();
after(() => rmSync(place, { recursive: true, force: true }));

const api = JSON.parse(readFileSync(DOCUMENT, "utf8"));
const operations = Object.values(api.paths).flatMap((item) => METHODS.flatMap((method) => item[method] ?? []));

function done(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: place, encoding: "utf8", ...options });
  assert.equal(status, 0, `${program} ${args.join(" ")}\n${stdout}${stderr}${error ?? ""}`);
  return { stdout, told: `${stdout}${stderr}` };
}

// Each example as a value of the type of its answer or body.
function shown() {
  const contents = operations.flatMap(({ operationId, requestBody, responses }) => [
    ...(requestBody ? [[`NonNullable<operations["${operationId}"]["requestBody"]>`, requestBody.content]] : []),
    ...Object.entries(responses)
      .filter(([, { content }]) => content)
      .map(([status, { content }]) => [`operations["${operationId}"]["responses"][${status}]`, content]),
  ]);
  return contents.flatMap(([type, content]) => {
    const { example, examples } = content[JSON_TYPE] ?? {};
    const several = Object.values(examples ?? {}).map(({ value }) => value);
    const values = example === undefined ? several : [example, ...several];
    return values.map((value) => [`${type}["content"]["${JSON_TYPE}"]`, JSON.stringify(value)]);
  });
}

// The compiler knows which codes a call is refused with.
const SWITCH = `
type Conflict = operations["increment"]["responses"][409]["content"]["application/problem+json"];
export function meaning({ code }: Conflict): string {
  switch (code) {
    case "counter-ended": return "deleted";
    case "needs-home": return "several datacenters";
    default: return code satisfies never;
  }
}
`;

test("types by openapi-typescript compile, and every example has the type of its answer", () => {
  const tool = (name) => join(ROOT, "node_modules", name);
  const generator = tool("openapi-typescript/bin/cli.js");
  done(process.execPath, [generator, DOCUMENT, "--default-non-nullable=false", "--output", "api.ts"]);
  const values = shown();
  assert.ok(values.length > 60, `${values.length} examples`);
  const lines = values.map(([type, value], index) => `export const value${index}: ${type} = ${value};\n`);
  writeFileSync(join(place, "use.ts"), `import type { operations } from "./api.ts";\n${SWITCH}${lines.join("")}`);
  const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--allowImportingTsExtensions"];
  done(process.execPath, [
    tool("typescript/bin/tsc"), ...options, "--target", "es2022", "--module", "nodenext", "use.ts",
  ]);
});

// Contents that are no JSON are bytes to the generator.
const CONFIG = {
  post_hooks: [],
  content_type_overrides: Object.fromEntries(
    ["application/x-ndjson", "text/plain", "image/gif", "image/svg+xml", "*/*"].map((type) => [
      type, "application/octet-stream",
    ]),
  ),
};
// Imports every module, and reads the counter that the description shows.
const USE = `
import importlib, json, pkgutil, sys
import httpx, generated
for module in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(module.name)
from generated import Client
from generated.api.counters import increment, read_counter
from generated.models import Counter
shown = json.load(open(sys.argv[1]))
answers = {"GET": (200, shown["counter"]), "POST": (409, shown["refusal"])}
def answer(request):
    status, body = answers[request.method]
    return httpx.Response(status, json=body)
client = Client(base_url="http://tally", httpx_args={"transport": httpx.MockTransport(answer)})
counter = read_counter.sync("blog/hello", client=client)
assert isinstance(counter, Counter) and counter.value == 42 and counter.datacenters[0].id == "FRA", counter
refusal = increment.sync("blog/hello", client=client)
assert refusal.code.value == "needs-home" and refusal.status == 409, refusal
print(len([1 for module in pkgutil.walk_packages(generated.__path__, "generated.") if module.name.count(".") == 3]))
`;

const GENERATOR = PYTHON.replace(/[^/]+$/, "openapi-python-client");
const WITHOUT_GENERATOR = existsSync(GENERATOR) ? undefined : "openapi-python-client is not installed: make test does";

test("a client by openapi-python-client has every call, and reads answers", { skip: WITHOUT_GENERATOR }, () => {
  writeFileSync(join(place, "config.json"), JSON.stringify(CONFIG));
  const { told } = done(GENERATOR, [
    "generate", "--path", DOCUMENT, "--config", "config.json", "--meta", "none", "--output-path", "generated",
  ]);
  assert.doesNotMatch(told, /warning|unable|error/i);
  const counter = api.paths["/counters/{id}"].get.responses[200].content[JSON_TYPE].example;
  const refusal = {
    type: "/problems/needs-home", title: "The counter needs a home for this", status: 409, detail: "…",
    code: "needs-home",
  };
  writeFileSync(join(place, "shown.json"), JSON.stringify({ counter, refusal }));
  writeFileSync(join(place, "use.py"), USE);
  assert.equal(Number(done(PYTHON, ["use.py", "shown.json"]).stdout), operations.length);
});
