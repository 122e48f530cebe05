// The files that are shipped: all there, nothing asked for that is not, nothing that the page may not run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { dashboardFiles, described, servedFiles, withFiles } from "../../scripts/dashboard.mjs";
import { allBut, features } from "../../scripts/features.mjs";

const files = dashboardFiles();

test("whatever a file asks for is among the files", () => {
  for (const [name, text] of files) {
    if (name.startsWith("uPlot")) continue;
    const paths = [...text.matchAll(/(?:\bfrom |\bimport |\b(?:src|href)=)"([^"#]+)"/g)].map(([, path]) =>
      path.replace(/^\.\//, ""),
    );
    for (const path of paths) assert.ok(files.has(path), `${name} asks for ${path}`);
  }
  const used = [...files.values()].join("\n");
  for (const name of files.keys()) {
    assert.ok(
      name === "index.html" || used.includes(`"${name}"`) || used.includes(`"./${name}"`), `nothing asks for ${name}`,
    );
  }
});

test("no markup is made from text, and no script or style stands in the page", () => {
  for (const [name, text] of files) {
    if (name.startsWith("uPlot")) continue;
    assert.doesNotMatch(
      text,
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc/,
      name,
    );
  }
  assert.doesNotMatch(files.get("index.html"), /<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:/);
});

test("the files are put into a module once, whatever it had before", () => {
  const once = withFiles("export default 1;\n", servedFiles());
  assert.equal(withFiles(once, servedFiles()), once);
  assert.ok(once.includes("dashboard/index.html") && once.includes("openapi.json"));
  assert.equal(withFiles(once, new Map([["a.js", "1"]])).includes("index.html"), false);
  assert.ok(once.startsWith("export default 1;\n"));
});

test("the chart library keeps its licence", () => {
  assert.match(files.get("uPlot.js"), /^\/\*\nThe MIT License/);
});

test("the description of a build has the calls of its features, and of those that they need", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const has = (names, path) => path in JSON.parse(described(root, names)).paths;
  assert.ok(has(undefined, "/export") && has(undefined, "/boards/{board}"));
  // Redis's sorted sets are boards, and an export holds policies too.
  assert.ok(has(["redis"], "/boards/{board}"));
  assert.ok(has(["exports"], "/boards/{board}") && has(["exports"], "/limits/{policy}"));
  assert.ok(!has(["redis"], "/export") && !has(["redis"], "/limits/{policy}") && !has([], "/boards/{board}"));
  const known = features(root);
  assert.deepEqual(known.get("redis"), ["boards"]);
  assert.ok(!allBut("boards", known).some((name) => ["boards", "redis", "exports"].includes(name)));
  assert.ok(allBut("pages", known).length === known.size - 1);
});
