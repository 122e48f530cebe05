// `tally watch`: counters as they change, each with a sparkline of its last minute.
import { clientOf } from "./client.mjs";
import { EXIT, jsonText, number } from "./outcome.mjs";

const BLOCKS = [..."▁▂▃▄▅▆▇█"];
const SECONDS_SHOWN = 60;

/** Returns a sparkline of numbers; the highest is a whole block. */
export function sparkline(numbers) {
  const most = Math.max(...numbers, 1);
  return numbers
    .map((value) => BLOCKS[Math.min(BLOCKS.length - 1, Math.ceil((value / most) * (BLOCKS.length - 1)))])
    .join("");
}

/** Shows counters until it is interrupted, or for so many seconds. */
export async function watch({ args: [ids], options, screen }) {
  const client = clientOf(options);
  // A counter that may not be read is told at once.
  await Promise.all(ids.map((id) => client.get(id).catch((error) => error.status === 404 || Promise.reject(error))));
  const seen = new Map(
    ids.map((id) => [id, { counter: undefined, before: undefined, added: Array(SECONDS_SHOWN).fill(0) }]),
  );
  let drawn = 0;
  const draw = () => {
    const width = Math.max(...ids.map((id) => [...id].length));
    const lines = [...seen].map(([id, { counter, added }]) => {
      const value = counter === null ? "–" : number(counter?.value);
      const rate =
        counter?.rate_per_second === null || counter?.rate_per_second === undefined
          ? ""
          : `${counter.rate_per_second.toFixed(1)}/s`;
      return `${id.padEnd(width)}  ${screen.paint("cyan", sparkline(added))}  ${screen.paint("bold", value)} ${screen.paint("dim", rate)}`;
    });
    if (drawn > 0) process.stdout.write(`\x1b[${drawn}A`);
    for (const line of lines) process.stdout.write(`\x1b[2K${line}\n`);
    drawn = lines.length;
  };
  let end;
  const ended = new Promise((done, failed) => (end = { done, failed }));
  const stop = client.watch(
    ids,
    (counters) => {
      for (const [id, counter] of Object.entries(counters)) {
        const row = seen.get(id);
        const isNews = jsonText(row.counter) !== jsonText(counter);
        const more = row.counter && counter ? Number(BigInt(counter.value) - BigInt(row.counter.value)) : 0;
        row.added[SECONDS_SHOWN - 1] += Math.max(0, more);
        row.counter = counter;
        if (!isNews) continue;
        if (screen.isJson) screen.json({ id, ...(counter ?? { value: null }) });
        else if (!screen.isTerminal) screen.line(`${id} ${counter?.value ?? "–"}`);
      }
      if (!screen.isJson && screen.isTerminal) draw();
    },
    (error) => {
      if (error.status >= 400 && error.status < 500 && error.status !== 429) end.failed(error);
      else screen.note(`the stream ended (${error.message}): it is opened again`);
    },
  );
  const shift = setInterval(() => {
    for (const { added } of seen.values()) {
      added.shift();
      added.push(0);
    }
    if (!screen.isJson && screen.isTerminal) draw();
  }, 1_000);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => end.done());
  const timer = options.for === undefined ? undefined : setTimeout(() => end.done(), 1_000 * options.for);
  try {
    await ended;
  } finally {
    stop();
    clearInterval(shift);
    clearTimeout(timer);
  }
  return EXIT.done;
}
