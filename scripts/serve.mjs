// `make serve`: the server of the source, its data in .data.
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "./server.mjs";

// `--parent <pid>`: make, whose end ends the server.
const { parent } = parseArgs({ options: { parent: { type: "string" } } }).values;
const root = fileURLToPath(new URL("..", import.meta.url));
await serve(
  {
    root,
    base: root,
    command: "make serve",
    parent: parent === undefined ? undefined : Number(parent),
    withPort: (port) => `TALLY_PORT=${port} make serve`,
    withData: (path) => `TALLY_DATA=${path} make serve`,
  },
  process.env,
);
