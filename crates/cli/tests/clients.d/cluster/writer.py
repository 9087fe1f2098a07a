"""Writes and reads through a cluster until the file STOP is there, then checks every key.

writer.py PORT STOP [VALUE_BYTES]

Each key has one writer, so what a read must return is known: what was acknowledged last, or, where
an attempt failed without an answer, what that attempt wrote.
"""

import logging
import os
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

# It tells of each redirection.
logging.disable(logging.CRITICAL)
PORT, STOP = int(sys.argv[1]), sys.argv[2]
PAD = "x" * int(sys.argv[3] if len(sys.argv) > 3 else 20)
THREADS, KEYS = 4, 400


class Writer(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.number, self.ops, self.wrong, self.failed = number, 0, [], 0
        self.worst_ms = 0.0
        self.strings, self.counts, self.fields = {}, {}, {}
        self.client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", PORT)])

    def timed(self, call, *args):
        began = time.monotonic()
        answer = call(*args)
        self.worst_ms = max(self.worst_ms, 1000 * (time.monotonic() - began))
        self.ops += 1
        return answer

    def check(self, key, got, allowed):
        if got not in allowed:
            self.wrong.append((key, got, sorted(map(str, allowed))))

    def step(self, i):
        n = i % KEYS
        key = f"s{self.number}-{n}"
        allowed = self.strings.setdefault(key, {None})
        got = self.timed(self.client.get, key)
        self.check(key, got and int(got.split(b":")[0]), allowed)
        value = i + 1
        allowed.add(value)
        self.timed(self.client.set, key, f"{value}:{PAD}")
        self.strings[key] = {value}
        key = f"c{self.number}-{n}"
        allowed = self.counts.setdefault(key, {0})
        tries = {count + 1 for count in allowed}
        self.counts[key] = allowed | tries
        got = self.timed(self.client.incr, key)
        self.check(key, got, tries)
        self.counts[key] = {got}
        key = f"h{self.number}-{n % 40}"
        fields = self.fields.setdefault(key, {})
        field = str(i % 50)
        fields[field] = fields.get(field, {None}) | {value}
        self.timed(self.client.hset, key, field, value)
        fields[field] = {value}
        if i % 7 == 0:
            key = f"s{self.number}-{n}"
            self.strings[key].add(None)
            self.timed(self.client.delete, key)
            self.strings[key] = {None}

    def run(self):
        i = 0
        while not os.path.exists(STOP):
            try:
                self.step(i)
            except Exception as error:  # noqa: BLE001
                self.failed += 1
                if self.failed < 5:
                    print(f"failed: {type(error).__name__}: {error}", flush=True)
                time.sleep(0.01)
            i += 1

    def verify(self):
        for key, allowed in self.strings.items():
            got = self.client.get(key)
            self.check(key, got and int(got.split(b":")[0]), allowed)
        for key, allowed in self.counts.items():
            self.check(key, int(self.client.get(key) or 0), allowed)
        for key, fields in self.fields.items():
            there = self.client.hgetall(key)
            for field, allowed in fields.items():
                got = there.get(field.encode())
                self.check(f"{key}.{field}", got and int(got), allowed)


writers = [Writer(number) for number in range(THREADS)]
for writer in writers:
    writer.start()
for writer in writers:
    writer.join()
for writer in writers:
    writer.verify()
wrong = [one for writer in writers for one in writer.wrong]
ops, failed = sum(w.ops for w in writers), sum(w.failed for w in writers)
worst_ms = max(w.worst_ms for w in writers)
print(f"ops {ops} failed {failed} wrong {len(wrong)} worst_ms {worst_ms:.1f}")
if wrong:
    print(wrong[:10])
    sys.exit(1)
if failed > 20 or ops < 1000:
    sys.exit(2)
print("content")
