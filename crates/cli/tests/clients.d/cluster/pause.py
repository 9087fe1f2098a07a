"""How long a key waits while its slot moves: pause.py FROM_PORT TO_PORT [MEBIBYTES] [CLIENTS]

Two nodes of a cluster, of which the first serves slot 12182. Fills that slot with values of 10 KiB,
moves it as redis-cli does (10 keys at a time), and lets clients read and write its keys meanwhile,
which follow ASK, MOVED and TRYAGAIN at once. Prints the longest time from a request to its final
answer, and percentiles, before and during the move.
"""

import random
import socket
import sys
import threading
import time

FROM, TO = int(sys.argv[1]), int(sys.argv[2])
MIB = int(sys.argv[3]) if len(sys.argv) > 3 else 100
CLIENTS = int(sys.argv[4]) if len(sys.argv) > 4 else 4
VALUE, SLOT = b"v" * 10240, 12182
KEYS = [b"{foo}%d" % n for n in range(MIB * (1 << 20) // len(VALUE))]


class Node:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def reply(self):
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return line if kind == b"-" else rest

    def ask(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))
        return self.reply()


class Client(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.nodes = {port: Node(port) for port in (FROM, TO)}
        self.home, self.times, self.wrong, self.again = FROM, [], 0, 0
        self.stop = False

    def call(self, *words):
        port, asking = self.home, False
        while True:
            node = self.nodes[port]
            if asking:
                node.ask(b"ASKING")
            got = node.ask(*words)
            asking = False
            if isinstance(got, bytes) and got.startswith(b"-"):
                if got.startswith(b"-ASK"):
                    port, asking = int(got.rsplit(b":", 1)[1]), True
                elif got.startswith(b"-MOVED"):
                    port = self.home = int(got.rsplit(b":", 1)[1])
                elif got.startswith(b"-TRYAGAIN"):
                    port, self.again = self.home, self.again + 1
                else:
                    raise RuntimeError(got)
                continue
            return got

    def run(self):
        while not self.stop:
            key = random.choice(KEYS)
            began = time.monotonic()
            if random.random() < 0.5:
                self.wrong += self.call(b"GET", key) != VALUE
            else:
                self.wrong += self.call(b"SET", key, VALUE) != b"OK"
            self.times.append(time.monotonic() - began)


def show(name, times):
    times.sort()
    at = lambda share: 1000 * times[min(len(times) - 1, int(share * len(times)))]
    print(f"{name}: {len(times)} requests, median {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, "
          f"p99.9 {at(0.999):.2f} ms, longest {1000 * times[-1]:.2f} ms", flush=True)


admin, other = Node(FROM), Node(TO)
for key in KEYS:
    assert admin.ask(b"SET", key, VALUE) == b"OK"
clients = [Client() for _ in range(CLIENTS)]
for client in clients:
    client.start()
time.sleep(3)
before = [time for client in clients for time in client.times]
counts = [len(client.times) for client in clients]
ids = {port: Node(port).ask(b"CLUSTER", b"MYID") for port in (FROM, TO)}
slot = b"%d" % SLOT
began = time.monotonic()
assert other.ask(b"CLUSTER", b"SETSLOT", slot, b"IMPORTING", ids[FROM]) == b"OK"
assert admin.ask(b"CLUSTER", b"SETSLOT", slot, b"MIGRATING", ids[TO]) == b"OK"
while keys := admin.ask(b"CLUSTER", b"GETKEYSINSLOT", slot, b"10"):
    moved = admin.ask(b"MIGRATE", b"127.0.0.1", b"%d" % TO, b"", b"0", b"60000", b"KEYS", *keys)
    assert moved == b"OK", moved
assert other.ask(b"CLUSTER", b"SETSLOT", slot, b"NODE", ids[TO]) == b"OK"
assert admin.ask(b"CLUSTER", b"SETSLOT", slot, b"NODE", ids[TO]) == b"OK"
took = time.monotonic() - began
time.sleep(0.5)
for client in clients:
    client.stop = True
for client in clients:
    client.join()
during = [time for client, count in zip(clients, counts) for time in client.times[count:]]
show("before", before)
show("during", during)
print(f"moved {MIB} MiB in {took:.1f} s, {sum(c.again for c in clients)} times TRYAGAIN, "
      f"{sum(c.wrong for c in clients)} wrong")
