// Rate limits: what was admitted in a window is at most the limit, and what was given back meanwhile.
//
// When something was admitted lies between its call and its answer. So an interval counts what was sent and answered
// within it.

// How long an edge may use a policy after the policy was changed.
const POLICY_MS = 16_000;
const COUNTED = ["sliding-window", "fixed-window", "token-bucket"];

/** One policy, with all that was put, admitted and given back. */
class Policy {
  puts = [];
  uses = [];
  returns = [];
  hasHolds = false;

  constructor(name, head) {
    Object.assign(this, { name, head });
  }

  /** Why the contract says nothing of its windows here, if so. */
  get why() {
    const [first] = this.puts;
    if (first === undefined) return "its settings are not in the history";
    if (this.hasHolds) return "holds are given back at times that the history does not show";
    if (!COUNTED.includes(first.algorithm)) return `it counts by ${first.algorithm}`;
    if (first.on_error !== "closed" || first.durability !== "commit") return "it may admit more after a failure";
    const isOther = ({ algorithm, window_seconds, scope }) =>
      algorithm !== first.algorithm || window_seconds !== first.window_seconds || scope !== first.scope;
    return this.puts.some(isOther) ? "its window was changed" : undefined;
  }

  violations() {
    if (this.why !== undefined) return [];
    const isGlobal = this.puts[0].scope === "global";
    const placeOf = ({ key, at }) => (isGlobal ? key : `${key} in ${this.head.datacenters[at] ?? at}`);
    const returned = Map.groupBy(this.returns, placeOf);
    const found = [...Map.groupBy(this.uses, placeOf)].flatMap(([place, uses]) =>
      uses.map((use) => this.#judge(place, use, uses, returned.get(place) ?? [])));
    return found.filter((one) => one !== undefined);
  }

  #judge(place, first, uses, returned) {
    const { algorithm, window_seconds: seconds } = this.puts[0];
    const [from, windowMs, clocksMs] = [first.begun.ms, seconds * 1_000, this.head.clocks_ms];
    const isFixed = algorithm === "fixed-window";
    // Two limiters, one after the other, may have clocks that are so far apart.
    if (isFixed && from % windowMs < clocksMs) return undefined;
    const upto = (isFixed ? (Math.floor(from / windowMs) + 1) * windowMs : from + windowMs) - clocksMs;
    if (upto <= from) return undefined;
    const within = uses.filter(({ begun, ended }) => begun.ms >= from && ended.ms < upto);
    const used = within.reduce((sum, { cost }) => sum + cost, 0);
    const back = returned.filter(({ begun, ended }) => begun.ms < upto && ended.ms >= from);
    const limit = this.#largest(from, upto) * (algorithm === "token-bucket" ? 2 : 1);
    const most = limit + back.reduce((sum, { cost }) => sum + cost, 0);
    if (used <= most) return undefined;
    const line = Math.max(...within.map(({ ended }) => ended.index)) + 1;
    const when = `in ${seconds} s from line ${first.begun.index + 1}`;
    return { line, why: `limit ${this.name} of ${place}: ${used} admitted ${when}, at most ${most} may be` };
  }

  // The largest limit that may have been in force.
  #largest(from, upto) {
    const slackMs = POLICY_MS + this.head.clocks_ms;
    const isOver = (put, place) => this.puts.slice(place + 1).some((later) =>
      later.ended.ms + slackMs < from && put.ended.index < later.begun.index);
    const inForce = this.puts.filter((put, place) => put.begun.ms < upto && !isOver(put, place));
    return Math.max(...inForce.map(({ limit }) => limit));
  }
}

/** All policies of a history. */
export class Limits {
  #policies = new Map();
  #head;

  constructor({ head }) {
    this.#head = head;
  }

  #policy(name) {
    if (!this.#policies.has(name)) this.#policies.set(name, new Policy(name, this.#head));
    return this.#policies.get(name);
  }

  /** Notes a call. Returns whether the contract of limits says anything of it. */
  add(call) {
    const [noun, name, key, verb] = call.path;
    if (noun !== "limits" || (name === undefined && call.method !== "POST")) return false;
    const { begun, at, type } = call;
    const ended = type === "ok" ? call.ended : { index: Infinity, ms: Infinity };
    if (call.method === "PUT" && key === undefined) {
      if (type !== "fail") this.#policy(name).puts.push({ ...call.body, begun, ended });
      return true;
    }
    if (call.method !== "POST") return false;
    if (name === undefined) return this.#onChecks(call);
    const policy = this.#policy(name);
    if (verb === "refund") {
      if (type !== "fail") policy.returns.push({ key, at, cost: call.body?.cost ?? 1, begun, ended });
      return true;
    }
    if (verb !== undefined) {
      policy.hasHolds = true;
      return false;
    }
    if (type === "ok") policy.uses.push({ key, at, cost: call.body?.cost ?? 1, begun, ended });
    return true;
  }

  #onChecks({ body, at, begun, ended, type }) {
    for (const { policy, key, cost = 1 } of body?.checks ?? []) {
      if (body.hold !== undefined) this.#policy(policy).hasHolds = true;
      if (type === "ok") this.#policy(policy).uses.push({ key, at, cost, begun, ended });
    }
    return body?.hold === undefined;
  }

  violations() {
    return [...this.#policies.values()].flatMap((policy) => policy.violations());
  }

  get judged() {
    const judged = [...this.#policies.values()].filter(({ why }) => why === undefined);
    return judged.reduce((sum, { uses }) => sum + uses.length, 0);
  }

  /** Policies of which the contract says nothing here, with the reason. */
  get unjudged() {
    const unjudged = [...this.#policies.values()].filter(({ why }) => why !== undefined);
    return unjudged.map(({ name, why }) => `limit ${name}: ${why}`);
  }
}
