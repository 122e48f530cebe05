// Installs the Python clients that Redis's dialect is tested with into .tools/python, by the hashes of
// tests/python/requirements.txt, where this machine has Python. Without them those tests are left out, and this says
// so: whoever has none can work on all else.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { findProgram } from "./debian.mjs";

const FOLDER = fileURLToPath(new URL("../.tools/python", import.meta.url));
const WANTED = fileURLToPath(new URL("../tests/python/requirements.txt", import.meta.url));
const DONE = `${FOLDER}/requirements.txt`;

/** The Python that has them; undefined where it was not installed. */
export const PYTHON = process.env.PYTHON_CLIENTS ?? `${FOLDER}/bin/python`;

const isDone = () => existsSync(DONE) && readFileSync(DONE, "utf8") === readFileSync(WANTED, "utf8");

function installed() {
  const python = findProgram(["python3"]);
  if (python === undefined) return "python3 is not on the PATH";
  const steps = [
    [python, "-m", "venv", "--clear", FOLDER],
    [`${FOLDER}/bin/python`, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", WANTED],
  ];
  for (const [program, ...args] of steps) {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    if (status !== 0) return `${args.slice(0, 3).join(" ")} failed: ${stderr.trim().split("\n").at(-1)}`;
  }
  copyFileSync(WANTED, DONE);
  return undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const reason = isDone() ? undefined : installed();
  console.log(reason === undefined ? `python: clients in ${FOLDER}` : `python: its clients are not tried: ${reason}\nwhat to do: install Python 3.11 with venv and pip`);
}
