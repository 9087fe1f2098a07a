"""A client of Silica's datagram protocol (docs/protocols/datagram.md); standard library only.

    client = Client("127.0.0.1", 6380)
    client.put(b"key", b"value")
    client.get(b"key")                      # b"value"
    client.get_many([b"key", b"other"])     # [b"value", None]
"""

import socket
import struct

HEADER = struct.Struct("<3sBBxHQQ")
REQUEST = struct.Struct("<BBH")
REPLY = struct.Struct("<BxH")
EXPIRY = struct.Struct("<Q")
MAGIC, VERSION = b"SiD", 1
ASK, DIRECTORY, REQUESTS, REPLIES, REFUSAL = 1, 2, 3, 4, 5
GET, PUT, DELETE = 1, 2, 3
DATAGRAM_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX = 1400, 255, 1024
REASONS = {1: "the server was started anew: connect again", 2: "another version", 3: "malformed"}


class SilicaError(Exception):
    """The server, or the way to it, failed."""


def direction(key, ports):
    """Which of so many ports a key belongs to."""
    value = 0xCBF29CE484222325
    for byte in key:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return ((value ^ value >> 32) & 0xFFFFFFFF) % ports


def header(kind, count, sequence, word):
    return HEADER.pack(MAGIC, VERSION, kind, count, sequence, word)


def read_header(datagram):
    """Kind, count, sequence and word; nothing where it is of something else."""
    if len(datagram) < HEADER.size:
        return None
    magic, version, kind, count, sequence, word = HEADER.unpack_from(datagram)
    return (kind, count, sequence, word) if (magic, version) == (MAGIC, VERSION) else None


class Lane:
    """One port of the server."""

    def __init__(self, address, patience, attempts):
        self.socket = socket.socket(
            socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM
        )
        self.socket.connect(address)
        self.socket.settimeout(patience)
        self.attempts, self.sequence = attempts, 0
        self.ports, self.token = self.ask()

    def ask(self):
        """The server's ports, and the token of this socket."""
        # The server answers with no more than it was sent.
        question = header(ASK, 0, 0, 0).ljust(DATAGRAM_BYTES_MAX, b"\0")
        for _ in range(self.attempts):
            self.socket.send(question)
            try:
                answer = self.socket.recv(65536)
            except socket.timeout:
                continue
            head = read_header(answer)
            if head and head[0] == DIRECTORY:
                return struct.unpack_from("<%dH" % head[1], answer, HEADER.size + 8), head[3]
        raise SilicaError("nobody answers %d times" % self.attempts)

    def exchange(self, requests):
        """The replies to one datagram of requests: pairs of status and value."""
        self.sequence += 1
        datagram = header(REQUESTS, len(requests), self.sequence, self.token) + b"".join(requests)
        replies = [None] * len(requests)
        for _ in range(self.attempts):
            self.socket.send(datagram)
            try:
                while None in replies:
                    self.take(self.socket.recv(65536), replies)
                return replies
            except socket.timeout:
                pass
        raise SilicaError("nobody answers %d times" % self.attempts)

    def take(self, datagram, replies):
        """Keeps what answers the requests under way; late answers to others are left out."""
        head = read_header(datagram)
        if not head or head[2] != self.sequence:
            return
        kind, count, _, word = head
        if kind == REFUSAL:
            raise SilicaError(REASONS.get(word, "refused"))
        at, first = HEADER.size, word & 0xFFFF
        for number in range(first, first + count if kind == REPLIES else first):
            status, length = REPLY.unpack_from(datagram, at)
            at += REPLY.size
            replies[number] = status, datagram[at : at + length]
            at += length

    def close(self):
        self.socket.close()


class Client:
    """A client of one server, by its first port."""

    def __init__(self, host, port, patience=0.02, attempts=250):
        first = Lane((host, port), patience, attempts)
        others = [Lane((host, other), patience, attempts) for other in first.ports[1:]]
        self.lanes = [first] + others

    def _exchange(self, requests):
        """Replies to pairs of a key and the bytes that ask for it."""
        replies, waiting = [None] * len(requests), [[] for _ in self.lanes]
        for number, (key, data) in enumerate(requests):
            waiting[direction(key, len(self.lanes))].append((number, data))
        for lane, own in zip(self.lanes, waiting):
            for part in packed(own):
                answers = lane.exchange([data for _, data in part])
                for (number, _), answer in zip(part, answers):
                    replies[number] = answer
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
        expiry = EXPIRY.pack(expires_unix_ms)
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
            lane.close()


def request(operation, key, value=b"", expiry=b""):
    """A key and the bytes that ask for it."""
    if not 1 <= len(key) <= KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
        raise ValueError("a key has 1 to 255 bytes, a value 1,024 at most")
    return key, REQUEST.pack(operation, len(key), len(value)) + expiry + key + value


def packed(requests):
    """The requests of each datagram."""
    part, size = [], HEADER.size
    for number, request in requests:
        if part and (size + len(request) > DATAGRAM_BYTES_MAX or len(part) == 256):
            yield part
            part, size = [], HEADER.size
        part.append((number, request))
        size += len(request)
    if part:
        yield part
