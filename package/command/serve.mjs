// `tally serve`: the server of this package, its settings as options or in the environment.
import { serve as serveFrom } from "../../scripts/server.mjs";
import { EXIT, Failure } from "./outcome.mjs";
import { ROOT } from "./place.mjs";
import { readText } from "./text.mjs";

const DATA_DEFAULT = "tally-data";

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
  await serveFrom(
    {
      root: ROOT,
      base: process.cwd(),
      command: "tally serve",
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
