# redis-py, as it is published, over Redis's protocol: python redis_tcp.py <port> <version of the protocol>
import sys

import redis
from redis.exceptions import ResponseError

port, protocol = int(sys.argv[1]), int(sys.argv[2])
client = redis.Redis(port=port, protocol=protocol, decode_responses=True, client_name="till")


def refusal(work):
    try:
        work()
    except ResponseError as error:
        return str(error)
    raise AssertionError("nothing was refused")


assert client.ping() is True
assert [client.incr("home") for _ in range(3)] == [1, 2, 3]
pipe = client.pipeline(transaction=False)
for _ in range(300):
    pipe.incr("home")
assert pipe.execute() == list(range(4, 304))
transaction = client.pipeline(transaction=True)
transaction.incrby("home", 2)
transaction.get("home")
transaction.zadd("race", {"ann": 2.5, "bob": 1})
assert transaction.execute() == [305, "305", 2]
assert client.set("text", "ö", ex=60) is True
assert client.get("text") == "ö"
assert client.get("none") is None
assert client.hset("hash", mapping={"one": 1, "two": "zwei"}) == 2
assert client.hgetall("hash") == {"one": "1", "two": "zwei"}
assert client.zscore("race", "ann") == 2.5
assert [tuple(pair) for pair in client.zrange("race", 0, -1, withscores=True)] == [("bob", 1.0), ("ann", 2.5)]
assert client.pfadd("readers", "a", "b") == 1
assert client.pfcount("readers") == 2
assert client.client_getname() == "till"
assert client.info()["server_name"] == "tally"
assert "wrong kind of value" in refusal(lambda: client.incr("hash"))
assert "WATCH is not offered here" in refusal(lambda: client.execute_command("WATCH", "a"))
listener = client.pubsub()
listener.subscribe("__keyspace@0__:heard")
assert listener.get_message(timeout=10)["type"] == "subscribe"
client.set("heard", "x")
message = listener.get_message(timeout=10)
assert (message["channel"], message["data"]) == ("__keyspace@0__:heard", "set"), message
listener.close()
