"""pylibmc, which is libmemcached, in both of memcached's protocols: pylibmc_job.py PORT."""

import sys
import threading
import time

import pylibmc

SERVER = f"127.0.0.1:{sys.argv[1]}"


def work(binary):
    mc = pylibmc.Client([SERVER], binary=binary, behaviors={"tcp_nodelay": True, "ketama": True})
    mc.flush_all()
    assert mc.set("user", {"name": "ann", "likes": ["blue"]}, time=60)
    assert mc.get("user") == {"name": "ann", "likes": ["blue"]} and mc.get("nobody") is None
    assert mc.add("user", 1) is False
    try:
        assert mc.replace("nobody", 1) is False
    except pylibmc.NotFound:
        # What memcached says in the binary protocol.
        assert binary
    assert mc.set_multi({f"k{n}": n for n in range(500)}) == []
    got = mc.get_multi([f"k{n}" for n in range(510)])
    assert got == {f"k{n}": n for n in range(500)}, len(got)
    assert mc.delete_multi([f"k{n}" for n in range(500)]) and mc.get("k1") is None
    assert mc.set("n", 5) and mc.incr("n", 3) == 8 and mc.decr("n") == 7
    assert mc.set("text", "b") and mc.append("text", "c") and mc.prepend("text", "a")
    assert mc.get("text") == "abc"
    large = "ab" * 200_000
    assert mc.set("large", large, min_compress_len=1000) and mc.get("large") == large
    if not binary:
        change(mc)
        expire(mc)
    stats = mc.get_stats()
    assert len(stats) == 1 and int(stats[0][1]["cmd_set"]) > 500, stats
    threads(mc)


def change(mc):
    """Compare and swap, which pylibmc has in the text protocol."""
    mc.behaviors["cas"] = True
    assert mc.set("swap", 1)
    value, mark = mc.gets("swap")
    assert value == 1 and mc.cas("swap", 2, mark) is True
    assert mc.cas("swap", 3, mark) is False and mc.get("swap") == 2
    mc.behaviors["cas"] = False


def expire(mc):
    """Times of expiry; in the binary protocol libmemcached's touch waits for its limit of time."""
    assert mc.touch("text", 100)
    assert mc.set("short", 1, time=1)
    while mc.get("short") is not None:
        time.sleep(0.01)


def threads(mc):
    """A pool, as web applications have one: sums of four threads."""
    mc.set("sum", 0)
    pool = pylibmc.ClientPool(mc, 4)

    def add():
        for _ in range(100):
            with pool.reserve() as client:
                client.incr("sum")

    all_of_them = [threading.Thread(target=add) for _ in range(4)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    assert mc.get("sum") == 400, mc.get("sum")


for binary in (False, True):
    work(binary)
print("content")
