// The checker of histories finds each kind of violation, and accepts what the contract allows.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { judge, judgeAll } from "./check.mjs";
import { waysOf } from "./sums.mjs";
import { History } from "./written.mjs";

const STRONG = "?consistency=strong";
const COUNTER = "/counters/a";

/** A history of calls one after the other, each a second long, with what may be under way meanwhile. */
class Story {
  #lines = [];
  #seconds = 0;
  #history;

  constructor(head = {}) {
    const now = () => this.#seconds++ * 1e9;
    this.#history = new History({
      write: (line) => this.#lines.push(line), now,
      head: { source: "a test", began_ms: 0, clocks_ms: 2, datacenters: {}, ...head },
    });
  }

  begin(method, path, options = {}) {
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    return this.#history.begin({ method, path, at: "FRA", ...options, body: options.text ?? body });
  }

  /** A call with its answer; no answer is an unknown outcome. */
  call(method, path, options, status, json) {
    const end = this.begin(method, path, options);
    end(status === undefined ? undefined : { status, json, text: JSON.stringify(json) });
    return this;
  }

  add(delta, value, { key, exact = true } = {}) {
    const headers = key === undefined ? {} : { "idempotency-key": key };
    const answer = value === undefined ? [] : [200, { id: "a", delta, value, exact }];
    return this.call("POST", `${COUNTER}/increment`, { body: { delta }, headers }, ...answer);
  }

  read(value, { exact = true, query = STRONG, ...more } = {}) {
    return this.call("GET", `${COUNTER}${query}`, {}, 200, { id: "a", value, exact, ...more });
  }

  wait(seconds) {
    this.#seconds += seconds;
    return this;
  }

  get text() {
    return this.#lines.join("");
  }

  get whys() {
    return judge(this.text).violations.map(({ why }) => why);
  }
}

const isOk = (story) => {
  const result = judge(story.text);
  assert.deepEqual(result.violations, []);
  assert.ok(result.judged > 0, "nothing was judged");
};
const breaks = (story, why) => {
  const { whys } = story;
  assert.ok(whys.some((one) => why.test(one)), `${why} is not in ${JSON.stringify(whys)}`);
};

describe("counters", () => {
  test("a sum of what was acknowledged is ok", () => isOk(new Story().add(4, 4).add(16, 20).read(20)));
  test("a write of unknown outcome may be in a value, or not", () => {
    isOk(new Story().add(4, 4).add(16).read(20));
    isOk(new Story().add(4, 4).add(16).read(4));
  });
  test("an acknowledged write that is missing is found", () => {
    breaks(new Story().add(4, 4).add(16, 20).read(4), /missing/);
  });
  test("a write that is counted twice is found", () => breaks(new Story().add(4, 4).read(8), /twice/));
  test("a value that no writes make is found", () => breaks(new Story().add(4, 4).add(16).read(10), /no choice/));
  test("a write that was refused is in no value", () => {
    const refused = ["POST", `${COUNTER}/increment`, { body: { delta: 4 } }, 503, { code: "overloaded" }];
    breaks(new Story().add(1, 1).call(...refused).read(5), /twice or never sent/);
  });
  test("a write that began after the answer is not in it", () => breaks(new Story().read(4).add(4, 4), /never sent/));
  test("what an exact answer has shown stays", () => {
    breaks(new Story().add(4).read(4).read(0), /missing/);
    isOk(new Story().add(4).read(4).read(0, { exact: false }));
  });
  test("an answer that is not exact may be old, but not older than as_of", () => {
    isOk(new Story().add(4, 4).read(0, { exact: false, as_of: 0 }));
    breaks(new Story().add(4, 4).wait(5).read(0, { exact: false, as_of: 5_000 }), /missing/);
  });
  test("an answer has what the named version has", () => {
    const first = () => new Story().add(4).read(4, { exact: false, version: "v1" });
    isOk(first().read(4, { exact: false, query: "?at_least=v1" }));
    breaks(first().read(0, { exact: false, query: "?at_least=v1" }), /missing/);
  });
  test("the answer to a write has that write", () => breaks(new Story().add(4, 0), /missing/));
  test("decrements are bounded too", () => {
    const take = ["POST", `${COUNTER}/decrement`, { body: { delta: 4 } }];
    isOk(new Story().add(16, 16).call(...take, 200, { value: 12, exact: true }).read(12));
    breaks(new Story().add(16, 16).call(...take, 200, { value: 12, exact: true }).read(8), /missing/);
  });
  test("writes that are under way together may be seen in any order", () => {
    const story = new Story();
    const [one, other] = [4, 16].map((delta) => story.begin("POST", `${COUNTER}/increment`, { body: { delta } }));
    for (const end of [one, other]) end({ status: 200, text: '{"value":20,"exact":true}' });
    isOk(story.read(20));
  });
  test("numbers above 2^53 are compared exactly", () => {
    const large = "9007199254740993";
    isOk(new Story().add(large, large).read(large));
    breaks(new Story().add(large, large).read("9007199254740992"), /missing/);
  });
  test("lines of a body that were refused do not count, the others do", () => {
    const text = '{"id":"a","delta":4}\n{"id":"a","delta":16}\n';
    const report = { errors: [{ line: 2, code: "unavailable" }], rejected: 1 };
    const sent = () => new Story().call("POST", "/events", { text }, 200, report);
    isOk(sent().read(4));
    isOk(sent().read(20));
    breaks(sent().read(16), /no choice|missing/);
  });
  test("a number above 2^53 in a line is read exactly", () => {
    const large = "9007199254740993";
    const text = `{"id":"a","delta":${large}}`;
    const sent = () => new Story().call("POST", "/events", { text }, 200, { errors: [] });
    isOk(sent().read(large));
    breaks(sent().read("9007199254740992"), /missing/);
  });
  test("a queued event counts once", () => {
    const queued = ["POST", "/api/event", { body: { key: "a", increment: 4 } }, 202, { status: "queued" }];
    isOk(new Story().call(...queued).read(0, { exact: false }).read(4));
    breaks(new Story().call(...queued).read(8), /twice/);
    breaks(new Story().call(...queued).read(0), /missing/);
  });
});

describe("keys", () => {
  test("attempts under one key count once", () => {
    isOk(new Story().add(4, undefined, { key: "k" }).add(4, 4, { key: "k" }).add(4, 4, { key: "k" }).read(4));
    breaks(new Story().add(4, undefined, { key: "k" }).add(4, 4, { key: "k" }).read(8), /twice/);
  });
  test("another answer under the same key is found", () => {
    breaks(new Story().add(4, 4, { key: "k" }).add(16, 20).add(4, 20, { key: "k" }), /answered in two ways/);
  });
  test("two writes under one key are found", () => {
    breaks(new Story().add(4, 4, { key: "k" }).add(16, 20, { key: "k" }), /two different writes/);
  });
  test("two writes that depend on one version are found", () => {
    const write = (delta, value) => [
      "POST", `${COUNTER}/increment`, { body: { delta }, headers: { "if-match": '"v"' } }, 200, { value, exact: true },
    ];
    isOk(new Story().call(...write(4, 4)));
    breaks(new Story().call(...write(4, 4)).call(...write(16, 20)), /two writes were done/);
  });
});

describe("sets, ends and floors", () => {
  const set = (value, status = 200) => ["PUT", `${COUNTER}/value`, { body: { value } }, status, { value, exact: true }];
  test("a set takes away what was before it", () => {
    isOk(new Story().add(4, 4).call(...set(100)).add(1, 101).read(101));
    breaks(new Story().add(4, 4).call(...set(100)).read(104), /twice|no choice/);
    breaks(new Story().call(...set(100)).add(1, 101).read(100), /missing/);
    breaks(new Story().add(4, 4).call(...set(100)).read(4), /missing|no choice/);
  });
  test("a set of unknown outcome may be done at any time", () => {
    const unknown = () => new Story().add(4, 4).call("PUT", `${COUNTER}/value`, { body: { value: 100 } });
    isOk(unknown().read(4));
    isOk(unknown().read(100));
    breaks(unknown().read(50), /no choice/);
  });
  test("a deletion ends a counter", () => {
    const gone = (story) => story.call("GET", `${COUNTER}${STRONG}`, {}, 404, { code: "counter-not-found" });
    isOk(gone(new Story().add(4, 4).call("DELETE", COUNTER, {}, 200, { deleted: true })));
    breaks(gone(new Story().add(4, 4)), /missing/);
    breaks(new Story().add(4, 4).call("DELETE", COUNTER, {}, 200, {}).read(4), /twice|never/);
  });
  test("a counter with a time to live may end", () => {
    const put = ["PUT", COUNTER, { body: { ttl_seconds: 2 } }, 200, { exact: true }];
    isOk(new Story().call(...put).add(4, 4).wait(10).read(0));
  });
  test("an exact value below the floor is found", () => {
    const put = ["PUT", COUNTER, { body: { floor: 3 } }, 200, { value: 4, exact: true }];
    const take = (value) => ["POST", `${COUNTER}/decrement`, { body: { delta: 2 } }, 200, { value, exact: true }];
    breaks(new Story().add(4, 4).call(...put).call(...take(2)), /below its floor/);
  });
});

describe("limits", () => {
  const policy = (more = {}) => ["PUT", "/limits/calls", { body: {
    limit: 3, window_seconds: 60, algorithm: "sliding-window", scope: "global", on_error: "closed",
    durability: "commit", ...more,
  } }, 200, {}];
  const check = (cost = 1, allowed = true) =>
    ["POST", "/limits/calls/bob", { body: { cost } }, allowed ? 200 : 429, allowed ? {} : { code: "rate-limited" }];
  test("what is within a limit is ok", () => {
    isOk(new Story().call(...policy()).call(...check()).call(...check(2)).call(...check(1, false)));
    isOk(new Story().call(...policy()).call(...check(3)).wait(60).call(...check(3)));
  });
  test("more than the limit in a window is found", () => {
    breaks(new Story().call(...policy()).call(...check(2)).call(...check(2)), /4 admitted .*at most 3/);
    breaks(new Story().call(...policy()).call(...check(2)).wait(30).call(...check(2)), /admitted/);
  });
  test("what was given back may be used again", () => {
    const refund = ["POST", "/limits/calls/bob/refund", { body: { cost: 2 } }, 200, {}];
    isOk(new Story().call(...policy()).call(...check(3)).call(...refund).call(...check(2)));
    breaks(new Story().call(...policy()).call(...check(3)).call(...refund).call(...check(3)), /admitted/);
  });
  test("a fixed window is of the clock", () => {
    const fixed = policy({ algorithm: "fixed-window" });
    isOk(new Story().wait(50).call(...fixed).call(...check(3)).wait(20).call(...check(3)));
    breaks(new Story().wait(5).call(...fixed).call(...check(3)).call(...check(1)), /admitted/);
  });
  test("a bucket admits a burst and what flows in", () => {
    const bucket = policy({ algorithm: "token-bucket" });
    isOk(new Story().call(...bucket).call(...check(3)).wait(30).call(...check(1)));
    breaks(new Story().call(...bucket).call(...check(3)).call(...check(3)).call(...check(1)), /admitted/);
  });
  test("each datacenter has its own quota if the policy says so", () => {
    const own = policy({ scope: "datacenter" });
    const there = ["POST", "/limits/calls/bob", { body: { cost: 3 }, at: "SYD" }, 200, {}];
    isOk(new Story().call(...own).call(...check(3)).call(...there));
    breaks(new Story().call(...policy()).call(...check(3)).call(...there), /admitted/);
  });
  test("clocks that may be farther apart than a window leave nothing to judge", () => {
    const far = new Story({ clocks_ms: 120_000 }).call(...policy()).call(...check(3)).call(...check(3));
    assert.deepEqual(judge(far.text).violations, []);
  });
  test("several checks together each count", () => {
    const both = ["POST", "/limits", { body: { checks: [{ policy: "calls", key: "bob", cost: 2 }] } }, 200, {}];
    breaks(new Story().call(...policy()).call(...both).call(...both), /admitted/);
  });
  test("a policy that may admit more after a failure is not judged, and that is said", () => {
    const open = new Story().call(...policy({ on_error: "open" })).call(...check(4));
    assert.deepEqual(judge(open.text).violations, []);
    assert.match(judge(open.text).reasons[0], /after a failure/);
  });
});

describe("boards", () => {
  const board = (keep, more = {}) => ["PUT", "/boards/b", { body: { keep, ...more } }, 200, {}];
  const MEMBER = "/boards/b/members/ann";
  const score = (value, shown = value) =>
    ["POST", MEMBER, { body: { score: value } }, 200, { score: shown, exact: true }];
  const unknown = (value) => ["POST", MEMBER, { body: { score: value } }];
  const read = (value) => ["GET", `${MEMBER}${STRONG}`, {}, 200, { score: value, exact: true }];
  test("the best score counts", () => {
    isOk(new Story().call(...board("best")).call(...score(5)).call(...score(3, 5)).call(...read(5)));
    breaks(new Story().call(...board("best")).call(...score(5)).call(...score(3, 5)).call(...read(3)), /is better/);
    isOk(new Story().call(...board("best", { order: "asc" })).call(...score(5)).call(...score(3)).call(...read(3)));
    const lowest = new Story().call(...board("best", { order: "asc" })).call(...score(3)).call(...score(5, 3));
    breaks(lowest.call(...read(5)), /is better/);
  });
  test("the last score counts", () => {
    isOk(new Story().call(...board("set")).call(...score(5)).call(...score(3)).call(...read(3)));
    breaks(new Story().call(...board("set")).call(...score(5)).call(...score(3)).call(...read(5)), /a later score/);
  });
  test("a score of unknown outcome may be it, or not", () => {
    isOk(new Story().call(...board("set")).call(...score(5)).call(...unknown(3)).call(...read(5)));
    isOk(new Story().call(...board("set")).call(...score(5)).call(...unknown(3)).call(...read(3)));
  });
  test("a score that nobody sent is found", () => {
    breaks(new Story().call(...board("best")).call(...score(5)).call(...read(9)), /nobody sent/);
  });
  test("a member that is missing is found", () => {
    const gone = ["GET", `${MEMBER}${STRONG}`, {}, 404, { code: "member-not-found" }];
    breaks(new Story().call(...board("best")).call(...score(5)).call(...gone), /missing/);
  });
  test("a sum has each addition once", () => {
    const keyed = (delta) => ({ body: { delta }, headers: { "idempotency-key": `k${delta}` } });
    const add = (delta) => ["POST", MEMBER, keyed(delta), 200, { score: delta, exact: true }];
    isOk(new Story().call(...board("sum")).call(...add(4)).call(...add(16)).call(...read(20)));
    breaks(new Story().call(...board("sum")).call(...add(4)).call(...add(16)).call(...read(16)), /missing/);
    breaks(new Story().call(...board("sum")).call(...add(4)).call(...add(4)).call(...read(8)), /twice/);
  });
});

describe("numbers of Redis's dialect", () => {
  const incr = (amount, result) => {
    const answer = result === undefined ? { error: "ERR" } : { result };
    return ["POST", "/redis", { body: ["INCRBY", "n", String(amount)] }, 200, answer];
  };
  const get = (result) => ["POST", "/redis", { body: ["GET", "n"] }, 200, { result }];
  test("each addition counts once", () => {
    isOk(new Story().call(...incr(4, 4)).call(...incr(16)).call(...get("4")));
    breaks(new Story().call(...incr(4, 4)).call(...get("8")), /twice/);
    breaks(new Story().call(...incr(4, 4)).call(...get(null)), /missing/);
  });
});

describe("the form", () => {
  test("a text that is no history is refused", () => {
    assert.throws(() => judge("{}\n"), /no operation/);
    assert.throws(() => judge(""), /0 lines/);
  });
  test("a process with two calls under way is refused", () => {
    const text = new Story().add(4, 4).text.replaceAll('"type":"ok"', '"type":"invoke"');
    assert.throws(() => judge(text), /under way/);
  });
  test("a line that is left out is found", () => {
    const lines = new Story().add(4, 4).add(4, 8).text.split("\n");
    assert.throws(() => judge(lines.toSpliced(2, 1).join("\n")), /no operation/);
  });
  test("files are judged one by one, and the violated line is named", (context) => {
    const folder = mkdtempSync(join(tmpdir(), "tally-histories-"));
    context.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "good.jsonl"), new Story().add(4, 4).read(4).text);
    writeFileSync(join(folder, "bad.jsonl"), new Story().add(4, 4).read(8).text);
    writeFileSync(join(folder, "torn.jsonl"), '{"index":');
    const said = [];
    const { histories, wrong } = judgeAll([folder], (line) => said.push(line));
    assert.deepEqual([histories, wrong], [3, 2]);
    assert.match(said[0], /bad\.jsonl:5: counter a shows 8, exact: true: 4 counted twice/);
  });
});

test("sums of many equal amounts are searched in bounded time", () => {
  const items = Array.from({ length: 400 }, () => ({ amount: 3n }));
  assert.equal(waysOf(600n, items).ways.length, 2);
  assert.equal(waysOf(1n, items).ways.length, 0);
});
