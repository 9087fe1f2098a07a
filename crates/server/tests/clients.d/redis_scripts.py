"""What libraries for Redis do with scripts, on an empty server whose port is the only argument."""

import sys
import threading

import redis
from redis.exceptions import LockNotOwnedError, NoScriptError

port = int(sys.argv[1])
r = redis.Redis(port=port, socket_timeout=20)

# redis-py's lock: taken, extended, renewed and given back by scripts of its own.
lock = r.lock("lock", timeout=10)
assert lock.acquire() and not r.lock("lock", timeout=10).acquire(blocking=False)
assert lock.extend(10) and 15 < r.ttl("lock") <= 20
assert lock.extend(5, replace_ttl=True) and r.ttl("lock") <= 5
assert lock.reacquire() and 5 < r.ttl("lock") <= 10
lock.release()
assert r.get("lock") is None
assert lock.acquire()
r.set("lock", "somebody else's")
for refused in (lock.release,):
    try:
        refused()
        raise AssertionError("the lock is somebody else's")
    except LockNotOwnedError:
        pass
r.delete("lock")

# Threads that add to a number under a lock lose nothing.
r.set("sum", 0)


def add():
    own = redis.Redis(port=port, socket_timeout=20)
    for _ in range(20):
        with own.lock("lock", timeout=10, sleep=0.001):
            own.set("sum", int(own.get("sum")) + 1)


threads = [threading.Thread(target=add) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert r.get("sum") == b"80", r.get("sum")

# A registered script is sent by its name, and by its text where the server has forgotten it.
multiply = r.register_script("return redis.call('GET', KEYS[1]) * ARGV[1]")
assert multiply(keys=["sum"], args=[2]) == 160
r.script_flush()
assert r.script_exists(multiply.sha) == [False]
try:
    r.evalsha(multiply.sha, 1, "sum", 2)
    raise AssertionError("the server has forgotten it")
except NoScriptError:
    pass
assert multiply(keys=["sum"], args=[3]) == 240
r.script_flush()
with r.pipeline() as pipe:
    pipe.set("factor", 5)
    multiply(keys=["factor"], args=[4], client=pipe)
    assert pipe.execute() == [True, 20]
assert r.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "sum", "x") == [
    b"sum", b"x", b"80",
]

# Functions.
code = "#!lua name=lib\nredis.register_function('twice', function(_, args) return args[1] * 2 end)"
assert r.function_load(code) == b"lib"
assert r.fcall("twice", 0, 21) == 42
assert r.function_delete("lib")

# A limiter of the library that Flask-Limiter stands on, if that is installed.
try:
    import limits
except ImportError:
    print("limits is not installed (pip install limits)", file=sys.stderr)
else:
    storage = limits.storage.storage_from_string(f"redis://localhost:{port}")
    limiter = limits.strategies.FixedWindowRateLimiter(storage)
    rate = limits.parse("5/minute")
    hits = [limiter.hit(rate, "user") for _ in range(8)]
    assert hits == [True] * 5 + [False] * 3, hits
    assert limiter.get_window_stats(rate, "user").remaining == 0
    limiter.clear(rate, "user")
    assert limiter.hit(rate, "user")

print("fine")
