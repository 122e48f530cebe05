// `tally top`, `tally get`.
import { clientOf } from "./client.mjs";
import { EXIT, Failure, exitOf, number, table } from "./outcome.mjs";

// Rows of an answer where no limit is given.
const ROWS_DEFAULT = 100;
const REPORTED = "counters report what they counted within 70 s, and `tally get <id>` reads one now";

/**
 * Returns a top as people read it. What a counter has not reported yet is in no row, so an empty top does not say that
 * nothing was counted.
 */
export function topText({ entries: rows, total, by, counters }, limit = ROWS_DEFAULT, paint = (_, text) => text) {
  const many = (count) => `${number(count)} ${count === 1 ? "counter" : "counters"}`;
  if (rows.length === 0) {
    return counters === 0
      ? `no counter has reported a count there: ${REPORTED}; lines of an imported log count at their own times`
      : `${many(counters)} there, and none has reported a count yet: ${REPORTED}`;
  }
  const value = (row) => number(by === "uniques" ? (row.uniques?.estimate ?? row.uniques) : (row.value ?? row.count));
  const share = (row) => (row.share === undefined || row.share === null ? "" : `${(100 * row.share).toFixed(1)} %`);
  // By value alone, those without a report are among the counters.
  const unreported = by === "value" && rows.length < limit ? Math.max(0, counters - rows.length) : 0;
  const rest = unreported === 0 ? "" : `; ${number(unreported)} not reported yet`;
  const sums = `${many(counters)}, ${number(total)} in all${rest}`;
  return `${table(rows.map((row) => [row.rank, value(row), share(row), row.id]), [0, 1, 2])}\n${paint("dim", sums)}`;
}

/** Which counters have most. */
export async function top({ args: [prefix], options, screen }) {
  const { by, window, limit } = options;
  const found = await clientOf(options).top({ prefix, by, window, limit }).catch((error) => {
    if (prefix !== undefined || error.status !== 403) throw error;
    throw new Failure(EXIT.notAllowed, `${error.message}; if the key has a prefix, name it: tally top /blog/`);
  });
  screen.show(found, (answer) => topText(answer, limit, (style, text) => screen.paint(style, text)));
}

/** Reads counters: one that does not exist is told, and makes the exit code 3. */
export async function get({ args: [ids], options, screen }) {
  const client = clientOf(options);
  const query = {
    ...(options.strong ? { consistency: "strong" } : {}),
    ...(options.window === undefined ? {} : { window: options.window }),
  };
  let exit = EXIT.done;
  const read = await Promise.all(
    ids.map((id) =>
      client.get(id, query).catch((error) => {
        if (exitOf(error) !== EXIT.notFound) throw error;
        exit = EXIT.notFound;
        return { id, value: null, error: error.message };
      }),
    ),
  );
  if (screen.isJson) {
    for (const counter of read) screen.json(counter);
    return exit;
  }
  if (options.value) for (const { value } of read) screen.line(value ?? "");
  else {
    const freshness = ({ value, exact, staleness_ms }) =>
      value === null ? "does not exist" : exact ? "exact" : `${staleness_ms} ms old`;
    const more = ({ uniques, window }) => [
      uniques ? `${number(Math.round(uniques.estimate))} unique` : "",
      window?.count === undefined ? "" : `${number(window.count)} in ${number(window.seconds)} s`,
    ];
    screen.line(
      table(
        read.map((counter) => [counter.id, number(counter.value), freshness(counter), ...more(counter)]), [1],
      ),
    );
  }
  return exit;
}
