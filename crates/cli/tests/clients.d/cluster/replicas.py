"""Reads from the replicas of a cluster: replicas.py PORT

Writes keys, waits until replicas have them, and reads through redis-py's cluster client, which sends
reads to replicas, too. At least one replica must have served some.
"""

import logging
import sys
import time

from redis import Redis
from redis.cluster import ClusterNode, RedisCluster

logging.disable(logging.CRITICAL)
START = [ClusterNode("127.0.0.1", int(sys.argv[1]))]
KEYS = 300

writer = RedisCluster(startup_nodes=START)
for n in range(KEYS):
    assert writer.set(f"r{n}", n)
begun = time.monotonic()
# A replica is listed from when it has its primary's data.
while len(writer.get_replicas()) < 3:
    assert time.monotonic() < begun + 30, writer.get_nodes()
    time.sleep(0.2)
    writer.nodes_manager.initialize()
replicas = [Redis(node.host, node.port) for node in writer.get_replicas()]
while sum(replica.dbsize() for replica in replicas) < KEYS:
    assert time.monotonic() < begun + 30, "replicas do not get the keys"
    time.sleep(0.05)
reader = RedisCluster(startup_nodes=START, read_from_replicas=True)
for n in range(KEYS):
    assert reader.get(f"r{n}") == b"%d" % n, n
pipeline = reader.pipeline()
for n in range(KEYS):
    pipeline.get(f"r{n}")
assert pipeline.execute() == [b"%d" % n for n in range(KEYS)]
served = 0
for replica in replicas:
    assert replica.info("replication")["role"] == "slave"
    served += replica.info("commandstats").get("cmdstat_get", {}).get("calls", 0)
assert served > 0, "no replica was asked"
assert writer.cluster_shards()
print("content")
