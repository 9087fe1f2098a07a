"""Real work on a server: test_silica_client.py HOST PORT PORTS [PASSWORD]."""

import sys

from silica_client import Client, SilicaError, direction, log_in

host, port = sys.argv[1], int(sys.argv[2])
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
client.lanes[0].token ^= 1
try:
    client.get_many([b"key %d" % n for n in range(50)])
    raise AssertionError("the token was wrong")
except SilicaError as error:
    assert "connect again" in str(error)
client.close()
print("the client is content")
