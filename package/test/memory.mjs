// How much memory `tally import` takes for a log of some megabytes, and how fast it is: the command as people run it,
// of its own heap, fed by a pipe from a log that is made on the way and lies nowhere.
//
//   node_modules/.bin/node package/test/memory.mjs 300            against `tally serve` of this machine, which counts
//   each line node_modules/.bin/node package/test/memory.mjs 300 --nowhere  against a receiver that counts nothing: the
//   command alone
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { between, oneOf, randomFrom } from "../../tests/crash/random.mjs";
import { TALLY, folder, openServer } from "./server.mjs";

const MEGABYTE = 1024 * 1024;
const CHUNK_LINES = 1_000;
const AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1"];
// How long nothing must arrive there before anything is answered: whoever sends without waiting for answers sends all
// of it.
const QUIET_MS = 1_000;
// Tells the most memory that a process had once it ends.
const TELLS = `data:text/javascript,process.on("exit",()=>process.stderr.write("\\nmaxrss "+process.resourceUsage().maxRSS+"\\n"))`;

/** Yields the bytes of an access log of at least so many bytes. `progress.lines` is how many lines it had so far. */
function* logOf(bytes, pages, progress) {
  const random = randomFrom(7);
  let at_s = Date.UTC(2026, 4, 17) / 1000;
  for (let made = 0; made < bytes; ) {
    const lines = Array.from({ length: CHUNK_LINES }, () => {
      const when = new Date((at_s += between(random, 0, 1)) * 1000).toUTCString().split(" ");
      const page = Math.floor(random() ** 3 * pages);
      return `203.0.113.${between(random, 1, 254)} - - [${when[1]}/${when[2]}/${when[3]}:${when[4]} +0000] "GET /articles/${page} HTTP/1.1" 200 ${between(random, 100, 99_999)} "https://example.com/" "${oneOf(random, AGENTS)}"\n`;
    });
    const chunk = Buffer.from(lines.join(""));
    made += chunk.length;
    progress.lines += CHUNK_LINES;
    yield chunk;
  }
}

// Takes bodies of /ingest as the service does, keeps nothing of them but how many lines they had, and answers once
// nobody sends more.
async function openReceiver() {
  let waiting = [];
  let quiet;
  const answerAll = () => {
    for (const answer of waiting) answer();
    waiting = [];
  };
  const server = createServer(async (request, response) => {
    let lines = request.method === "POST" ? 1 : 0;
    for await (const chunk of request) for (const byte of chunk) if (byte === 10) lines += 1;
    const answer = () =>
      response
        .setHeader("content-type", "application/json")
        .end(JSON.stringify({ accepted: lines, rejected: 0, errors: [] }));
    if (request.method === "GET") return answer();
    waiting.push(answer);
    clearTimeout(quiet);
    quiet = setTimeout(answerAll, QUIET_MS);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const place = folder();
  const end = () => (rmSync(place, { recursive: true }), server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, place, end };
}

/**
 * Imports a log of so many megabytes by a command whose heap of JavaScript has `heap_mb` at most. Resolves to `{ code,
 * stderr, lines, counted, seconds, rss_mb }`: its exit code, lines that the log had and that were counted, and the most
 * memory that the process had.
 */
export async function measure({ megabytes, heap_mb, pages = 2_000, isNowhere = false }) {
  const server = isNowhere ? await openReceiver() : await openServer();
  try {
    const log = { lines: 0 };
    const heap = heap_mb === undefined ? [] : [`--max-old-space-size=${heap_mb}`];
    const child = spawn(process.execPath, [...heap, "--import", TELLS, TALLY, "import", "--json", "-"], {
      env: { ...process.env, TALLY_URL: server.url, TALLY_STATE: `${server.place}/state` },
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (text) => (stdout += text));
    child.stderr.on("data", (text) => (stderr += text));
    const ended = once(child, "close");
    // A command that ends before its input does breaks the pipe.
    await pipeline(Readable.from(logOf(megabytes * MEGABYTE, pages, log)), child.stdin).catch(() => {});
    const [code] = await ended;
    const rss_mb = Math.round(Number(stderr.match(/^maxrss (\d+)$/m)?.[1]) / 1024);
    const { counted, seconds } = code === 0 ? JSON.parse(stdout) : {};
    return { code, stderr, lines: log.lines, counted, seconds, rss_mb };
  } finally {
    await server.end();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [megabytes = "300", flag] = process.argv.slice(2);
  const { stderr, ...figures } = await measure({ megabytes: Number(megabytes), isNowhere: flag === "--nowhere" });
  const lines_per_second = Math.round(figures.lines / figures.seconds);
  console.log(JSON.stringify({ megabytes: Number(megabytes), ...figures, lines_per_second }));
  if (figures.code !== 0) console.error(stderr);
  process.exitCode = figures.code === 0 && figures.counted === figures.lines ? 0 : 1;
}
