// What a limiter allowed and refused, out of the text that `/metrics` answers. Source: Prometheus text format 0.0.4.

/** Returns the numbers of one isolate: `{ allowed, refused, error, started_s }`, undefined where the text has none. */
export function verdictsOf(text) {
  const number = (pattern) => {
    const found = text.match(pattern);
    return found === null ? undefined : Number(found[1]);
  };
  const verdict = (name) => number(new RegExp(`^tally_limit_checks_total\\{verdict="${name}"\\} (\\S+)$`, "m"));
  const allowed = verdict("allowed");
  if (allowed === undefined) return undefined;
  return {
    allowed,
    refused: verdict("refused") ?? 0,
    error: verdict("error") ?? 0,
    started_s: number(/^tally_start_time_seconds\{worker="edge"\} (\S+)$/m),
  };
}

/**
 * Returns what happened between two looks, per second, or undefined where they cannot be compared: another isolate
 * answered, or this one began anew. Each look is `{ at_ms, verdicts }`.
 */
export function ratesBetween(before, after) {
  if (before === undefined || before.verdicts.started_s !== after.verdicts.started_s) return undefined;
  const seconds = (after.at_ms - before.at_ms) / 1000;
  if (seconds <= 0) return undefined;
  const rates = ["allowed", "refused", "error"].map((name) => [name, (after.verdicts[name] - before.verdicts[name]) / seconds]);
  return rates.every(([, rate]) => rate >= 0) ? Object.fromEntries(rates) : undefined;
}

/** Returns the newest looks with one more; a look that cannot be compared with the one before is a gap. Each is rates, or undefined. */
export function withLook(looks, rates, most) {
  return [...looks, rates].slice(-most);
}

/** Returns the columns of a chart of looks: `{ allowed, refused, top }`, null where two looks cannot be compared. */
export function lookColumns(looks) {
  const column = (name) => looks.map((rates) => (rates === undefined ? null : rates[name]));
  const [allowed, refused] = [column("allowed"), column("refused")];
  return { allowed, refused, top: Math.max(0, ...allowed, ...refused) };
}
