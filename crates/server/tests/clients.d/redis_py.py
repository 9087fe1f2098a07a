"""Real work with redis-py on an empty server whose port is the only argument."""

import sys
import time

import redis

port = int(sys.argv[1])
for protocol_name, options in [("bytes", {}), ("text", {"decode_responses": True})]:
    r = redis.Redis(port=port, socket_timeout=20, **options)
    text = (lambda s: s) if options else (lambda s: s.encode())
    assert r.ping()
    r.flushall()

    # Sessions of a web application: values that expire.
    for n in range(500):
        r.setex(f"session:{n}", 3600, f"user {n}")
    assert r.dbsize() == 500
    assert 3000 < r.ttl("session:7") <= 3600
    assert r.get("session:499") == text("user 499")
    assert r.getex("session:1", px=40) == text("user 1")
    time.sleep(0.06)
    assert r.get("session:1") is None
    assert r.expire("session:2", 10, nx=True) is False
    assert r.persist("session:2") and r.ttl("session:2") == -1
    found = sorted(r.scan_iter(match="session:1*", count=50))
    assert len(found) == 110, len(found)

    # Counters, in pipelines with and without a transaction.
    with r.pipeline() as pipe:
        pipe.incr("hits").incrby("hits", 41).incrbyfloat("ratio", 0.5).expire("hits", 60)
        assert pipe.execute() == [1, 42, 0.5, True]
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"k{n}", n)
        pipe.mget([f"k{n}" for n in range(1000)])
        results = pipe.execute()
    assert results[:1000] == [True] * 1000
    assert results[1000] == [text(str(n)) for n in range(1000)]

    # The library's own optimistic transaction.
    def double(pipe):
        value = int(pipe.get("k21"))
        pipe.multi()
        pipe.set("k21", 2 * value)

    r.transaction(double, "k21")
    assert r.get("k21") == text("42")
    with r.pipeline() as pipe:
        pipe.watch("k1")
        r.set("k1", "changed by somebody else")
        pipe.multi()
        pipe.set("k1", "lost")
        try:
            pipe.execute()
            raise AssertionError("a watched key changed")
        except redis.WatchError:
            pass
    assert r.get("k1") == text("changed by somebody else")

    # Strings, bits, names, many keys.
    assert r.set("lock", "me", nx=True, ex=5) and not r.set("lock", "you", nx=True, ex=5)
    assert r.getset("lock", "us") == text("me") and r.getdel("lock") == text("us")
    assert r.append("s", "Hello ") == 6 and r.append("s", "World") == 11
    assert r.setrange("s", 6, "Redis") == 11 and r.getrange("s", 6, -1) == text("Redis")
    assert r.setbit("bits", 100, 1) == 0 and r.bitcount("bits") == 1 and r.bitpos("bits", 1) == 100
    field = r.bitfield("field").set("u8", "#1", 200).incrby("u8", "#1", 100, "SAT")
    assert field.execute() == [0, 255]
    assert r.bitop("XOR", "bits2", "bits", "bits") == 13
    assert r.rename("s", "t") and r.copy("t", "u") and r.exists("s", "t", "u") == 2
    assert r.mset({"a": 1, "b": 2}) and r.msetnx({"b": 3, "c": 4}) is False
    assert r.unlink("a", "b", "c") == 2
    # Objects of every type.
    assert r.lpush("list", 1, 2) == 2 and r.lrange("list", 0, -1) == [text("2"), text("1")]
    assert r.hset("hash", mapping={"f": "v", "g": 1}) == 2
    assert r.hgetall("hash") == {text("f"): text("v"), text("g"): text("1")}
    assert r.sadd("set", "x", "y") == 2 and r.smembers("set") == {text("x"), text("y")}
    assert r.zadd("zset", {"a": 1, "b": 2.5}) == 2 and r.zscore("zset", "b") == 2.5
    assert r.xadd("stream", {"f": "v"}, id="1-1") == text("1-1") and r.xlen("stream") == 1
    assert r.pfadd("counter", "a", "b") == 1 and r.pfcount("counter") == 2
    try:
        r.lpush("hash", 1)
        raise AssertionError("a hash is no list")
    except redis.ResponseError as error:
        assert "wrong kind of value" in str(error), error
    assert r.info("server")["redis_mode"] == "standalone"
    assert r.object("refcount", "t") == 1 and r.memory_usage("t") > 10
    assert r.restore("v", 5000, r.dump("t"), replace=True) and r.get("v") == r.get("t")
    assert r.lcs("t", "u") == r.get("t")
    assert r.config_set("slowlog-log-slower-than", 0) and r.get("t")
    assert any(e["command"] == b"GET t" for e in r.slowlog_get(5)), r.slowlog_get(5)
    assert r.config_set("slowlog-log-slower-than", 10000) and r.slowlog_reset()
    # Users, and connections of theirs.
    assert r.acl_setuser(
        "worker", enabled=True, passwords=["+pw"], commands=["+get", "+@hash"], keys=["k*"]
    )
    described = r.acl_getuser("worker")
    assert described["enabled"] and described["flags"] == ["on"], described
    worker = redis.Redis(port=port, username="worker", password="pw", socket_timeout=20)
    assert worker.get("k21") == b"42"
    for refused in (lambda: worker.get("other"), lambda: worker.set("k21", 1), worker.ping):
        try:
            refused()
            raise AssertionError("a worker may not do this")
        except redis.exceptions.NoPermissionError:
            pass
    assert [c["user"] for c in r.client_list()].count("worker") == 1
    assert r.client_kill_filter(user="worker") == 1
    assert r.acl_deluser("worker") == 1 and r.acl_users() == ["default"], r.acl_users()
    assert len(r.acl_genpass()) == 64 and r.acl_whoami() == "default"
    assert r.client_pause(10, all=False) and r.client_unpause()
    assert r.client_tracking_on(bcast=True, prefix=["k"]) and r.client_tracking_off()

    assert r.client_setname("worker") and r.client_getname() in ("worker", b"worker")
    assert r.config_get("save") == {"save": ""} if options else True
    r.close()
print("fine")
