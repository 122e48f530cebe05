#!/usr/bin/env node
import { keepPrivate } from "../../scripts/private-files.mjs";
import { main } from "./main.mjs";
import { EXIT } from "./outcome.mjs";

keepPrivate();

// A reader such as `head` that has enough ends the pipe.
process.stdout.on("error", (error) => {
  if (error.code === "EPIPE") process.exit(EXIT.done);
  process.stderr.write(`tally: standard output cannot be written (${error.code}): make room there, or name a file elsewhere\n`);
  process.exit(EXIT.failed);
});
// There is no other place to say it.
process.stderr.on("error", () => {});
process.exitCode = await main(process.argv);
