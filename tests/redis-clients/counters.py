# Counters of Celery's tasks and of Django's cache, as both are published: counters.py <port> <key>
import sys

import django
from celery import Celery, shared_task
from celery.contrib.testing.worker import start_worker
from django.conf import settings
from django.core.cache import cache
from redis import Redis
from redis.exceptions import RedisError

port, key = sys.argv[1:]
url = f"redis://:{key}@127.0.0.1:{port}/0"
client = Redis.from_url(url, decode_responses=True)


def check(what, got, wanted):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def refusal(work):
    try:
        work()
    except RedisError as error:
        return str(error)
    return "nothing was refused"


# Tasks that count: the broker is not Tally, because a queue is a list.
app = Celery("tasks", broker="memory://", backend="cache+memory://")


@app.task(name="celery.ping")
def ping():
    return "pong"


@shared_task
def send_mail(user):
    first = client.set(f"celery:once:{user}", "1", nx=True, ex=60)
    counted = client.pipeline(transaction=True).incr("celery:sent").expire("celery:window", 60).execute()[0]
    client.hincrby("celery:by-user", user)
    return bool(first), counted


with start_worker(app, perform_ping_check=False, pool="solo"):
    results = [send_mail.delay(user) for user in ["ann", "bob", "ann"]]
    answers = [result.get(timeout=30) for result in results]
check("first", [first for first, _ in answers], [True, True, False])
check("counted", sorted(counted for _, counted in answers), [1, 2, 3])
check("by user", client.hgetall("celery:by-user"), {"ann": "2", "bob": "1"})

# The counters that Celery's own backend keeps, as a chord does.
backend = Celery("chord", broker="memory://", backend=url).backend
check("chord", [int(backend.incr(b"celery:chord")) for _ in range(3)], [1, 2, 3])
check("expire", bool(backend.expire(b"celery:chord", 60)), True)
check("get", int(backend.get(b"celery:chord")), 3)
backend.delete(b"celery:chord")
check("delete", backend.get(b"celery:chord"), None)
# Celery publishes each result, and messages are not what Tally is for.
check("publish", "PUBLISH" in refusal(lambda: client.publish("celery:results", "x")), True)
why = refusal(lambda: backend.store_result("one", 1, "SUCCESS"))
check("result", "PUBLISH is not what Tally is for" in why, True)
check("list", "LPUSH" in refusal(lambda: client.lpush("celery:queue", "x")), True)

settings.configure(CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url}})
django.setup()
check("add", [cache.add("hits", 0, timeout=60), cache.add("hits", 5)], [True, False])
check("incr", [cache.incr("hits"), cache.incr("hits", 9), cache.decr("hits")], [1, 10, 9])
check("get", [cache.get("hits"), cache.get("none", "-")], [9, "-"])
check("many", cache.get_many(["hits", "none"]), {"hits": 9})
check("touch", cache.touch("hits", 100), True)
# Values that are no whole numbers are pickled, and bytes are not what Tally stores.
check("text", "UTF-8" in refusal(lambda: cache.set("text", {"a": 1})), True)
check("delete", [cache.delete("hits"), cache.get("hits")], [True, None])
