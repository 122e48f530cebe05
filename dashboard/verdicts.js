// What a limiter allowed and refused, out of the text that `/metrics` answers. Source: Prometheus text format 0.0.4.

/**
 * Returns the numbers of the whole deployment, `{ allowed, refused, error, age_s }`, where the text has them; else
 * those of the isolate that answered, `{ allowed, refused, error, started_s }`; undefined where the text has neither.
 */
export function verdictsOf(text) {
  const number = (pattern) => {
    const found = text.match(pattern);
    return found === null ? undefined : Number(found[1]);
  };
  const verdict = (family, name) => number(new RegExp(`^${family}_limit_checks_total\\{verdict="${name}"\\} (\\S+)$`, "m"));
  const of = (family) => ({
    allowed: verdict(family, "allowed"),
    refused: verdict(family, "refused") ?? 0,
    error: verdict(family, "error") ?? 0,
  });
  // Where a part of the deployment did not answer there are no sums.
  const all = of("tally_fleet");
  if (all.allowed !== undefined) return { ...all, age_s: number(/^tally_fleet_age_seconds (\S+)$/m) };
  const own = of("tally");
  if (own.allowed === undefined) return undefined;
  return {
    ...own,
    started_s: number(/^tally_start_time_seconds\{worker="edge"\} (\S+)$/m),
  };
}

/**
 * Returns what happened between two looks, per second, or undefined where they cannot be compared: another isolate
 * answered, or this one began anew, or one look is of all isolates and the other is not. Each look is `{ at_ms,
 * verdicts }`.
 */
export function ratesBetween(before, after) {
  const isOf = ({ verdicts }) => ("age_s" in verdicts ? "all" : verdicts.started_s);
  if (before === undefined || isOf(before) !== isOf(after)) return undefined;
  const seconds = (after.at_ms - before.at_ms) / 1000;
  if (seconds <= 0) return undefined;
  const rates = ["allowed", "refused", "error"].map((name) => [
    name, (after.verdicts[name] - before.verdicts[name]) / seconds,
  ]);
  return rates.every(([, rate]) => rate >= 0) ? Object.fromEntries(rates) : undefined;
}

/**
 * Returns the newest looks with one more; a look that cannot be compared with the one before is a gap. Each is rates,
 * or undefined.
 */
export function withLook(looks, rates, most) {
  return [...looks, rates].slice(-most);
}

/** Returns the columns of a chart of looks: `{ allowed, refused, top }`, null where two looks cannot be compared. */
export function lookColumns(looks) {
  const column = (name) => looks.map((rates) => (rates === undefined ? null : rates[name]));
  const [allowed, refused] = [column("allowed"), column("refused")];
  return { allowed, refused, top: Math.max(0, ...allowed, ...refused) };
}
