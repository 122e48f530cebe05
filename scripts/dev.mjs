// Runs both Workers under `wrangler dev` on loopback, rebuilding on change: `make dev`.
//
// Invariant: it listens on 127.0.0.1 only, so that it may be open where no keys are set.
// Variables reach both Workers by `.dev.vars`: `--env-file` and `--var` reach the first Worker only,
// and every user of the machine can read a command line. The file is the user's own where there is
// one; otherwise it is written here from the environment and removed at the end.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HOST_DEFAULT, SettingError, ailment, ownSetting, port, workerVariables } from "./serve-settings.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DEV_PORT_DEFAULT = 8787;
const FILE = join(ROOT, ".dev.vars");
const POLL_MS = 500;
const WRITTEN_HERE = "# Written by make dev from the environment, and removed by it.\n";

// Returns `value` in the quotes that the dotenv format needs: those that it does not contain.
function quoted(name, value) {
  const quote = ["'", "`", '"'].find((mark) => !value.includes(mark));
  if (quote === undefined) throw new SettingError(`${name} holds all three of ' " and \`: use one kind less`);
  return quote + value + quote;
}

// Returns wrangler's arguments for the variables, and whether the file is to be removed at the end.
function variables() {
  const users = existsSync(FILE) ? readFileSync(FILE, "utf8") : WRITTEN_HERE;
  if (!users.startsWith(WRITTEN_HERE)) {
    console.log("dev: variables are those of .dev.vars, the environment's are not used");
    return {
      args: /^\s*(export\s+)?TALLY_(KEYS|ACCESS)\s*=/m.test(users) ? [] : ["--var", "TALLY_ACCESS:open"], remove: false,
    };
  }
  const lines = Object.entries(workerVariables(process.env, true)).map(
    ([name, value]) => `${name}=${quoted(name, value)}\n`,
  );
  rmSync(FILE, { force: true });
  writeFileSync(FILE, WRITTEN_HERE + lines.join(""), { mode: 0o600 });
  return { args: [], remove: true };
}

// Resolves to why the Workers do not start as they are configured, undefined where they do or `isOver`. wrangler builds
// them first, which takes minutes on a new machine, so they are asked until they answer.
async function refusal(url, isOver) {
  for (;;) {
    const found = await ailment(url).catch(() => "nothing answers yet");
    if (isOver() || found === undefined) return undefined;
    if (found.isFinal) return found.detail;
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

function dev() {
  const number = port(ownSetting(process.env, "PORT"), DEV_PORT_DEFAULT);
  const { args, remove } = variables();
  const child = spawn(
    process.execPath,
    [
      join(ROOT, "node_modules/wrangler/bin/wrangler.js"),
      "dev",
      ...["-c", "wrangler.jsonc", "-c", "wrangler.aggregator.jsonc"],
      ...["--ip", HOST_DEFAULT, "--port", String(number), ...args],
    ],
    { cwd: ROOT, stdio: "inherit", env: { ...process.env, WRANGLER_SEND_METRICS: "false" } },
  );
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) {
    process.on(signal, () => {
      isStopping = true;
      // Ctrl-C reaches wrangler by the terminal they share.
      if (signal !== "SIGINT") child.kill("SIGTERM");
    });
  }
  let wrong;
  child.on("exit", (code) => {
    if (remove) rmSync(FILE, { force: true });
    process.exit(wrong !== undefined ? 1 : isStopping ? 0 : (code ?? 1));
  });
  // 0 takes a free port, which wrangler tells the terminal alone.
  if (number === 0) return;
  refusal(`http://${HOST_DEFAULT}:${number}`, () => isStopping).then((sentence) => {
    if (sentence === undefined) return;
    wrong = sentence;
    console.error(`dev: ${sentence}`);
    child.kill("SIGTERM");
  });
}

try {
  dev();
} catch (error) {
  if (!(error instanceof SettingError)) throw error;
  console.error(`dev: ${error.message}`);
  process.exit(1);
}
