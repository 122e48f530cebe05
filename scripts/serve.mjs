// `make serve`: the server of the source, its data in .data.
import { fileURLToPath } from "node:url";
import { serve } from "./server.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
await serve(
  {
    root,
    base: root,
    command: "make serve",
    withPort: (port) => `PORT=${port} make serve`,
    withData: (path) => `DATA=${path} make serve`,
  },
  process.env,
);
