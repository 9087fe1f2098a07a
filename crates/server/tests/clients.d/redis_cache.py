"""redis-py's own client-side caching: what it has read it answers itself, until it is told."""

import sys
import time

import redis
from redis.cache import CacheConfig

port = int(sys.argv[1])
cached = redis.Redis(port=port, protocol=3, cache_config=CacheConfig(max_size=100))
other = redis.Redis(port=port)
cache = cached.get_cache()


def await_value(key, want):
    """Reads `key` until it is `want`: what is told comes on its own time."""
    for _ in range(400):
        if cached.get(key) == want:
            return
        time.sleep(0.005)
    raise AssertionError(f"{key} is {cached.get(key)}, not {want}")


other.flushall()
other.set("a", 1)
assert cached.get("a") == b"1"
assert cache.size == 1
assert cached.get("a") == b"1"
other.set("a", 2)
await_value("a", b"2")
other.incr("a")
await_value("a", b"3")
assert cached.mget("a", "b") == [b"3", None]
other.mset({"a": 4, "b": 5})
await_value("b", b"5")
for _ in range(400):
    if cached.mget("a", "b") == [b"4", b"5"]:
        break
    time.sleep(0.005)
assert cached.mget("a", "b") == [b"4", b"5"]
other.set("c", 1, px=50)
assert cached.get("c") in (b"1", None)
await_value("c", None)
other.eval("redis.call('set', KEYS[1], ARGV[1])", 1, "a", "7")
await_value("a", b"7")
other.flushall()
await_value("a", None)
print("fine")
