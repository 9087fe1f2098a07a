"""Programs that keep their data in Redis or memcached, each doing its main job: `programs.py PORT`."""

import sys
import threading
import time

import django
import flask
import flask_limiter
import memcache
import pymemcache
import redis
from django.conf import settings
from flask_limiter.util import get_remote_address
from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import storage_from_string
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    SlidingWindowCounterRateLimiter,
)

PORT = int(sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}/0"


def locks():
    """redis-py's Lock: one at a time, extended, given back, and gone after its time."""
    client = redis.Redis.from_url(URL)
    inside, most, count = [0], [0], [0]
    guard = threading.Lock()

    def work():
        for _ in range(10):
            with client.lock("the lock", timeout=10, sleep=0.001):
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                count[0] += 1
                with guard:
                    inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert (most[0], count[0]) == (1, 40), (most, count)
    lock = client.lock("another", timeout=0.2)
    assert lock.acquire() and lock.locked() and lock.owned()
    lock.extend(10, replace_ttl=True)
    assert client.pttl("another") > 5_000
    lock.reacquire()
    assert not client.lock("another", blocking=False).acquire()
    time.sleep(0.3)
    try:
        lock.release()
        raise AssertionError("a lock whose time is over was given back")
    except redis.exceptions.LockError:
        pass


def django_cache():
    """django-redis and Django's own backends for Redis and memcached."""
    backends = {
        "default": ("django_redis.cache.RedisCache", URL),
        "django": ("django.core.cache.backends.redis.RedisCache", URL.replace("/0", "/1")),
        "memcached": ("django.core.cache.backends.memcached.PyMemcacheCache", f"127.0.0.1:{PORT}"),
    }
    caches = {
        name: {"BACKEND": backend, "LOCATION": place, "KEY_PREFIX": name}
        for name, (backend, place) in backends.items()
    }
    settings.configure(CACHES=caches, SECRET_KEY="k")
    django.setup()
    from django.core.cache import caches as opened

    for name in backends:
        cache = opened[name]
        cache.set("user", {"name": "ann", "likes": ["blue"]}, timeout=60)
        assert cache.get("user")["name"] == "ann", name
        assert cache.get_or_set("made", lambda: "once", 60) == "once"
        assert not cache.add("made", "twice")
        cache.set("visits", 1)
        assert cache.incr("visits", 2) == 3 and cache.decr("visits") == 2
        cache.set_many({"a": 1, "b": 2})
        assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
        cache.delete_many(["a", "b"])
        assert cache.get("a", "nothing") == "nothing"
        assert cache.touch("user", 100) and not cache.touch("nobody")
    cache = opened["default"]
    assert 90 < cache.ttl("user") <= 100
    assert cache.persist("user") and cache.ttl("user") is None
    assert sorted(cache.keys("*")) == ["made", "user", "visits"]
    assert list(cache.iter_keys("us*")) == ["user"]
    with cache.lock("guard", timeout=5):
        pass
    assert cache.delete_pattern("*") == 3


def limiters():
    """Flask-Limiter, and limits below it with each of its strategies."""
    app = flask.Flask("app")
    limiter = flask_limiter.Limiter(get_remote_address, app=app, storage_uri=URL)

    @app.route("/")
    @limiter.limit("3 per minute")
    def page():
        return "page"

    codes = [app.test_client().get("/").status_code for _ in range(5)]
    assert codes == [200, 200, 200, 429, 429], codes
    for scheme in (URL, f"memcached://127.0.0.1:{PORT}"):
        storage = storage_from_string(scheme)
        limiter = FixedWindowRateLimiter(storage)
        hits = [limiter.hit(RateLimitItemPerMinute(2), "user", scheme) for _ in range(3)]
        assert hits == [True, True, False], (scheme, hits)
    for kind in (SlidingWindowCounterRateLimiter, MovingWindowRateLimiter):
        limiter = kind(storage_from_string(URL))
        hits = [limiter.hit(RateLimitItemPerMinute(2), kind.__name__) for _ in range(3)]
        assert hits == [True, True, False], (kind, hits)
    moving, second = MovingWindowRateLimiter(storage_from_string(URL)), RateLimitItemPerSecond(1)
    assert moving.hit(second, "user") and not moving.hit(second, "user")
    assert moving.get_window_stats(second, "user").remaining == 0
    time.sleep(1.1)
    assert moving.hit(second, "user")


def memcached():
    """python-memcached and pymemcache."""
    client = memcache.Client([f"127.0.0.1:{PORT}"])
    assert client.set("m:text", "text") and client.get("m:text") == "text"
    assert client.set("m:object", {"a": [1, 2]}) and client.get("m:object") == {"a": [1, 2]}
    assert client.set("m:large", "x" * 300_000, min_compress_len=1000)
    assert len(client.get("m:large")) == 300_000
    assert client.add("m:text", "other") == 0 and client.replace("m:text", "other")
    assert client.set("m:count", 5) and client.incr("m:count", 2) == 7
    assert client.set_multi({"m:1": "1", "m:2": "2"}) == []
    assert client.get_multi(["m:1", "m:2", "m:3"]) == {"m:1": "1", "m:2": "2"}
    value = client.gets("m:text")
    assert value == "other" and client.cas("m:text", "third")
    assert client.delete("m:text") and client.get("m:text") is None
    client = pymemcache.PooledClient(("127.0.0.1", PORT))
    assert client.set("m:p", b"bytes", expire=60) and client.get("m:p") == b"bytes"
    value, token = client.gets("m:p")
    assert client.cas("m:p", b"new", token) and client.cas("m:p", b"newer", token) is False
    assert client.append("m:p", b"!") and client.get("m:p") == b"new!"


for job in (locks, django_cache, limiters, memcached):
    redis.Redis.from_url(URL).flushall()
    job()
print("content")
