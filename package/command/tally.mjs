#!/usr/bin/env node
import { keepPrivate } from "../../scripts/private-files.mjs";
import { main } from "./main.mjs";

keepPrivate();

// A reader such as `head` that has enough ends the pipe.
process.stdout.on("error", (error) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
process.exitCode = await main(process.argv);
