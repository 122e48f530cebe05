"""What upstash-redis and upstash-ratelimit are told: argument 1 is the address. Prints what did not hold, and nothing where all did."""

import json
import sys

from upstash_ratelimit import FixedWindow, Ratelimit, SlidingWindow, TokenBucket
from upstash_redis import Redis

redis = Redis(url=sys.argv[1], token="any", rest_retries=0)
faults = []


def expect(what, told, wanted):
    if told != wanted:
        faults.append(f"{what}: {told!r}, not {wanted!r}")


expect("incr", [redis.incr("home"), redis.incrby("home", 41), redis.decr("home")], [1, 42, 41])
expect("get", redis.get("home"), "41")
expect("set", redis.set("text", "ö", ex=60), True)
expect("ttl", redis.ttl("text"), 60)
expect("mget", redis.mget("text", "none"), ["ö", None])
expect("hset", redis.hset("hash", values={"one": "1", "two": "2"}), 2)
expect("hgetall", redis.hgetall("hash"), {"one": "1", "two": "2"})
expect("zadd", redis.zadd("race", {"ann": 1.5, "bob": 2}), 2)
expect("zincrby", redis.zincrby("race", 3, "ann"), 4.5)
expect("zrange", redis.zrange("race", 0, -1, withscores=True), [("bob", 2.0), ("ann", 4.5)])
expect("zrevrangebyscore", redis.zrevrangebyscore("race", "+inf", 2), ["ann", "bob"])
expect("zrank", [redis.zrank("race", "ann"), redis.zrank("race", "none")], [1, None])
expect("zscan", redis.zscan("race", 0), (0, [("bob", 2.0), ("ann", 4.5)]))
expect("zrandmember", sorted(redis.zrandmember("race", 5)), ["ann", "bob"])
expect("zinter", redis.zinter(["race", "race"]), ["bob", "ann"])
expect("zrangestore", redis.zrangestore("top", "race", 0, 0), 1)
expect("pfadd", [redis.pfadd("seen", "a", "b"), redis.pfadd("seen", "a")], [True, False])
expect("pfcount", redis.pfcount("seen"), 2)
pipeline = redis.pipeline()
pipeline.incr("n").incr("n").get("n")
expect("pipeline", pipeline.exec(), [1, 2, "2"])
transaction = redis.multi()
transaction.set("t", "1").incr("t")
expect("multi", transaction.exec(), [True, 2])
expect("type", redis.type("race"), "zset")
expect("scan", sorted(redis.scan(0, match="ra*")[1]), ["race"])
expect("del", redis.delete("home", "none"), 1)

for name, limiter in {
    "fixed": FixedWindow(3, 10, "d"),
    "sliding": SlidingWindow(3, 10, "d"),
    "bucket": TokenBucket(3, 3, 10, "d"),
}.items():
    limits = Ratelimit(redis=redis, limiter=limiter, prefix=name)
    verdicts = [limits.limit("me").allowed for _ in range(5)]
    expect(name, verdicts, [True, True, True, False, False])
    expect(f"{name}, left", limits.get_remaining("me"), 0)
    expect(f"{name}, of another", limits.limit("you").allowed, True)
    expect(f"{name}, reset", limits.get_reset("me") > 0, True)

print(json.dumps(faults))
