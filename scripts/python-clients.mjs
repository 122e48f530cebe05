// Installs the Python clients that Redis's dialect is tested with into .tools/python, by the hashes of
// tests/python/requirements.txt, where this machine has Python; with them the generator of clients that the description
// of the API is tried with, by those of tests/python/generator.txt, and beside them all published versions of
// upstash-ratelimit, by those of tests/python/versions.txt, for their scripts. Without them those tests are left out,
// and this says so: whoever has none can work on all else.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findProgram } from "./debian.mjs";
import { scriptsOf } from "./ratelimit-scripts.mjs";

const FOLDER = fileURLToPath(new URL("../.tools/python", import.meta.url));
const WANTED = fileURLToPath(new URL("../tests/python", import.meta.url));
const VERSIONS = `${FOLDER}/versions`;
const COLLECTOR_FOLDER = `${FOLDER}/collector`;
const DONE = `${FOLDER}/done.txt`;

/** The Python that has them; undefined where it was not installed. */
export const PYTHON = process.env.PYTHON_CLIENTS ?? `${FOLDER}/bin/python`;

const read = (file) => readFileSync(`${WANTED}/${file}`, "utf8");
const wanted = () => ["requirements.txt", "generator.txt", "versions.txt", "collector.txt"].map(read).join("");
const isDone = () => existsSync(DONE) && readFileSync(DONE, "utf8") === wanted();

/** Why their scripts cannot be read; undefined where they can. */
export const WITHOUT_VERSIONS = isDone() ? undefined : "the Python clients are not installed (scripts/python-clients.mjs)";

/** The program of an OpenTelemetry collector, which PyPI has for 64-bit Linux; undefined where it is not installed. */
export const COLLECTOR = [`${COLLECTOR_FOLDER}/rotel/rotel-agent`].find(existsSync);

/** The versions of upstash-ratelimit that a file of tests/python names. */
export const versionsIn = (file) =>
  [...read(file).matchAll(/^upstash-ratelimit==(\S+)/gm)].map(([, version]) => version);

/** Each installed version of upstash-ratelimit, with its programs, and their scripts as `scriptsOf` has them. */
export function pythonVersions() {
  return versionsIn("versions.txt").map((version) => {
    const folder = `${VERSIONS}/${version}/upstash_ratelimit`;
    const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".py"));
    const programs = files.map((file) => readFileSync(join(folder, file), "utf8"));
    return { version, programs, scripts: programs.flatMap((program) => [...scriptsOf(program)]) };
  });
}

function installed() {
  const python = findProgram(["python3"]);
  if (python === undefined) return "python3 is not on the PATH";
  const pip = (...args) => [
    `${FOLDER}/bin/python`, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
    "--only-binary", ":all:", ...args,
  ];
  // pip installs one version of a package at a time, and reads hashes from files alone.
  const files = mkdtempSync(join(tmpdir(), "tally-python-"));
  const versions = read("versions.txt").split("\n").filter((line) => line.startsWith("upstash-ratelimit=="));
  const unpacked = versions.map((line) => {
    const [, version] = /==(\S+)/.exec(line);
    writeFileSync(`${files}/${version}`, line);
    return pip("--no-deps", "--no-compile", "--target", `${VERSIONS}/${version}`, "-r", `${files}/${version}`);
  });
  // It is not for every machine that the clients are for.
  const [program, ...args] = pip("--no-deps", "--target", COLLECTOR_FOLDER, "-r", `${WANTED}/collector.txt`);
  const collector = () => spawnSync(program, args, { encoding: "utf8" }).status === 0;
  const steps = [
    [python, "-m", "venv", "--clear", FOLDER], pip("-r", `${WANTED}/requirements.txt`),
    // Without its formatter.
    pip("--no-deps", "-r", `${WANTED}/generator.txt`), ...unpacked,
  ];
  try {
    for (const [program, ...args] of steps) {
      const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
      if (status !== 0) return `${args.slice(0, 3).join(" ")} failed: ${stderr.trim().split("\n").at(-1)}`;
    }
  } finally {
    rmSync(files, { recursive: true });
  }
  if (!collector()) console.log("python: metrics are not sent to a collector: pip has none for this machine");
  writeFileSync(DONE, wanted());
  return undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const reason = isDone() ? undefined : installed();
  console.log(reason === undefined ? `python: clients in ${FOLDER}` : `python: its clients are not tried: ${reason}\nwhat to do: install Python 3.11 with venv and pip`);
}
