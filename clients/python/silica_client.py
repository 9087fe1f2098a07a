"""A client of Silica's datagram protocol (docs/protocols/datagram.md); standard library only.

    client = Client("127.0.0.1", 6380)      # or log_in("127.0.0.1", 6379, "password")
    client.put(b"key", b"value")
    client.get(b"key")                      # b"value"
    client.get_many([b"key", b"other"])     # [b"value", None]
"""

import itertools
import socket
import struct

HEADER = struct.Struct("<3sBBBHQQ")
REQUEST = struct.Struct("<BBH")
REPLY = struct.Struct("<BxH")
MAGIC, VERSION = b"SiD", 1
ASK, DIRECTORY, REQUESTS, REPLIES, REFUSAL = 1, 2, 3, 4, 5
GET, PUT, DELETE = 1, 2, 3
DONE, MISSING, TOO_LARGE, FAILED, NO_ROOM = 0, 1, 2, 3, 4
# What a waiting datagram takes of a socket's buffer: 2,304 bytes on the loopback device of Linux, a
# page and its management in some drivers. A quarter of the buffer is free only a little later.
WAITING_BYTES = 4352
DATAGRAM_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX = 1400, 255, 1024
REASONS = {
    1: "the server was started anew, or its users changed: connect again",
    2: "another version",
    3: "malformed",
    4: "the server wants a password: log in",
}


class SilicaError(Exception):
    """The server, or the way to it, failed."""


def direction(key, ports):
    """Which of so many ports a key belongs to."""
    value = 0xCBF29CE484222325
    for byte in key:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return ((value ^ value >> 32) & 0xFFFFFFFF) % ports


def hash_of(seed, key):
    """The lower half of SipHash-1-3 with 128 bits."""
    mask, (k0, k1) = 2**64 - 1, struct.unpack("<QQ", seed)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count):
        for a, b, by, half in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)) * count:
            v[a] = v[a] + v[b] & mask
            v[b] = (v[b] << by | v[b] >> 64 - by) & mask ^ v[a]
            if half:
                v[a] = (v[a] << 32 | v[a] >> 32) & mask

    data = key + b"\0" * (7 - len(key) % 8) + bytes([len(key) & 255])
    for (word,) in struct.iter_unpack("<Q", data):
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def log_in(host, port, password=None, user="default", **options):
    """A client with a pass, which a user is given over a connection to the server's port."""
    words = [["AUTH", user, password]] if password is not None else []
    with socket.create_connection((host, port), 10) as connection:
        answers = connection.makefile("rb")
        for request in words + [["DATAGRAMS"]]:
            parts = "".join("$%d\r\n%s\r\n" % (len(word), word) for word in request)
            connection.sendall(("*%d\r\n%s" % (len(request), parts)).encode())
            line = answers.readline()
            if line[:1] not in b"+*":
                raise SilicaError(line.decode().strip())
        first = int(answers.readline()[1:])
        answers.readline()
        return Client(host, first, given=bytes.fromhex(answers.readline().decode()), **options)


class Lane:
    """One port of the server."""

    def __init__(self, address, patience, attempts, password, receive_bytes):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        granted = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        # Two datagrams hold some reply with a value beside short ones; a byte says how many.
        self.room = max(2, min(granted // WAITING_BYTES, 255))
        self.socket.connect(address)
        self.patience, self.attempts, self.sequence = patience, attempts, 0
        count, self.token, answer = self.ask(password)
        numbers = struct.unpack_from("<%dH" % (4 + count), answer, HEADER.size)
        self.ports, self.partitions = numbers[4:], numbers[3]
        self.seed = answer[HEADER.size + 2 * len(numbers) :][:16]

    def send(self, kind, room, count, word, rest):
        header = HEADER.pack(MAGIC, VERSION, kind, room, count, self.sequence, word)
        self.socket.send(header + rest)

    def heard(self, wanted, in_vain):
        """Sequence number, count, word and all bytes of each answer of the kind that is wanted,
        until none comes for a time. It doubles while nothing comes, up to eight times."""
        self.socket.settimeout(self.patience * 2 ** min(in_vain, 3))
        try:
            while True:
                answer = self.socket.recv(65536).ljust(HEADER.size, b"\0")
                magic, version, kind, _, count, sequence, word = HEADER.unpack_from(answer)
                if (magic, version) != (MAGIC, VERSION):
                    continue
                if kind == REFUSAL and sequence == self.sequence:
                    raise SilicaError(REASONS.get(word, "refused"))
                if kind == wanted:
                    yield sequence, count, word, answer
        except socket.timeout:
            pass

    def ask(self, password):
        """The directory: count, word and all bytes."""
        # The server answers with no more than it was sent.
        padded = password.ljust(DATAGRAM_BYTES_MAX - HEADER.size, b"\0")
        for in_vain in range(self.attempts):
            self.send(ASK, 0, 0, 0, padded)
            for _, count, word, answer in self.heard(DIRECTORY, in_vain):
                return count, word, answer
        raise SilicaError("nobody answers %d times" % self.attempts)

    def exchange(self, requests):
        """The replies to one datagram of requests: pairs of status and value. What is missing is
        asked for again, in a datagram of its own; late replies to any of them are taken."""
        replies, missing, sent, in_vain = [None] * len(requests), range(len(requests)), {}, 0
        while in_vain < self.attempts:
            self.sequence += 1
            sent[self.sequence] = missing
            data = b"".join(requests[number] for number in missing)
            self.send(REQUESTS, min(self.room, 1 + len(missing)), len(missing), self.token, data)
            waiting = set(missing)
            for sequence, count, word, answer in self.heard(REPLIES, in_vain):
                at, first = HEADER.size, word & 0xFFFF
                for number in sent.get(sequence, ())[first : first + count]:
                    status, length = REPLY.unpack_from(answer, at)
                    at += REPLY.size + length
                    if status != NO_ROOM:
                        replies[number] = status, answer[at - length : at]
                    if status != NO_ROOM or sequence == self.sequence:
                        waiting.discard(number)
                if not waiting:
                    break
            still = [number for number in missing if replies[number] is None]
            if not still:
                return replies
            in_vain = in_vain + 1 if len(still) == len(missing) else 0
            missing = still
        raise SilicaError("nobody answers %d times" % self.attempts)


class Client:
    """A client of one server, by its first port. It waits for `patience` seconds before it sends
    again, and gives up after so many `attempts` in a row that nothing came of. Each of its sockets
    asks the system to hold `receive_bytes` of replies."""

    def __init__(
        self, host, port, patience=0.02, attempts=64, given=b"", receive_bytes=4 << 20
    ):
        settings = patience, attempts, given, receive_bytes
        first = Lane((host, port), *settings)
        others = [Lane((host, other), *settings) for other in first.ports[1:]]
        self.lanes = [first] + others

    def direction(self, key):
        """The number of the lane that a key belongs to."""
        first, ports = self.lanes[0], len(self.lanes)
        if first.partitions:
            return (hash_of(first.seed, key) * first.partitions >> 64) % ports
        return direction(key, ports)

    def _exchange(self, requests):
        """Replies to pairs of a key and the bytes that ask for it."""
        replies, waiting = [None] * len(requests), [[] for _ in self.lanes]
        for number, (key, data) in enumerate(requests):
            waiting[self.direction(key)].append((number, data))
        for lane, own in zip(self.lanes, waiting):
            for numbers, part in packed(own):
                for number, reply in zip(numbers, lane.exchange(part)):
                    replies[number] = reply
        for status, _ in replies:
            if status > MISSING:
                raise SilicaError("too large" if status == TOO_LARGE else "the engine failed")
        return replies

    def get_many(self, keys):
        """The values of keys; None for each that is not there."""
        replies = self._exchange([request(GET, key) for key in keys])
        return [value if status == DONE else None for status, value in replies]

    def put_many(self, entries, expires_unix_ms=0):
        """Stores pairs of key and value, for ever or until a time."""
        expiry = struct.pack("<Q", expires_unix_ms)
        self._exchange([request(PUT, key, value, expiry) for key, value in entries])

    def delete_many(self, keys):
        """Removes keys, those that are there."""
        self._exchange([request(DELETE, key) for key in keys])

    def get(self, key):
        return self.get_many([key])[0]

    def put(self, key, value, expires_unix_ms=0):
        self.put_many([(key, value)], expires_unix_ms)

    def delete(self, key):
        self.delete_many([key])

    def close(self):
        for lane in self.lanes:
            lane.socket.close()


def request(operation, key, value=b"", expiry=b""):
    """A key and the bytes that ask for it."""
    if not 1 <= len(key) <= KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
        raise ValueError("a key has 1 to 255 bytes, a value 1,024 at most")
    return key, REQUEST.pack(operation, len(key), len(value)) + expiry + key + value


def packed(requests):
    """The requests of each datagram, after their numbers."""
    at = 0
    while at < len(requests):
        part = requests[at : at + 256]
        sizes = itertools.accumulate((len(data) for _, data in part), initial=HEADER.size)
        count = sum(size <= DATAGRAM_BYTES_MAX for size in sizes) - 1
        yield zip(*part[:count])
        at += count
