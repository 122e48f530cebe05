// Which browser the tests drive, and what is said where there is none.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { findChromium } from "./chromium.mjs";

const folder = mkdtempSync(join(tmpdir(), "tally-chromium-"));
after(() => rmSync(folder, { recursive: true, force: true }));

// Makes a program in a folder of its own on a PATH, and returns its path.
function program(place, name, text = "#!/bin/sh\n") {
  mkdirSync(join(folder, place), { recursive: true });
  const path = join(folder, place, name);
  writeFileSync(path, text);
  chmodSync(path, 0o755);
  return path;
}

test("CHROMIUM comes before the PATH, and chromium before google-chrome", () => {
  const chrome = program("first", "google-chrome");
  const chromium = program("second", "chromium");
  const PATH = `${join(folder, "first")}:${join(folder, "second")}`;
  assert.equal(findChromium({ PATH }), chromium);
  assert.equal(findChromium({ PATH, CHROMIUM: chrome }), chrome);
  assert.equal(findChromium({ PATH: join(folder, "first") }), chrome);
});

test("a folder of that name is no browser, and nothing is found where nothing is", () => {
  mkdirSync(join(folder, "third", "chromium"), { recursive: true });
  assert.equal(findChromium({ PATH: join(folder, "third") }), undefined);
  assert.equal(findChromium({}), undefined);
});

test("a CHROMIUM that is no program is refused, not passed over", () => {
  assert.throws(
    () => findChromium({ PATH: join(folder, "second"), CHROMIUM: "/nowhere/chromium" }),
    /CHROMIUM=\/nowhere\/chromium is not a program/,
  );
});

test("where nothing can be installed, one sentence says what to do", () => {
  const script = fileURLToPath(new URL("chromium.mjs", import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script], {
    env: { PATH: join(folder, "nowhere") }, encoding: "utf8",
  });
  assert.equal(status, 1);
  assert.match(stderr, /no apt-get\nwhat to do: install Chromium or Chrome/);
});

test("where it may be installed it is, after the lists of packages were brought up to date", () => {
  const log = join(folder, "apt.log");
  const bin = join(folder, "debian");
  // An apt-get that knows no package before its lists were updated, and then installs a browser beside itself.
  program("debian", "apt-get", `#!/bin/sh
echo "$*" >>"${log}"
case "$*" in
  --version) ;;
  *update) : >"${bin}/lists" ;;
  *) [ -e "${bin}/lists" ] || exit 100; printf '#!/bin/sh\\necho Chromium 1\\n' >"${bin}/chromium"; /bin/chmod +x "${bin}/chromium" ;;
esac
`);
  program("debian", "sudo", '#!/bin/sh\nshift\nexec "$@"\n');
  program("debian", "true");
  program("debian", "env", '#!/bin/sh\nexport "$1"\nshift\nexec "$@"\n');
  const script = fileURLToPath(new URL("chromium.mjs", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], { env: { PATH: bin }, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /installing the package chromium[^]*debian\/chromium, Chromium 1/);
  const install = "-q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends chromium";
  assert.deepEqual(readFileSync(log, "utf8").trim().split("\n"), [
    "--version", install, "-q -o DPkg::Lock::Timeout=120 update", install,
  ]);
});
