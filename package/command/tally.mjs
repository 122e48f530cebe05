#!/usr/bin/env node
import { main } from "./main.mjs";

// A reader such as `head` that has enough ends the pipe.
process.stdout.on("error", (error) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
process.exitCode = await main(process.argv);
