// Random commands of Redis, valid ones and others, for comparisons with a real one.

const KEYS = ["a", "b", "c"];
const TEXTS = ["1", "-5", "x", "9223372036854775807", "007", "3.5", "hello"];
const AMOUNTS = ["1", "2", "-3", "9223372036854775807", "x", "1.5"];
const ENDS = ["100", "1000", "0", "-1", "x"];

/** A command of strings, hashes and sets. */
export function commandFrom(random) {
  const pick = (items) => items[Math.floor(random() * items.length)];
  const [key, text] = [pick(KEYS), pick(TEXTS)];
  const end = () => pick([[], [], ["ex", pick(ENDS)], ["PX", "100000"], ["keepttl"], ["EXAT", "4000000000"]]);
  const makers = [
    () => ["get", key],
    () => [
      "set", key, text, ...end(), ...pick([[], [], ["nx"], ["xx"], ["NX", "XX"], ["bad"]]), ...pick([[], ["get"]]),
    ],
    () => [pick(["incr", "decr"]), key],
    () => [pick(["incrby", "decrby"]), key, pick(AMOUNTS)],
    () => ["mset", key, text, pick(KEYS), pick(TEXTS)],
    () => ["msetnx", key, text, pick(KEYS), pick(TEXTS)],
    () => ["getset", key, text],
    () => ["getdel", key],
    () => ["getex", key, ...pick([[], ["persist"], ["ex", pick(ENDS)], ["bad"]])],
    () => ["setex", key, pick(ENDS), text],
    () => ["setnx", key, text],
    () => ["del", key, pick(KEYS)],
    () => ["exists", key, pick(KEYS)],
    () => [
      pick(["expire", "pexpire"]), key, pick(["100000", "900000", "x", "-1"]),
      ...pick([[], ["nx"], ["xx"], ["gt"], ["lt"], ["nx", "gt"]]),
    ],
    () => ["persist", key],
    () => ["type", key],
    () => ["hset", key, pick(["f", "g"]), text],
    () => ["hget", key, "f"],
    () => ["hincrby", key, "f", pick(AMOUNTS)],
    () => ["sadd", key, pick(["f", "g"])],
    () => ["scard", key],
    () => ["srandmember", key, ...pick([["0"], ["x"], ["5", "bad"], ["-9223372036854775808"]])],
    () => ["incrby", key],
    () => [
      "script",
      ...pick([
        ["exists"], ["load"], ["load", "x", "y"], ["flush", "bad"], ["flush", "async", "x"], ["flush", "Sync"],
        ["nonsense"],
      ]),
    ],
  ];
  return pick(makers)();
}

const SCORES = ["1", "2", "2", "-1.5", "1e3", "inf", "-inf", "x", "0.1"];
const MEMBERS = ["ann", "bob", "cat", "dan", "ö", "z z"];
const BOUNDS = ["-inf", "+inf", "1", "(1", "2", "(2.5", "x", "", " 1", "(", "1e400", "nan"];
const NAMES = ["-", "+", "[ann", "(bob", "[cat", "(z", "x"];
const RANKS = ["0", "-1", "1", "2", "-2", "5", "-9", "x"];
const SORTED = ["z1", "z2", "z3"];

/**
 * A command of sorted sets. `level` has one score for all, so that ranges of names are those of names in order.
 */
export function sortedCommandFrom(random) {
  const pick = (items) => items[Math.floor(random() * items.length)];
  const [key, member] = [pick([...SORTED, ...SORTED, ...SORTED, "a"]), pick(MEMBERS)];
  const named = pick(["level", key]);
  const options = () =>
    pick([
      [], [], [], ["nx"], ["XX"], ["gt"], ["LT"], ["ch"], ["xx", "ch"], ["gt", "ch"], ["nx", "gt"], ["nx", "xx"],
      ["incr"], ["xx", "incr"], ["gt", "incr"],
    ]);
  const limit = () =>
    pick([[], [], ["limit", pick(["0", "1", "-1"]), pick(["2", "-1", "0"])], ["LIMIT", "x", "1"], ["limit", "1"]]);
  const scores = () => pick([[], ["withscores"], ["bad"]]);
  const weights = (count) =>
    pick([[], [], ["weights", ...Array.from({ length: count }, () => pick(["2", "-1", "0.5"]))], ["weights", "x"]]);
  const aggregate = () => pick([[], [], ["aggregate", pick(["sum", "MIN", "max", "avg"])]]);
  const several = () =>
    pick([
      ["1", pick(SORTED)], ["2", pick(SORTED), pick(SORTED)], ["2", pick(SORTED), "set"], ["3", ...SORTED], ["0", key],
      ["5", key], ["2", key, "a"],
    ]);
  const joined = () => {
    const keys = several();
    return [...keys, ...weights(keys.length - 1), ...aggregate()];
  };
  const makers = [
    () => ["zadd", key, ...options(), pick(SCORES), member, ...pick([[], [pick(SCORES), pick(MEMBERS)], ["1"]])],
    () => ["zadd", key, pick(SCORES), member],
    () => ["zadd", "level", "0", member],
    () => ["zincrby", key, pick(SCORES), member],
    () => [pick(["zscore", "zrank", "zrevrank"]), key, member],
    () => ["zmscore", key, member, pick(MEMBERS)],
    () => ["zcard", key],
    () => ["zcount", key, pick(BOUNDS), pick(BOUNDS)],
    () => ["zlexcount", named, pick(NAMES), pick(NAMES)],
    () => ["zrange", key, pick(RANKS), pick(RANKS), ...pick([[], ["rev"], ["bad"]]), ...scores()],
    () => ["zrange", key, pick(BOUNDS), pick(BOUNDS), "byscore", ...pick([[], ["REV"]]), ...limit(), ...scores()],
    () => ["zrange", named, pick(NAMES), pick(NAMES), "bylex", ...pick([[], ["rev"]]), ...limit(), ...scores()],
    () => ["zrevrange", key, pick(RANKS), pick(RANKS), ...scores()],
    () => [pick(["zrangebyscore", "zrevrangebyscore"]), key, pick(BOUNDS), pick(BOUNDS), ...limit(), ...scores()],
    () => [pick(["zrangebylex", "zrevrangebylex"]), named, pick(NAMES), pick(NAMES), ...limit()],
    () => ["zrem", key, member, pick(MEMBERS)],
    () => ["zremrangebyrank", key, pick(RANKS), pick(RANKS)],
    () => ["zremrangebyscore", key, pick(BOUNDS), pick(BOUNDS)],
    () => ["zremrangebylex", named, pick(NAMES), pick(NAMES)],
    () => [pick(["zpopmin", "zpopmax"]), key, ...pick([[], ["2"], ["x"], ["-1"], ["1", "1"]])],
    () => ["zrandmember", key, ...pick([["0"], ["x"], ["5", "bad"], ["-9223372036854775808"]])],
    () => ["zscan", key, pick(["0", "x"]), ...pick([[], ["match", "*a*"], ["count", "100"], ["count", "0"]])],
    () => [pick(["zunion", "zinter"]), ...joined(), ...scores()],
    () => ["zdiff", ...several(), ...scores()],
    () => ["zintercard", ...several(), ...pick([[], ["limit", "1"], ["limit", "-1"]])],
    () => [pick(["zunionstore", "zinterstore"]), pick([...SORTED, "a"]), ...joined()],
    () => ["zdiffstore", pick(SORTED), ...several()],
    () => ["zrangestore", pick([...SORTED, "a"]), key, pick(RANKS), pick(RANKS), ...pick([[], ["rev"]])],
    () => ["zrangestore", pick(SORTED), key, pick(BOUNDS), pick(BOUNDS), "byscore", ...limit()],
    () => ["zrangestore", pick(SORTED), named, pick(NAMES), pick(NAMES), "bylex", ...limit()],
    () => [pick(["type", "exists", "ttl", "get", "del", "persist", "incr"]), key],
    () => ["expire", key, "1000", ...pick([[], ["nx"]])],
    () => ["set", pick([...SORTED, "a"]), "5"],
    () => ["sadd", "set", member],
    () => ["zadd", key],
  ];
  return pick(makers)();
}

const SKETCHES = ["h1", "h2", "h3"];

/** A command of HyperLogLogs. */
export function elementsCommandFrom(random) {
  const pick = (items) => items[Math.floor(random() * items.length)];
  const key = pick([...SKETCHES, ...SKETCHES, "a", "z", "set"]);
  const elements = () =>
    Array.from({ length: Math.floor(random() * random() * 400) }, () => `user:${Math.floor(random() * 3_000)}`);
  const makers = [
    () => ["pfadd", key, ...elements()],
    () => ["pfadd", key, ...elements()],
    () => ["pfadd", pick(SKETCHES), "user:1"],
    () => ["pfcount", key],
    () => ["pfcount", pick(SKETCHES), key],
    () => ["pfmerge", pick(SKETCHES), ...pick([[], [key], [pick(SKETCHES), key]])],
    () => [pick(["exists", "type", "ttl", "del", "persist"]), key],
    () => ["expire", key, "1000"],
    // The number of a HyperLogLog is its counter's own: setting it leaves the elements.
    () => pick([["set", pick(SKETCHES), "text"], ["set", "a", pick(["5", "text"])]]),
    () => ["incr", "n"],
    () => ["zadd", "z", "1", "m"],
    () => ["sadd", "set", "m"],
    () => ["pfcount"],
  ];
  return pick(makers)();
}
