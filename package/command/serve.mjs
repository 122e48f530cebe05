// `tally serve`: the server of this package, its settings as options or in the environment; with `--native` the program
// `tally-server` instead, where there is one.
import { spawn } from "node:child_process";
import { nativeServer } from "./native.mjs";
import { EXIT, Failure } from "./outcome.mjs";
import { ROOT } from "./place.mjs";
import { readText } from "./text.mjs";

const DATA_DEFAULT = "tally-data";

// Runs the native server until it ends, and resolves to its exit code. It reads the same variables.
function serveNatively(env) {
  const { program, fault } = nativeServer({ env });
  if (fault !== undefined) throw new Failure(EXIT.usage, `--native: ${fault}`);
  delete env.TALLY_SERVER;
  const child = spawn(program, { stdio: "inherit", env });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  return new Promise((done, failed) => {
    child.on("error", ({ message }) => {
      failed(new Failure(EXIT.usage, `--native: ${program} cannot be started: ${message}`));
    });
    child.on("exit", (code) => done(code ?? 1));
  });
}

/** Serves until a signal ends it. */
export async function serve({ options, screen }) {
  const { port, data, host, keys, edges } = options;
  const env = { ...process.env };
  const given = { TALLY_PORT: port, TALLY_DATA: data, TALLY_HOST: host, SERVE_EDGES: edges };
  for (const [name, value] of Object.entries(given)) if (value !== undefined) env[name] = value;
  env.TALLY_DATA ||= env.DATA || DATA_DEFAULT;
  // The key of the command is no setting of the server.
  for (const name of ["TALLY_URL", "TALLY_KEY", "TALLY_KEY_FILE", "TALLY_STATE", "TALLY_DEBUG"]) delete env[name];
  if (keys !== undefined) {
    try {
      env.TALLY_KEYS = readText(keys);
    } catch (error) {
      throw new Failure(EXIT.usage, `--keys ${error.message}`);
    }
  }
  if (options.native) process.exit(await serveNatively(env));
  // It loads workerd, which the native server does without.
  const { serve: serveFrom } = await import("../../scripts/server.mjs");
  await serveFrom(
    {
      root: ROOT,
      base: process.cwd(),
      command: "tally serve",
      settings: "options",
      // npx that is killed sends no signal.
      parent: process.env.npm_command === "exec" ? process.ppid : undefined,
      withPort: (other) => `tally serve --port ${other}`,
      withData: (path) => `tally serve --data ${path}`,
      ...(screen.isJson
        ? {
            ready: (urls) =>
              screen.json({ ready: true, urls, dashboard: `${urls[0]}/dashboard/`, data: env.TALLY_DATA }),
          }
        : {}),
    },
    env,
  );
  // The server lives on, until a signal.
  await new Promise(() => {});
}
