"""Real work on a server: test_silica_client.py HOST PORT PORTS [PASSWORD], or on a way to it that
loses one datagram of each client: test_silica_client.py HOST PORT losses CLIENTS."""

import sys

from silica_client import Client, SilicaError, direction, log_in

host, port = sys.argv[1], int(sys.argv[2])


def lost(client):
    """Datagrams that the client's sockets had no room for."""
    ports = {"%04X" % lane.socket.getsockname()[1] for lane in client.lanes}
    rows = [line.split() for line in open("/proc/net/udp").readlines()[1:]]
    return sum(int(row[-1]) for row in rows if row[1].split(":")[1] in ports)


def small_buffers(client):
    """Many replies never overflow a buffer that holds few: nothing is sent again."""
    entries = [(b"small %d" % n, b"%d" % (n % 10) * (n % 1025)) for n in range(1500)]
    client.put_many(entries)
    assert client.get_many([key for key, _ in entries]) == [value for _, value in entries]
    assert lost(client) == 0, "%d datagrams had no room" % lost(client)
    client.close()


if sys.argv[3] == "losses":
    entries = [(b"key %d" % n, b"v" * 25 * n) for n in range(40)]
    for _ in range(int(sys.argv[4])):
        client = Client(host, port, patience=0.01, receive_bytes=32 << 10)
        client.put_many(entries)
        keys = [key for key, _ in entries] + [b"none"]
        assert client.get_many(keys) == [value for _, value in entries] + [None]
        client.close()
    print("the client is content")
    sys.exit()

client = log_in(host, port, sys.argv[4]) if len(sys.argv) > 4 else Client(host, port)
assert bool(client.lanes[0].partitions) == (len(sys.argv) > 4)
assert len(client.lanes) == int(sys.argv[3]), len(client.lanes)
assert direction(b"a", 1000) == (0xAF63DC4C ^ 0x8601EC8C) % 1000

assert client.get(b"a") is None
client.put(b"a", b"1")
assert client.get(b"a") == b"1"
client.put(b"a", b"2", expires_unix_ms=1)
assert client.get(b"a") is None
client.delete(b"a")

entries = [(b"key %d" % n, b"v" * (n % 1000)) for n in range(3000)]
client.put_many(entries)
assert client.get_many([key for key, _ in entries]) == [value for _, value in entries]
client.delete_many([b"key %d" % n for n in range(0, 3000, 2)])
found = client.get_many([key for key, _ in entries])
assert all((value is None) == (n % 2 == 0) for n, value in enumerate(found))

for key, value in [(b"", b""), (b"k" * 256, b""), (b"k", b"v" * 1025)]:
    try:
        client.put(key, value)
        raise AssertionError("it was over its limit")
    except ValueError:
        pass
for size in (32 << 10, 64 << 10):
    options = {"patience": 10, "attempts": 1, "receive_bytes": size}
    if len(sys.argv) > 4:
        small_buffers(log_in(host, port, sys.argv[4], **options))
    else:
        small_buffers(Client(host, port, **options))
client.lanes[0].token ^= 1
try:
    client.get_many([b"key %d" % n for n in range(50)])
    raise AssertionError("the token was wrong")
except SilicaError as error:
    assert "connect again" in str(error)
client.close()
print("the client is content")
