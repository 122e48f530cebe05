// What `make bench-setup` found, as text. Pure.
import { slownessSentence } from "./report.mjs";

// From a fresh clone to the first number, with rustup and Node there, on two cores.
export const FIRST_RUN_MS_MAX = 300_000;

const span = (ms) => `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;

/**
 * Returns the report of a first run. lines: [{text, at_ms}…] of `make serve`, the last one its ready line.
 * rebuilt: {ms, said} of `make build` after it. slow: what slowness.mjs returned before and after.
 */
export function firstRun({ lines, rebuilt, slow }) {
  const total = lines.at(-1).at_ms;
  const steps = lines.map(({ text, at_ms }) => `${span(at_ms).padStart(12)}  ${text}`);
  const verdict = total <= FIRST_RUN_MS_MAX ? "met" : "missed";
  const again = rebuilt.output === "" ? "builds nothing again" : `builds again: ${rebuilt.output.split("\n")[0]}`;
  return [
    ...steps,
    "",
    `First run: ${span(total)} (at most ${span(FIRST_RUN_MS_MAX)}: ${verdict}). After it make build takes ${(rebuilt.ms / 1_000).toFixed(1)} s and ${again}.`,
    slownessSentence(slow),
  ].join("\n");
}
