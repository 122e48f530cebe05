// The files that are shipped: all there, nothing asked for that is not, nothing that the page may not run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { dashboardFiles, servedFiles, withFiles } from "../../scripts/dashboard.mjs";

const files = dashboardFiles();

test("whatever a file asks for is among the files", () => {
  for (const [name, text] of files) {
    if (name.startsWith("uPlot")) continue;
    const asked = [...text.matchAll(/(?:\bfrom |\bimport |\b(?:src|href)=)"([^"#]+)"/g)].map(([, path]) =>
      path.replace(/^\.\//, ""),
    );
    for (const path of asked) assert.ok(files.has(path), `${name} asks for ${path}`);
  }
  const used = [...files.values()].join("\n");
  for (const name of files.keys())
    assert.ok(name === "index.html" || used.includes(`"${name}"`) || used.includes(`"./${name}"`), `nothing asks for ${name}`);
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
