"""A client of Silica's datagram protocol (docs/protocols/datagram.md); standard library only.

    client = Client("127.0.0.1", 6380)      # or log_in("127.0.0.1", 6379, "password")
    client.put(b"key", b"value")
    client.get(b"key")                      # b"value"
    client.get_many([b"key", b"other"])     # [b"value", None]
"""

import itertools
import socket
import struct

HEADER = struct.Struct("<3sBBxHQQ")
REQUEST = struct.Struct("<BBH")
REPLY = struct.Struct("<BxH")
MAGIC, VERSION = b"SiD", 1
ASK, DIRECTORY, REQUESTS, REPLIES, REFUSAL = 1, 2, 3, 4, 5
GET, PUT, DELETE = 1, 2, 3
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

    def __init__(self, address, patience, attempts, password=b""):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.connect(address)
        self.socket.settimeout(patience)
        self.attempts, self.sequence = attempts, 0
        # The server answers with no more than it was sent.
        padded = password.ljust(DATAGRAM_BYTES_MAX - HEADER.size, b"\0")
        count, self.token, answer = next(self.answers(DIRECTORY, ASK, 0, 0, padded))
        numbers = struct.unpack_from("<%dH" % (4 + count), answer, HEADER.size)
        self.ports, self.partitions = numbers[4:], numbers[3]
        self.seed = answer[HEADER.size + 2 * len(numbers) :][:16]

    def answers(self, wanted, kind, count, word, rest):
        """Sends a datagram until its sender has heard enough; count, word and all bytes of each
        answer of the kind that is wanted. Late ones to others are left out."""
        datagram = HEADER.pack(MAGIC, VERSION, kind, count, self.sequence, word) + rest
        for _ in range(self.attempts):
            self.socket.send(datagram)
            try:
                while True:
                    answer = self.socket.recv(65536).ljust(HEADER.size, b"\0")
                    magic, version, kind, count, sequence, word = HEADER.unpack_from(answer)
                    if (magic, version, sequence) == (MAGIC, VERSION, self.sequence):
                        if kind == REFUSAL:
                            raise SilicaError(REASONS.get(word, "refused"))
                        if kind == wanted:
                            yield count, word, answer
            except socket.timeout:
                pass
        raise SilicaError("nobody answers %d times" % self.attempts)

    def exchange(self, requests):
        """The replies to one datagram of requests: pairs of status and value."""
        self.sequence += 1
        replies, sent = [None] * len(requests), (len(requests), self.token, b"".join(requests))
        for count, word, answer in self.answers(REPLIES, REQUESTS, *sent):
            at, first = HEADER.size, word & 0xFFFF
            for number in range(first, first + count):
                status, length = REPLY.unpack_from(answer, at)
                at += REPLY.size + length
                replies[number] = status, answer[at - length : at]
            if None not in replies:
                return replies


class Client:
    """A client of one server, by its first port."""

    def __init__(self, host, port, patience=0.02, attempts=250, given=b""):
        first = Lane((host, port), patience, attempts, given)
        others = [Lane((host, other), patience, attempts, given) for other in first.ports[1:]]
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
            if status > 1:
                raise SilicaError("too large" if status == 2 else "the engine failed")
        return replies

    def get_many(self, keys):
        """The values of keys; None for each that is not there."""
        replies = self._exchange([request(GET, key) for key in keys])
        return [value if status == 0 else None for status, value in replies]

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
