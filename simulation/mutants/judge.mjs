// Runs the tests that show mutations, and says what became of each.
//
// Invariant: a mutation is caught only if a test that is to show it failed by a law of the tests. A program that is
// ended by a signal or a limit, or a panic of the shipped code alone, shows nothing.
import { spawn, spawnSync } from "node:child_process";

// A mutation may loop, and take memory while it does. Time is that of the processor, which a busy machine leaves as it
// is; a process that waits for nothing at all is ended later.
const MEMORY_KB_MAX = 6_000_000;
const CPU_SECONDS_MAX = 240;
const WAITED_MS_MAX = 3_600_000;
const LIMITED = `ulimit -v ${MEMORY_KB_MAX} 2>/dev/null; ulimit -t ${CPU_SECONDS_MAX}; exec "$0" "$@"`;
const OUTPUT_BYTES_MAX = 20_000_000;
// Where laws are: the programs of tests, and the simulation, which holds a few itself.
const LAWS = /^(?:simulation\/|crates\/[\w-]+\/tests\/|crates\/tally-testing\/)/;

/** Runs a program of tests, and returns how it ended: `code`, or `signal`, and what it wrote. */
export function run({ executable, folder }, args, env) {
  return new Promise((resolve) => {
    const options = { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] };
    const child = spawn("sh", ["-c", LIMITED, executable, ...args], options);
    let [output, isLate] = ["", false];
    const timer = setTimeout(() => {
      isLate = true;
      child.kill("SIGKILL");
    }, WAITED_MS_MAX);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        if (output.length < OUTPUT_BYTES_MAX) output += text;
      });
    }
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, output, isLate: isLate || signal === "SIGXCPU" });
    });
  });
}

/** Returns the names of the tests of a program, by options of libtest. */
export function namesOf({ executable }, options) {
  const { stdout } = spawnSync(executable, ["--list", "--format=terse", ...options], { encoding: "utf8" });
  return stdout.split("\n").filter((line) => line.endsWith(": test")).map((line) => line.slice(0, -": test".length));
}

/** Returns the last panic of each test that failed: where it was, and its first line. */
function panicsOf(output) {
  return output.split(/^---- /m).slice(1).map((section) => {
    const found = [...section.matchAll(/panicked at ([^\n]*?):\d+:\d+:\n([^\n]*)/g)].at(-1);
    return found === undefined ? undefined : { file: found[1], line: found[2] };
  }).filter((panic) => panic !== undefined);
}

/** Returns how many tests ran, by what libtest writes at the end; 0 if it wrote nothing. */
const testsOf = (output) => {
  const ended = output.match(/test result: \w+\. (\d+) passed; (\d+) failed/);
  return ended === null ? 0 : Number(ended[1]) + Number(ended[2]);
};

/** Returns the outcome of a run: "survived", "caught", "timed out", "ended" or "panicked", and a line of why. */
export function outcomeOf({ code, signal, output, isLate }) {
  if (isLate) return { outcome: "timed out", why: "its time is over" };
  const last = output.trim().split("\n").at(-1);
  if (testsOf(output) === 0) return { outcome: "ended", why: `${signal ?? `exit ${code}`}: ${last}` };
  if (code === 0) return { outcome: "survived", why: "" };
  const panics = panicsOf(output);
  const law = panics.find(({ file }) => LAWS.test(file));
  if (law !== undefined) return { outcome: "caught", why: law.line };
  return { outcome: "panicked", why: panics.map(({ file, line }) => `${file}: ${line}`).join("; ") || `exit ${code}` };
}

/** Works through a list, `workers` at a time, and returns the results in its order. */
export async function each(list, workers, work) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < list.length) {
      const at = next;
      next += 1;
      results[at] = await work(list[at]);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return results;
}
